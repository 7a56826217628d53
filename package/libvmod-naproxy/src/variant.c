/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Which of a page's variants a request is for, where the server chooses one without
 * saying so by Vary: the page or its data, all of it or a part for a script. It is in
 * the cache's key, so nobody gets what was made for another kind of request.
 */

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cache/cache.h"
#include "vsha256.h"

#include "naproxy.h"

/*
 * Requests with these ask for a page, for a page's parts or for any type. They are the
 * majority and add nothing to the key. Data in answer to them has Vary, see naproxy_data
 * in cache.vcl.
 */
static const char * const usual[] = {
	"*/*", "application/font", "application/javascript", "application/signed-exchange",
	"application/wasm", "application/x-font", "application/xhtml+xml", "audio/", "font/",
	"image/", "text/css", "text/html", "text/javascript", "text/plain", "text/vtt", "video/",
};

/*
 * The type that is asked for first, as programs do that want data. NULL: nothing that
 * counts. A file is the same for every client. Images say Vary.
 */
static const char *
variant_type(const char *accept, const char *url, size_t *len)
{
	size_t most, u;

	if (accept == NULL)
		return (NULL);
	accept += strspn(accept, " \t");
	*len = strcspn(accept, " \t,;");
	for (u = 0; u < sizeof usual / sizeof *usual; u++) {
		most = strlen(usual[u]);
		if (*len >= most && !strncasecmp(accept, usual[u], most))
			return (NULL);
	}
	return (*len == 0 || np_file(url) ? NULL : accept);
}

/*
 * An Accept that gets the same answer: the header itself, or a shorter one with the same
 * place in the key.
 */
void
np_accept_short(char *dst, const char *accept, const char *url)
{
	const char *type;
	size_t len;

	*dst = '\0';
	if (strlen(accept) < NP_ACCEPT_MOST) {
		strcpy(dst, accept);
		return;
	}
	type = variant_type(accept, url, &len);
	if (type == NULL || len >= NP_ACCEPT_MOST)
		return;
	memcpy(dst, type, len);
	dst[len] = '\0';
}

/* Letters of names and types count in either case. */
static void
variant_add(struct VSHA256Context *sha, const char *b, const char *e)
{
	char c;

	for (; b < e; b++) {
		c = (char)tolower((unsigned char)*b);
		VSHA256_Update(sha, &c, 1);
	}
}

static void
variant_header(struct VSHA256Context *sha, txt hd)
{
	const char *colon = memchr(hd.b, ':', (size_t)(hd.e - hd.b));

	variant_add(sha, hd.b, colon);
	VSHA256_Update(sha, colon, (size_t)(hd.e - colon));
	VSHA256_Update(sha, "\n", 1);
}

static const char *
variant_text(VRT_CTX, const unsigned char *digest)
{
	char *text;
	unsigned u;

	text = WS_Alloc(ctx->ws, 2 * VSHA256_LEN + 1);
	if (text == NULL) {
		/* Without it another variant would be found. */
		VRT_fail(ctx, "naproxy.variant(): out of workspace");
		return (NULL);
	}
	for (u = 0; u < VSHA256_LEN; u++)
		sprintf(text + 2 * u, "%02x", digest[u]);
	return (text);
}

/* A digest: the headers may be long, and space for the request is short. */
const char *
np_variant(VRT_CTX, const struct np_record *rec)
{
	const struct http *hp = ctx->http_req;
	unsigned char digest[VSHA256_LEN];
	struct VSHA256Context sha[1];
	const char *type;
	size_t len;
	unsigned u;

	if (hp == NULL)
		return (NULL);
	type = variant_type(rec->headers.accept, hp->hd[HTTP_HDR_URL].b, &len);
	if (type == NULL && !rec->headers.varies)
		return (NULL);
	VSHA256_Init(sha);
	if (type != NULL)
		variant_add(sha, type, type + len);
	VSHA256_Update(sha, "\n", 1);
	for (u = HTTP_HDR_FIRST; rec->headers.varies && u < hp->nhd; u++)
		if (np_header_varies(hp->hd[u]))
			variant_header(sha, hp->hd[u]);
	VSHA256_Final(digest, sha);
	return (variant_text(ctx, digest));
}
