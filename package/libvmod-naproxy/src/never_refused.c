/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Requests that somebody's work hangs on, whoever makes them. No robot reads
 * these for an index, and who is refused one may not come again.
 */

#include <string.h>
#include <strings.h>

#include "cache/cache.h"

#include "crawlers.h"
#include "naproxy.h"

#define METHOD_HEAD	1	/* in np_method_name; 0 is GET */

/*
 * Parts of the paths of WebDAV, CalDAV and CardDAV, as Nextcloud, ownCloud,
 * Baikal, DAViCal, SOGo and EGroupware have them.
 */
static const char * const dav_part[] = {
	"dav", "dav.php", "webdav", "caldav", "caldav.php", "carddav",
	"carddav.php", "groupdav", "groupdav.php", "cal.php", "card.php",
	"remote.php",
};

static bool
path_dav(const char *path, size_t len)
{
	const char *p, *end;
	size_t part;
	unsigned u;

	for (p = path; p < path + len; p = end + 1) {
		end = memchr(p, '/', len - (size_t)(p - path));
		if (end == NULL)
			end = path + len;
		part = (size_t)(end - p);
		for (u = 0; u < sizeof dav_part / sizeof *dav_part; u++)
			if (part == strlen(dav_part[u]) &&
			    !strncasecmp(p, dav_part[u], part))
				return (true);
	}
	return (false);
}

/* Is this a parameter with a value? */
static bool
query_has(const char *query, const char *name)
{
	const char *p;
	size_t len;

	len = strlen(name);
	for (p = query; p != NULL; p = strchr(p, '&')) {
		p++;
		if (!strncmp(p, name, len) && p[len] == '=' &&
		    p[len + 1] != '\0' && p[len + 1] != '&')
			return (true);
	}
	return (false);
}

/* The answer of somebody who logs people in (RFC 6749, 4.1.2). */
static bool
query_oauth(const char *query)
{

	return (query_has(query, "state") &&
	    (query_has(query, "code") || query_has(query, "error")));
}

static bool
never_url(const char *url)
{
	static const char known[] = "/.well-known/";
	const char *query;

	if (!strncmp(url, known, sizeof known - 1))
		return (true);
	query = strchr(url, '?');
	if (query != NULL && query_oauth(query))
		return (true);
	return (path_dav(url, query == NULL ? strlen(url) :
	    (size_t)(query - url)));
}

/*
 * An address where programs deliver news (a webhook), with or without its query.
 * Never the first page: every visitor loads it, and anybody may post to it.
 */
static bool
never_webhook(const struct np_record *rec, const char *url)
{
	const uint64_t *hook = rec->site->conf.webhook;
	uint64_t bare;
	size_t len;
	unsigned u;

	len = strcspn(url, "?");
	if (hook[0] == 0 || len <= 1)
		return (false);
	bare = np_path_hash(rec->headers.host, url, len);
	for (u = 0; u < NAPROXY_WEBHOOKS && hook[u] != 0; u++)
		if (hook[u] == bare)
			return (true);
	return (false);
}

/* Robots by their behaviour or their looks: they do not call themselves robots. */
bool
np_guessed(const struct np_record *rec)
{

	if (rec->flags & NAPROXY_E_RULE)
		return (false);
	return (rec->flags & NAPROXY_E_LEARNED ||
	    (rec->agent != CRAWLERS_NONE && crawlers_agent[rec->agent].guess));
}

/* The request is classified. A rule of the office has the last word. */
bool
np_never_refused(VRT_CTX, const struct np_record *rec)
{
	const struct http *hp = ctx->http_req;
	const char *url;

	if (rec->site == NULL || hp == NULL || rec->flags & NAPROXY_E_RULE)
		return (false);
	if (rec->method > METHOD_HEAD)
		return (true);
	/* Whether a server answers must not depend on whether one asks. */
	if (rec->klass == NAPROXY_MONITOR && !np_guessed(rec))
		return (false);
	if (np_header(hp, H_Authorization) != NULL)
		return (true);
	url = hp->hd[HTTP_HDR_URL].b;
	/* Crawlers without it stay away from the whole site. It is cached for long. */
	if (rec->klass == NAPROXY_CRAWLER && url != NULL &&
	    !strcmp(url, "/robots.txt"))
		return (true);
	return (url != NULL && (never_url(url) || never_webhook(rec, url)));
}
