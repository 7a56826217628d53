/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Which images a browser takes, said in one of three ways. Each browser has an Accept
 * of its own, and with `Vary: Accept` each would have a copy of its own of one and
 * the same picture.
 */

#include <string.h>
#include <strings.h>

#include "cache/cache.h"

#include "naproxy.h"

static const char * const image[] = {
	"avif", "bmp", "gif", "ico", "jpeg", "jpg", "png", "webp",
};

/* The end of naproxy_stored's `accept` is that of the longest. */
#define REST	",*/*;q=0.8"
static const char best[] = "Accept: image/avif,image/webp" REST;
static const char better[] = "Accept: image/webp" REST;
static const char any[] = "Accept: */*";

static bool
accept_image(const char *url)
{
	const char *end, *p;
	size_t u;

	end = url + strcspn(url, "?");
	for (p = end; p > url && p[-1] != '.' && p[-1] != '/' && end - p < 5;
	    p--)
		continue;
	if (p == url || p[-1] != '.')
		return (false);
	for (u = 0; u < sizeof image / sizeof *image; u++)
		if (strlen(image[u]) == (size_t)(end - p) &&
		    !strncasecmp(image[u], p, (size_t)(end - p)))
			return (true);
	return (false);
}

/* Is this type in it, and not with a quality of none? */
static bool
accept_takes(const char *accept, const char *type)
{
	const char *p;

	p = strcasestr(accept, type);
	if (p == NULL)
		return (false);
	p += strlen(type);
	p += strspn(p, " \t");
	if (*p != ';')
		return (*p == '\0' || *p == ',');
	p++;
	p += strspn(p, " \t");
	if (strncasecmp(p, "q=0", 3))
		return (true);
	p += 3;
	p += strspn(p, ".0");
	return (*p >= '1' && *p <= '9');
}

/*
 * Not of requests for a page: they come from a person who opens the picture and may
 * have to see the waiting page first.
 */
void
np_accept_images(struct http *hp)
{
	const char *accept, *said = any;
	const char *url;
	unsigned u;

	CHECK_OBJ_NOTNULL(hp, HTTP_MAGIC);
	url = hp->hd[HTTP_HDR_URL].b;
	if (url == NULL || !accept_image(url))
		return;
	accept = np_header(hp, H_Accept);
	if (accept == NULL || strcasestr(accept, "text/html") != NULL)
		return;
	if (accept_takes(accept, "image/webp"))
		said = accept_takes(accept, "image/avif") ? best : better;
	for (u = HTTP_HDR_FIRST; u < hp->nhd; u++)
		if (hp->hd[u].b <= accept && accept <= hp->hd[u].e) {
			hp->hd[u].b = said;
			hp->hd[u].e = said + strlen(said);
			return;
		}
}
