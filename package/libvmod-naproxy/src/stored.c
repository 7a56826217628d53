/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Tells the controller what the cache keeps, so that it can ask for it again
 * before the server sleeps: events have only hashes of addresses.
 */

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cache/cache.h"
#include "vrt_obj.h"

#include "naproxy.h"

static const char *
stored_header(const struct http *hp, hdr_t name)
{
	const char *value;

	value = np_header(hp, name);
	return (value == NULL ? "" : value);
}

/* All of it or nothing: half an address is another one. */
static bool
stored_text(char *dst, size_t size, const char *src)
{
	size_t len;

	len = strlen(src);
	if (len >= size)
		return (false);
	memcpy(dst, src, len + 1);
	return (true);
}

/*
 * Does it depend on more of the request than we can ask for again? Varnish sees to
 * Accept-Encoding by itself. A request with cookies or a login is passed, see
 * recv.vcl: every stored response was asked for without them.
 */
static bool
stored_varies(const char *vary)
{
	static const char * const known[] = {
		"Accept-Encoding", "Accept", "Authorization", "Cookie",
	};
	size_t len, u;

	for (vary += strspn(vary, ", \t"); *vary != '\0';
	    vary += strspn(vary, ", \t")) {
		len = strcspn(vary, ", \t");
		for (u = 0; u < sizeof known / sizeof *known; u++)
			if (len == strlen(known[u]) &&
			    !strncasecmp(vary, known[u], len))
				break;
		if (u == sizeof known / sizeof *known)
			return (true);
		vary += len;
	}
	return (false);
}

static uint8_t
stored_flags(VRT_CTX, const struct np_record *rec, bool https)
{
	const struct http *hp = ctx->http_beresp;
	struct np_headers headers;
	const char *control;
	uint8_t flags = 0;

	if (np_file_frozen(ctx, rec, ctx->http_bereq->hd[HTTP_HDR_URL].b,
	    hp->status))
		flags |= NAPROXY_S_FREEZES;
	if (https)
		flags |= NAPROXY_S_HTTPS;
	control = stored_header(hp, H_Cache_Control);
	if (strcasestr(control, "max-age") != NULL ||
	    strcasestr(control, "s-maxage") != NULL ||
	    *stored_header(hp, H_Expires) != '\0')
		flags |= NAPROXY_S_SAID;
	if (VRT_r_beresp_was_304(ctx))
		flags |= NAPROXY_S_SAME;
	np_headers_read(&headers, ctx->http_bereq);
	if (headers.varies || stored_varies(stored_header(hp, H_Vary)))
		flags |= NAPROXY_S_VARIES;
	return (flags);
}

void
np_stored(VRT_CTX, const struct np_record *rec, bool https)
{
	const struct http *hp = ctx->http_bereq;
	struct naproxy_stored new, *s;
	const char *host, *url;
	struct np_map *map;
	VCL_DURATION ttl;
	uint64_t n;

	CHECK_OBJ_NOTNULL(hp, HTTP_MAGIC);
	map = np_page_map();
	if (map == NULL || map->stores == NULL)
		return;
	host = stored_header(hp, H_Host);
	url = hp->hd[HTTP_HDR_URL].b;
	memset(&new, 0, sizeof new);
	if (!stored_text(new.host, sizeof new.host, host) ||
	    !stored_text(new.url, sizeof new.url, url))
		return;
	np_accept_short(new.accept, stored_header(hp, H_Accept), url);
	new.t_us = np_now_us();
	new.path = np_path_hash(host, url, strlen(url));
	new.bytes = strtoull(stored_header(ctx->http_beresp, H_Content_Length),
	    NULL, 10);
	ttl = VRT_r_beresp_ttl(ctx);
	new.ttl_s = ttl <= 0 ? 0 : ttl >= UINT32_MAX ? UINT32_MAX :
	    (uint32_t)ttl;
	new.status = ctx->http_beresp->status;
	new.server = (uint8_t)rec->site->server->index;
	new.flags = stored_flags(ctx, rec, https);

	n = NP_ADD(map->stores->head, 1);
	s = &map->stores->stored[(n - 1) % NAPROXY_STORES];
	__atomic_store_n(&s->seq, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy((char *)s + sizeof s->seq, (char *)&new + sizeof new.seq,
	    sizeof new - sizeof new.seq);
	NP_STORE(s->seq, n);
}
