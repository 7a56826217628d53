/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Which addresses are of files: by the ending of their names, as nothing else is
 * known of them before they are fetched. Not those that a program answers, or that
 * two programs may read differently. docs/caching.md has the list for users.
 */

#include <ctype.h>

#include <stdlib.h>
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

/* An address below these runs a program; the rest of the path is its argument. */
static const char * const program[] = {
	"asp", "aspx", "ashx", "cfm", "cgi", "do", "exe", "fcgi", "jsp", "php",
	"php5", "php7", "php8", "phtml", "pl", "py",
};

/*
 * Parts of paths below which programs answer under names as files have; a * is any
 * one folder. At any depth: a site may be in a folder.
 */
static const char * const made[] = {
	/* Nextcloud, ownCloud: previews, people's pictures, shares */
	"/core/preview", "/avatar/", "/apps/files_sharing/", "/apps/theming/",
	"/apps/gallery/", "/apps/photos/", "/s/*/download", "/s/*/preview", "/dav/",
	/* WordPress: its interface for programs, downloads that shops sell */
	"/wp-json/", "/woocommerce_uploads/",
	/* Drupal: private and temporary files, its interface for programs */
	"/system/files/", "/system/temporary", "/jsonapi/",
	/* Joomla: answers of extensions */
	"/component/",
	/* TYPO3: links to protected files */
	"/securedl/",
	/* Synology: its interface for programs, files of its users */
	"/webapi/", "/fsdownload/", "/synofoto/", "/sharing/", "/webman/3rdparty/",
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

/* One of these characters, as %XX, means the next thing to one program only. */
static bool
file_coded(const char *p)
{
	static const char hidden[] = "./\\;?#%";
	char digits[3] = "", *end;
	long c;

	(void)memcpy(digits, p + 1, strnlen(p + 1, 2));
	c = strtol(digits, &end, 16);
	return (end != digits + 2 || !isxdigit((unsigned char)*digits) ||
	    c < ' ' || c == 0x7f || strchr(hidden, (int)c) != NULL);
}

/* Might what the server takes it for have another ending, or none? */
static bool
file_unclear(const char *url, const char *end)
{
	const char *p;

	for (p = url; p < end; p++) {
		if (*p == ';' || *p == '\\' || *p == '#')
			return (true);
		if (*p == '%' && file_coded(p))
			return (true);
		if (*p == '/' && (p[1] == '/' || !strncmp(p + 1, "./", 2) ||
		    !strncmp(p + 1, "../", 3)))
			return (true);
	}
	return (false);
}

/* Does this folder's name end like a program's? */
static bool
file_program(const char *name, const char *end)
{
	const char *p;
	size_t u;

	for (p = end; p > name && p[-1] != '.'; p--)
		continue;
	if (p == name)
		return (false);
	for (u = 0; u < sizeof program / sizeof *program; u++)
		if (strlen(program[u]) == (size_t)(end - p) &&
		    !strncasecmp(program[u], p, (size_t)(end - p)))
			return (true);
	return (false);
}

static bool
file_below(const char *p, const char *end, const char *part)
{

	for (; *part != '\0'; part++) {
		if (*part == '*') {
			while (p < end && *p != '/')
				p++;
			continue;
		}
		if (p >= end || tolower((unsigned char)*p) != *part)
			return (false);
		p++;
	}
	return (true);
}

/* Is it below something that answers by itself? */
static bool
file_made(const char *url, const char *end)
{
	const char *next, *p;
	size_t u;

	for (p = url; p < end; p = next) {
		for (next = p + 1; next < end && *next != '/'; next++)
			continue;
		if (next < end && file_program(p + 1, next))
			return (true);
		for (u = 0; u < sizeof made / sizeof *made; u++)
			if (file_below(p, end, made[u]))
				return (true);
	}
	return (false);
}

bool
np_file(const char *url)
{
	const char *end, *p;

	if (url == NULL || *url != '/')
		return (false);
	end = url + strcspn(url, "?");
	for (p = end; p > url && p[-1] != '.' && p[-1] != '/'; p--)
		continue;
	return (p > url && p[-1] == '.' && file_ending(p, (size_t)(end - p)) &&
	    !file_unclear(url, end) && !file_made(url, end));
}

/* The controller has verified it as a page. If it no longer is HTML, it has changed. */
static bool
file_verified(VRT_CTX, const struct np_record *rec, const char *url)
{
	const struct http *hp;
	const char *host, *type;

	if (rec->ref.snap == NULL)
		return (false);
	if (ctx->http_beresp != NULL) {
		type = np_header(ctx->http_beresp, H_Content_Type);
		if (type == NULL || (strncasecmp(type, "text/html", 9) &&
		    strncasecmp(type, "application/xhtml+xml", 21)))
			return (false);
	}
	hp = ctx->http_req != NULL ? ctx->http_req : ctx->http_bereq;
	host = np_header(hp, H_Host);
	return (np_snap_verified(rec->ref.snap, rec->site,
	    np_path_hash(host == NULL ? "" : host, url, strlen(url))));
}

/* Does what the cache has of it stay valid while its server sleeps? */
bool
np_file_frozen(VRT_CTX, const struct np_record *rec, const char *url,
    long status)
{
	double said;

	if (rec->site == NULL || url == NULL ||
	    (rec->site->conf.flags & NAPROXY_F_FROZEN) == 0)
		return (false);
	said = np_rule_s(rec, NAPROXY_RULE_ASLEEP, url);
	if (said >= 0)
		return (said > 0);
	return (status == 301 || status == 308 || np_file(url) ||
	    (status == 200 && file_verified(ctx, rec, url)));
}
