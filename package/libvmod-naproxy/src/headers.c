/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A request's headers, read in one go. To look each of them up costs a hit
 * more than all else that we do.
 */

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "cache/cache.h"

#include "naproxy.h"

const char * const np_method_name[] = {
	"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT",
	"TRACE", NULL
};

#define SPECIAL		SIZE_MAX
#define HARMLESS	(SIZE_MAX - 1)

const char *
np_header(const struct http *hp, hdr_t hdr)
{
	const char *p;

	if (hp == NULL || !http_GetHdr(hp, hdr, &p))
		return (NULL);
	return (p);
}

struct header {
	const char	*name;
	size_t		len;
	size_t		offset;		/* in np_headers, or one of these */
};

#define KNOWN(n, f)	{ n, sizeof n - 1, offsetof(struct np_headers, f) }
#define SEEN_TO(n)	{ n, sizeof n - 1, SPECIAL }
/* No credential, although the name looks like one. */
#define NO_CREDENTIAL(n)	{ n, sizeof n - 1, HARMLESS }

static const struct header header[] = {
	KNOWN("Host", host),
	KNOWN("User-Agent", user_agent),
	KNOWN("Accept", accept),
	KNOWN("Sec-Fetch-Mode", fetch_mode),
	KNOWN("X-Requested-With", requested_with),
	KNOWN("Upgrade", upgrade),
	KNOWN("X-Forwarded-For", forwarded_for),
	SEEN_TO("Upgrade"),
	SEEN_TO("Authorization"),
	SEEN_TO("Cookie"),
	SEEN_TO("Range"),
	SEEN_TO("X-Forwarded-Proto"),
	SEEN_TO("X-Naproxy"),
	SEEN_TO("X-Naproxy-Cookie"),
	SEEN_TO("X-Naproxy-Debug"),
	NO_CREDENTIAL("Idempotency-Key"),
	NO_CREDENTIAL("Sec-WebSocket-Key"),
	/* Some browsers and gateways say the User-Agent in these, too. */
	NO_CREDENTIAL("Device-Stock-User-Agent"),
	NO_CREDENTIAL("X-Device-User-Agent"),
	NO_CREDENTIAL("X-Original-User-Agent"),
	NO_CREDENTIAL("X-User-Agent"),
};

#undef KNOWN
#undef SEEN_TO
#undef NO_CREDENTIAL

/*
 * Parts of the names of headers that say who is asking, as programs and login
 * proxies have them. docs/caching.md has the list for users.
 */
static const char * const credential[] = {
	"account", "assertion", "auth", "bearer", "cert", "credential", "dpop", "email",
	"group", "hmac", "identity", "jwt", "key", "login", "nonce", "pass", "principal",
	"secret", "session", "sid", "signature", "ssl-client", "ticket", "token", "user",
};

/*
 * So that a hit need not compare each header with all of these: a bit for each of
 * them, by the length of a name, and by the first three letters of a part. Letters
 * are counted by their lowest five bits, which are the same in either case.
 */
#define NAME_MOST		32
#define PART_LEAST		3
#define LETTER(c)		((unsigned char)(c) & 31)
static uint32_t header_of_len[NAME_MOST];
static uint32_t credential_of_letter[PART_LEAST][32];
_Static_assert(sizeof header / sizeof *header <= 32, "a bit for each");
_Static_assert(sizeof credential / sizeof *credential <= 32, "a bit for each");

/* When a VCL is loaded; no request runs before the first. */
void
np_headers_begin(void)
{
	unsigned i, u;

	for (u = 0; u < sizeof header / sizeof *header; u++) {
		assert(header[u].len < NAME_MOST);
		header_of_len[header[u].len] |= UINT32_C(1) << u;
	}
	for (u = 0; u < sizeof credential / sizeof *credential; u++) {
		assert(strlen(credential[u]) >= PART_LEAST);
		for (i = 0; i < PART_LEAST; i++)
			credential_of_letter[i][LETTER(credential[u][i])] |=
			    UINT32_C(1) << u;
	}
}

/* What browsers say of themselves, and no page can have them say. */
static bool
headers_browser(const char *name, size_t len)
{

	return (len > 7 && LETTER(name[0]) == LETTER('s') && name[3] == '-' &&
	    (!strncasecmp(name, "Sec-Fetch-", 10) || !strncasecmp(name, "Sec-CH-", 7)));
}

/* May the header with this name be a credential? */
static bool
headers_credential(const char *name, size_t len)
{
	const char *p, *part, *end = name + len;
	uint32_t left;

	if (headers_browser(name, len))
		return (false);
	for (p = name; p + PART_LEAST <= end; p++) {
		left = credential_of_letter[0][LETTER(p[0])] &
		    credential_of_letter[1][LETTER(p[1])] &
		    credential_of_letter[2][LETTER(p[2])];
		for (; left != 0; left &= left - 1) {
			part = credential[__builtin_ctz(left)];
			if (strlen(part) <= (size_t)(end - p) &&
			    !strncasecmp(p, part, strlen(part)))
				return (true);
		}
	}
	return (false);
}

static void
headers_take(struct np_headers *h, const struct header *known, const char *value)
{
	const char **field;

	if (known->offset == HARMLESS)
		return;
	if (known->offset == SPECIAL) {
		h->special = true;
		return;
	}
	field = (const char **)((char *)h + known->offset);
	if (*field == NULL)
		*field = value;
}

static void
headers_match(struct np_headers *h, const char *b, size_t len)
{
	const struct header *known;
	const char *colon, *value;
	bool found = false;
	uint32_t left;
	size_t name;

	colon = memchr(b, ':', len);
	if (colon == NULL)
		return;
	name = (size_t)(colon - b);
	left = name < NAME_MOST ? header_of_len[name] : 0;
	for (; left != 0; left &= left - 1) {
		known = header + __builtin_ctz(left);
		if (strncasecmp(b, known->name, name))
			continue;
		found = true;
		value = colon + 1;
		while (*value == ' ' || *value == '\t')
			value++;
		headers_take(h, known, value);
	}
	if (!found && headers_credential(b, name))
		h->credential = true;
}

void
np_headers_read(struct np_headers *h, const struct http *hp)
{
	unsigned u;

	CHECK_OBJ_NOTNULL(hp, HTTP_MAGIC);
	memset(h, 0, sizeof *h);
	for (u = HTTP_HDR_FIRST; u < hp->nhd; u++)
		headers_match(h, hp->hd[u].b,
		    (size_t)(hp->hd[u].e - hp->hd[u].b));
}

/*
 * CGI makes one variable of X_Forwarded_For and of X-Forwarded-For, and some
 * servers make an underscore of all that is no letter or digit.
 */
static bool
headers_name_plain(txt hd)
{
	const char *p;

	for (p = hd.b; p < hd.e && *p != ':'; p++)
		if (!isalnum((unsigned char)*p) && *p != '-')
			return (false);
	return (true);
}

void
np_headers_plain(struct http *hp)
{
	unsigned u, kept = HTTP_HDR_FIRST;

	CHECK_OBJ_NOTNULL(hp, HTTP_MAGIC);
	for (u = HTTP_HDR_FIRST; u < hp->nhd; u++) {
		if (!headers_name_plain(hp->hd[u]))
			continue;
		hp->hd[kept] = hp->hd[u];
		hp->hdf[kept++] = hp->hdf[u];
	}
	hp->nhd = (uint16_t)kept;
}

static bool
headers_seen(const struct http *hp, unsigned before, txt hd)
{
	const char *colon;
	unsigned u;
	size_t len;

	colon = memchr(hd.b, ':', (size_t)(hd.e - hd.b));
	if (colon == NULL)
		return (false);
	len = (size_t)(colon - hd.b) + 1;
	for (u = HTTP_HDR_FIRST; u < before; u++)
		if ((size_t)(hp->hd[u].e - hp->hd[u].b) >= len &&
		    !strncasecmp(hp->hd[u].b, hd.b, len))
			return (true);
	return (false);
}

/*
 * The first of each name: only that is compared when a copy is looked for, and the
 * server must know no more of the client than that.
 */
void
np_headers_single(struct http *hp)
{
	unsigned u, kept = HTTP_HDR_FIRST;

	CHECK_OBJ_NOTNULL(hp, HTTP_MAGIC);
	for (u = HTTP_HDR_FIRST; u < hp->nhd; u++) {
		if (headers_seen(hp, kept, hp->hd[u]))
			continue;
		hp->hd[kept] = hp->hd[u];
		hp->hdf[kept++] = hp->hdf[u];
	}
	hp->nhd = (uint16_t)kept;
}

/* A name that needs no tidying, see recv.vcl. */
static bool
headers_host_tidy(const char *host)
{
	const char *p;

	if (host == NULL)
		return (false);
	for (p = host; (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') ||
	    *p == '.' || *p == '-'; p++)
		continue;
	return (p > host && *p == '\0' && p[-1] != '.');
}

/* Varnish writes the client's own address there; more is from a proxy. */
static bool
headers_forwarded(const char *forwarded_for)
{

	return (forwarded_for != NULL && strchr(forwarded_for, ',') != NULL);
}

/* Browsers ask so for a stream of events, see recv.vcl. */
static bool
headers_events(const char *accept)
{
	static const char type[] = "text/event-stream";

	return (accept != NULL && !strncasecmp(accept, type, sizeof type - 1));
}

bool
np_headers_usual(const struct np_headers *h, const struct http *hp)
{
	const char *method, *url;

	method = hp->hd[HTTP_HDR_METHOD].b;
	url = hp->hd[HTTP_HDR_URL].b;
	return (!h->special && !h->credential &&
	    !headers_forwarded(h->forwarded_for) && !headers_events(h->accept) &&
	    headers_host_tidy(h->host) && method != NULL &&
	    (!strcmp(method, "GET") || !strcmp(method, "HEAD")) &&
	    /* Ours is /.naproxy, and what issuers of certificates ask for. */
	    url != NULL && url[0] == '/' && url[1] != '.');
}
