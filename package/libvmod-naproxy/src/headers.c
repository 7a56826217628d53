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

#define SPECIAL		SIZE_MAX

struct header {
	const char	*name;
	size_t		len;
	size_t		offset;		/* in np_headers, or SPECIAL */
};

#define KNOWN(n, f)	{ n ":", sizeof n, offsetof(struct np_headers, f) }
#define SEEN_TO(n)	{ n ":", sizeof n, SPECIAL }

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
};

#undef KNOWN
#undef SEEN_TO

static void
headers_take(struct np_headers *h, const struct header *known, const char *value)
{
	const char **field;

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
	const char *value;

	for (known = header; known < header + sizeof header / sizeof *header;
	    known++) {
		if (len < known->len || b[known->len - 1] != ':' ||
		    strncasecmp(b, known->name, known->len))
			continue;
		value = b + known->len;
		while (*value == ' ' || *value == '\t')
			value++;
		headers_take(h, known, value);
	}
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

bool
np_headers_usual(const struct np_headers *h, const struct http *hp)
{
	const char *method, *url;

	method = hp->hd[HTTP_HDR_METHOD].b;
	url = hp->hd[HTTP_HDR_URL].b;
	return (!h->special && !headers_forwarded(h->forwarded_for) &&
	    headers_host_tidy(h->host) && method != NULL &&
	    (!strcmp(method, "GET") || !strcmp(method, "HEAD")) &&
	    /* Ours is /.naproxy, and what issuers of certificates ask for. */
	    url != NULL && url[0] == '/' && url[1] != '.');
}
