/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Whose cookies pages do not depend on: of visitors' counts, of consent banners,
 * and what the office says. docs/caching.md has the list for users.
 */

#include <string.h>

#include "cache/cache.h"

#include "naproxy.h"

#define NAME_MOST	64		/* a longer one is nobody's */

/* A * at the end is for any letters, or none. */
static const char * const harmless[] = {
	/* Google */
	"_ga", "_ga_*", "_gid", "_gat*", "_gac_*", "_gcl_*", "_dc_gtm_*",
	"__utm*", "__gads", "__gpi", "__eoi",
	/* Matomo */
	"_pk_id.*", "_pk_ses.*", "_pk_ref.*", "_pk_cvar.*", "_pk_hsr.*",
	"mtm_consent", "mtm_consent_removed", "mtm_cookie_consent",
	/* Meta, Microsoft, Hotjar, Pinterest, TikTok, HubSpot, Snowplow */
	"_fbp", "_fbc", "_clck", "_clsk", "_uetsid", "_uetvid", "_hj*",
	"_pin_unauth", "_ttp", "__hstc", "__hssc", "__hssrc", "hubspotutk",
	"_sp_id.*", "_sp_ses.*",
	/* Where visitors of a WooCommerce shop came from, by a script */
	"sbjs_*",
	/* The IAB's for all banners */
	"euconsent", "euconsent-v2", "eupubconsent", "eupubconsent-v2",
	"addtl_consent", "usprivacy",
	/* Cookiebot, OneTrust, Usercentrics, Didomi, Axeptio, TrustArc */
	"CookieConsent", "OptanonConsent", "OptanonAlertBoxClosed",
	"uc_settings", "uc_user_interaction", "didomi_token", "axeptio_*",
	"notice_behavior", "notice_preferences", "notice_gdpr_prefs",
	"cmapi_cookie_privacy", "TAconsentID",
	/* consentmanager, Tealium, iubenda, CookieFirst, CookieHub */
	"__cmp*", "CONSENTMGR", "_iub_cs-*", "cookiefirst-*", "cookiehub",
	/* Klaro, tarteaucitron, Osano, orestbida's */
	"klaro", "tarteaucitron", "cookieconsent_status", "cc_cookie",
	/* WordPress: Complianz, Borlabs, CookieYes, Real Cookie Banner, others */
	"cmplz_*", "borlabs-cookie*", "cookieyes-consent", "cky-*",
	"cookielawinfo-*", "CookieLawInfoConsent", "viewed_cookie_policy",
	"real_cookie_banner*", "cookie_notice_accepted", "moove_gdpr_popup",
	"wp_consent_*",
	/* Drupal, TYPO3 */
	"cookie-agreed", "cookie-agreed-*", "cookiesjsr", "cookie_optin",
	"dp_cookieconsent_status",
};

static bool
cookie_known(const char *name, size_t len)
{
	size_t most, u;

	for (u = 0; u < sizeof harmless / sizeof *harmless; u++) {
		most = strlen(harmless[u]);
		if (harmless[u][most - 1] == '*') {
			if (len >= most - 1 &&
			    !memcmp(name, harmless[u], most - 1))
				return (true);
		} else if (len == most && !memcmp(name, harmless[u], most)) {
			return (true);
		}
	}
	return (false);
}

static bool
cookie_hashed(const struct naproxy_server *conf, uint64_t hash)
{
	unsigned u;

	for (u = 0; u < NAPROXY_COOKIES && conf->cookie[u] != 0; u++)
		if (conf->cookie[u] == hash)
			return (true);
	return (false);
}

/* By its name, or by its beginning and a *. */
static bool
cookie_office(const struct naproxy_server *conf, const char *name, size_t len)
{
	uint64_t hash = 0;
	size_t u;

	if (conf->cookie[0] == 0)
		return (false);
	for (u = 0; u < len; u++) {
		hash = np_hash(hash, name + u, 1);
		if (cookie_hashed(conf, np_hash(hash, "*", 1)))
			return (true);
	}
	return (cookie_hashed(conf, hash));
}

/* Does the office say of this header that it says who is asking? */
bool
np_header_private(const struct naproxy_server *conf, txt hd)
{
	const char *p;
	uint64_t hash;
	char c;

	if (conf->cookie[0] == 0)
		return (false);
	hash = np_hash(0, ";", 1);
	for (p = hd.b; p < hd.e && *p != ':'; p++) {
		c = *p >= 'A' && *p <= 'Z' ? (char)(*p + ('a' - 'A')) : *p;
		hash = np_hash(hash, &c, 1);
	}
	return (cookie_hashed(conf, hash));
}

static bool
cookie_one(const struct naproxy_server *conf, const char *b, const char *e)
{
	const char *equals;
	size_t len;

	equals = memchr(b, '=', (size_t)(e - b));
	if (equals == NULL)
		return (false);
	while (equals > b && (equals[-1] == ' ' || equals[-1] == '\t'))
		equals--;
	len = (size_t)(equals - b);
	return (len > 0 && len <= NAME_MOST &&
	    (cookie_known(b, len) || cookie_office(conf, b, len)));
}

/* Are all cookies of this header in the lists? An invalid cookie is not. */
bool
np_cookies_harmless(const struct naproxy_server *conf, const char *header)
{
	const char *e;

	for (;; header = e + 1) {
		header += strspn(header, " \t");
		e = header + strcspn(header, ";");
		if (e > header && !cookie_one(conf, header, e))
			return (false);
		if (*e == '\0')
			return (true);
	}
}

/*
 * Of the box's own web interface: a browser sends its cookies to every port of a host.
 */
static bool
cookie_own(const char *b, const char *e)
{
	static const char * const own[] = {
		"__Host-naproxy", "naproxy", "naproxy_theme",
	};
	size_t len, u;

	b += strspn(b, " \t");
	len = strcspn(b, "=; \t");
	if (b + len >= e || b[len + strspn(b + len, " \t")] != '=')
		return (false);
	for (u = 0; u < sizeof own / sizeof *own; u++)
		if (strlen(own[u]) == len && !memcmp(b, own[u], len))
			return (true);
	return (false);
}

/* Copy the others to `dst`, which has room for all. */
void
np_cookies_not_ours(char *dst, const char *header)
{
	const char *e;
	char *to = dst;

	for (;; header = e + 1) {
		e = header + strcspn(header, ";");
		if (!cookie_own(header, e)) {
			if (to == dst)
				header += strspn(header, "; \t");
			else
				*to++ = ';';
			if (header < e)
				to = mempcpy(to, header, (size_t)(e - header));
		}
		if (*e == '\0')
			break;
	}
	*to = '\0';
}
