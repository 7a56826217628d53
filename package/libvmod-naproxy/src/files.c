/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Which addresses are of files: by the ending of their names, as nothing else is
 * known of them before they are fetched.
 */

#include <string.h>
#include <strings.h>

#include "cache/cache.h"

#include "naproxy.h"

#define ENDING_MOST	11		/* webmanifest */

/* In their order. naproxy/lab/estimate/cachemodel.py has the same. */
static const char * const ending[] = {
	"avif", "bmp", "css", "eot", "gif", "ico", "jpeg", "jpg", "js", "map",
	"mjs", "mov", "mp3", "mp4", "ogg", "otf", "pdf", "png", "svg", "ttf",
	"txt", "wasm", "webm", "webmanifest", "webp", "woff", "woff2", "xml",
	"zip",
};

static bool
file_ending(const char *b, size_t len)
{
	size_t u;

	if (len == 0 || len > ENDING_MOST)
		return (false);
	for (u = 0; u < sizeof ending / sizeof *ending; u++)
		if (strlen(ending[u]) == len && !strncasecmp(ending[u], b, len))
			return (true);
	return (false);
}

bool
np_file(const char *url)
{
	const char *end, *p;

	if (url == NULL)
		return (false);
	end = url + strcspn(url, "?");
	for (p = end; p > url && p[-1] != '.' && p[-1] != '/'; p--)
		continue;
	return (p > url && p[-1] == '.' && file_ending(p, (size_t)(end - p)));
}

/* Does what the cache has of it stay valid while its server sleeps? */
bool
np_file_frozen(const struct np_record *rec, const char *url)
{
	double said;

	if (rec->site == NULL || url == NULL ||
	    (rec->site->conf.flags & NAPROXY_F_FROZEN) == 0)
		return (false);
	said = np_rule_s(rec, NAPROXY_RULE_ASLEEP, url);
	return (said < 0 ? np_file(url) : said > 0);
}
