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

/* A request's head. Varnish reads more, so that we can refuse it in words. */
#define HEAD_MOST	32768
#define COPIED_MOST	16384
#define LINES_MOST	(HTTP_HDR_FIRST + 100)

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
	/* Browsers send these with most requests: found here, they cost less. */
	NO_CREDENTIAL("Accept-Encoding"),
	NO_CREDENTIAL("Accept-Language"),
	NO_CREDENTIAL("Cache-Control"),
	NO_CREDENTIAL("Connection"),
	NO_CREDENTIAL("If-Modified-Since"),
	NO_CREDENTIAL("If-None-Match"),
	NO_CREDENTIAL("Pragma"),
	NO_CREDENTIAL("Priority"),
	NO_CREDENTIAL("Referer"),
	NO_CREDENTIAL("Upgrade-Insecure-Requests"),
};

#undef KNOWN
#undef SEEN_TO
#undef NO_CREDENTIAL

/*
 * Parts of the names of headers that say who is asking, as programs and login
 * proxies have them. docs/caching.md has the list for users.
 */
static const char * const credential[] = {
	"account", "assertion", "auth", "bearer", "cert", "claim", "cred", "csrf", "dpop",
	"group", "hmac", "identity", "jwt", "key", "login", "mail", "member", "nonce", "oidc",
	"pass", "principal", "saml", "secret", "session", "sid", "signature", "ssl-client",
	"tenant", "ticket", "token", "user", "xsrf",
};

/*
 * These save a hit from comparing each header with all names. Each name has a bit, by
 * its length and by the first three letters of a part. A letter's index
 * is its lowest five bits, which are the same in upper and lower case.
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

/* NULL: it is not in the list. */
static const struct header *
headers_known(const char *name, size_t len)
{
	const struct header *known;
	uint32_t left;

	left = len < NAME_MOST ? header_of_len[len] : 0;
	for (; left != 0; left &= left - 1) {
		known = header + __builtin_ctz(left);
		if (!strncasecmp(name, known->name, len))
			return (known);
	}
	return (NULL);
}

/*
 * CGI gives X_Forwarded_For and X-Forwarded-For the same variable, and some servers
 * replace every character except letters and digits by an underscore.
 */
static bool
headers_plain(const char *name, size_t len)
{
	const char *p;

	for (p = name; p < name + len; p++)
		if (!isalnum((unsigned char)*p) && *p != '-')
			return (false);
	return (true);
}

/* Headers that browsers set by themselves and that pages cannot set. */
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

static bool
headers_begins(const char *name, size_t len, const char *with)
{
	size_t most = strlen(with);

	return (len >= most && !strncasecmp(name, with, most));
}

static bool
headers_has(const char *name, size_t len, const char *part)
{
	size_t most = strlen(part);

	for (; len >= most; name++, len--)
		if (!strncasecmp(name, part, most))
			return (true);
	return (false);
}

/*
 * Programs in a browser ask by these for a part of a page, or for its data: htmx,
 * Turbo, Next.js and Datastar. Parts of these names look like a claim.
 */
static const char * const chooses[] = {
	"A-IM:", "Api-Version:", "Content-Type:", "Datastar-", "HX-", "Next-", "Prefer:", "RSC:",
	"Service-Worker-Navigation-Preload:", "Turbo-",
};

/*
 * Beginnings of names, and whole names: HTTP, browsers, crawlers and proxies say these in
 * any request. By any other name a program may be told what to answer, or for whom.
 */
static const char * const common[] = {
	"Accept-Charset:", "Alt-Used:", "Baggage:", "CDN-Loop:", "CF-Ray:", "CF-Worker:",
	"Content-Length:", "Date:", "Device-Memory:", "DNT:", "Downlink:", "DPR:",
	"Early-Data:", "ECT:", "Expect:", "Forwarded:", "From:", "HTTP2-Settings:", "If-",
	"Keep-Alive:", "Max-Forwards:", "Newrelic:", "Origin:", "Proxy-", "Proxy:", "Purpose:",
	"RTT:", "Save-Data:", "Sec-", "Service-Worker:", "Surrogate-Capability:", "TE:", "Trailer:",
	"Transfer-Encoding:", "UA-", "Via:", "Viewport-Width:", "Warning:", "Width:",
};

/* Parts of names that proxies and phones add to every request. */
static const char * const added[] = {
	"amz-cf-id", "azure-ref", "b3", "bluecoat", "correlation", "client-data", "datadog",
	"hops", "moz", "operamini", "purpose", "queue-start", "request-id", "request-start",
	"requestid", "span", "trace", "ucbrowser", "user-agent", "varnish", "wap-profile",
};

/* Parts, between hyphens, of names that claim what only the box knows. */
static const char * const claims[] = {
	"accel", "addr", "address", "appengine", "arr", "cert", "clientcert", "clientip",
	"country", "dn", "forwarded", "geo", "geoip", "host", "https", "ip", "ipaddress",
	"ipcountry", "method", "path", "port", "prefix", "proto", "protocol", "realip",
	"remoteip", "scheme", "secure", "sendfile", "socketip", "ssl", "tls", "uri", "url",
	"userip", "verify", "viewer", "visitor",
};

static bool
headers_of(const char * const *list, size_t n, const char *name, size_t len)
{
	size_t u;

	for (u = 0; u < n; u++)
		if (strlen(list[u]) == len && !strncasecmp(list[u], name, len))
			return (true);
	return (false);
}

#define HEADERS_OF(list, name, len)					\
	headers_of(list, sizeof list / sizeof *list, name, len)

/* By its beginning; by all of it, and the colon behind it, where that ends with a colon. */
static bool
headers_in(const char * const *list, size_t n, const char *name, size_t len)
{
	size_t u;

	for (u = 0; u < n; u++)
		if (headers_begins(name, len + 1, list[u]))
			return (true);
	return (false);
}

#define HEADERS_IN(list, name, len)					\
	headers_in(list, sizeof list / sizeof *list, name, len)

static bool
headers_chooses(const char *name, size_t len)
{

	return (HEADERS_IN(chooses, name, len) ||
	    (headers_begins(name, len, "Accept-") &&
	    !headers_begins(name, len, "Accept-Charset") &&
	    !headers_begins(name, len, "Accept-Encoding") &&
	    !headers_begins(name, len, "Accept-Language")));
}

/* Does it claim a scheme, host, client, path or user? The colon is behind the name. */
static bool
headers_claims(const char *name, size_t len)
{
	const char *end = name + len, *next, *p;

	if (headers_browser(name, len) || headers_chooses(name, len) ||
	    headers_begins(name, len, "X-Up-") ||
	    headers_begins(name, len + 1, "Host:") ||
	    headers_begins(name, len + 1, "Forwarded:") ||
	    headers_begins(name, len + 1, "X-Forwarded-For:") ||
	    headers_begins(name, len + 1, "X-Forwarded-Proto:") ||
	    headers_begins(name, len + 1, "X-Original-User-Agent:"))
		return (false);
	if (headers_begins(name, len, "X-Original-") ||
	    headers_has(name, len, "server-name") ||
	    headers_has(name, len, "script-name"))
		return (true);
	for (p = name; p < end; p = next + 1) {
		next = memchr(p, '-', (size_t)(end - p));
		if (next == NULL)
			next = end;
		if (HEADERS_OF(claims, p, (size_t)(next - p)))
			return (true);
	}
	return (false);
}

/*
 * May the server's answer depend on this header? The request may be cached, so the header
 * is not a credential.
 */
static bool
headers_variant(const char *name, size_t len, const char *value, const char *end)
{
	size_t u;

	if (headers_begins(name, len + 1, "X-Requested-With:"))
		/* A dot: Android's browsers say so which app has opened them. */
		return (memchr(value, '.', (size_t)(end - value)) == NULL);
	if (headers_known(name, len) != NULL || headers_browser(name, len) ||
	    headers_begins(name, len, "X-Naproxy") || !headers_plain(name, len))
		return (false);
	if (headers_chooses(name, len))
		return (true);
	if (HEADERS_IN(common, name, len))
		return (false);
	for (u = 0; u < sizeof added / sizeof *added; u++)
		if (headers_has(name, len, added[u]))
			return (false);
	return (!headers_claims(name, len));
}

bool
np_header_varies(txt hd)
{
	const char *colon;

	colon = memchr(hd.b, ':', (size_t)(hd.e - hd.b));
	return (colon != NULL &&
	    headers_variant(hd.b, (size_t)(colon - hd.b), colon + 1, hd.e));
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
	size_t name;

	colon = memchr(b, ':', len);
	if (colon == NULL)
		return;
	name = (size_t)(colon - b);
	known = headers_known(b, name);
	if (known != NULL) {
		value = colon + 1;
		while (*value == ' ' || *value == '\t')
			value++;
		headers_take(h, known, value);
	} else if (headers_credential(b, name)) {
		h->credential = true;
		if (!headers_claims(b, name))
			h->own_credential = true;
	}
	if ((known == NULL || name == sizeof "X-Requested-With" - 1) &&
	    headers_variant(b, name, colon + 1, b + len))
		h->varies = true;
}

static unsigned
headers_cookies(const struct http *hp)
{
	unsigned n = 0, u;

	for (u = HTTP_HDR_FIRST; u < hp->nhd; u++)
		if (!strncasecmp(hp->hd[u].b, "Cookie:", 7))
			n++;
	return (n);
}

void
np_headers_read(struct np_headers *h, const struct http *hp)
{
	size_t len;
	unsigned u;

	CHECK_OBJ_NOTNULL(hp, HTTP_MAGIC);
	memset(h, 0, sizeof *h);
	for (u = 0; u < HTTP_HDR_FIRST; u++)
		if (hp->hd[u].b != NULL)
			h->bytes += (size_t)(hp->hd[u].e - hp->hd[u].b);
	for (; u < hp->nhd; u++) {
		len = (size_t)(hp->hd[u].e - hp->hd[u].b);
		h->bytes += len + 2;
		headers_match(h, hp->hd[u].b, len);
	}
	h->large = h->bytes > HEAD_MOST || hp->nhd > LINES_MOST ||
	    (h->bytes > COPIED_MOST && headers_cookies(hp) > 1);
}

/* `believed`: also those that claim a scheme, host, client, path or user. */
void
np_headers_plain(struct http *hp, bool believed)
{
	const char *colon;
	size_t len;
	unsigned u, kept = HTTP_HDR_FIRST;

	CHECK_OBJ_NOTNULL(hp, HTTP_MAGIC);
	for (u = HTTP_HDR_FIRST; u < hp->nhd; u++) {
		len = (size_t)(hp->hd[u].e - hp->hd[u].b);
		colon = memchr(hp->hd[u].b, ':', len);
		if (!headers_plain(hp->hd[u].b,
		    colon == NULL ? len : (size_t)(colon - hp->hd[u].b)))
			continue;
		len = colon == NULL ? 0 : (size_t)(colon - hp->hd[u].b);
		if (headers_begins(hp->hd[u].b, len, "X-Naproxy") ||
		    (!believed && colon != NULL && headers_claims(hp->hd[u].b, len)))
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
	return (!h->special && !h->credential && !h->large && h->upgrade == NULL &&
	    !headers_forwarded(h->forwarded_for) && !headers_events(h->accept) &&
	    headers_host_tidy(h->host) && method != NULL &&
	    (!strcmp(method, "GET") || !strcmp(method, "HEAD")) &&
	    /* Ours are /.naproxy and the paths of certificate issuers' challenges. */
	    url != NULL && url[0] == '/' && url[1] != '.');
}
