/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What somebody took out of the cache: copies that are older are of no use. A ban of
 * Varnish would need the host and the URL with each copy, as a header that each hit
 * had to send, or would stay for each hit to walk through. Here a hit on a copy that
 * is younger than the newest of these looks at one word, and there is a fixed number
 * of them: when there are more, the oldest is for all of its server.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "vtim.h"

#include "naproxy.h"

#define ENTRIES		64
#define PATH_MOST	256

struct emptied {
	uint64_t		t_us;		/* 0: unused */
	struct np_server	*server;	/* NULL: of all */
	bool			exact;
	char			path[PATH_MOST];
};

static pthread_rwlock_t emptied_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct emptied emptied[ENTRIES];		/* under emptied_lock */
static uint64_t emptied_all_us;			/* the same */
static uint64_t emptied_newest_us;		/* atomic */

static uint64_t
emptied_now_us(void)
{

	return ((uint64_t)(VTIM_real() * 1e6));
}

/*
 * The next character that a path means: %41 and A are the same, and so are // and /.
 * -1 at its end.
 */
static int
emptied_char(const char **pp)
{
	const char *p = *pp;
	char digits[3], *end;
	long c;

	if (*p == '\0' || *p == '?')
		return (-1);
	if (*p == '%' && p[1] != '\0' && p[2] != '\0') {
		memcpy(digits, p + 1, 2);
		digits[2] = '\0';
		c = strtol(digits, &end, 16);
		if (end == digits + 2 && c >= 0) {
			*pp = p + 3;
			return ((int)c);
		}
	}
	if (*p == '/')
		while (p[1] == '/')
			p++;
	*pp = p + 1;
	return ((unsigned char)*p);
}

/*
 * Some servers take such a segment for a step up, others for a name. It therefore
 * counts as below every path.
 */
static bool
emptied_crooked(const char *url)
{
	const char *p;
	int before = 0, c;

	for (p = url; (c = emptied_char(&p)) >= 0; before = c)
		if (c == ';' || c == '\\' || (c == '.' && before == '/' &&
		    (*p == '/' || *p == '.' || *p == '%')))
			return (true);
	return (false);
}

static bool
emptied_path(const struct emptied *e, const char *url)
{
	const char *path = e->path;
	int c;

	while ((c = emptied_char(&path)) >= 0)
		if (emptied_char(&url) != c)
			return (false);
	return (!e->exact || emptied_char(&url) < 0);
}

static bool
emptied_by(const struct emptied *e, const struct np_server *srv, const char *url,
    uint64_t t_us)
{

	return (e->t_us > t_us && (e->server == NULL || e->server == srv) &&
	    (emptied_path(e, url) || emptied_crooked(url)));
}

/* Was it taken out after this time? */
bool
np_emptied_since(const struct np_record *rec, const char *url, double t)
{
	const struct np_server *srv;
	const struct emptied *e;
	uint64_t t_us = (uint64_t)(t * 1e6);
	bool is;

	if (NP_LOAD(emptied_newest_us) <= t_us || url == NULL ||
	    rec->site == NULL)
		return (false);
	srv = rec->site->server;
	AZ(pthread_rwlock_rdlock(&emptied_lock));
	is = emptied_all_us > t_us || srv->emptied_us > t_us;
	for (e = emptied; !is && e < emptied + ENTRIES; e++)
		is = emptied_by(e, srv, url, t_us);
	AZ(pthread_rwlock_unlock(&emptied_lock));
	return (is);
}

/* A request from before the last purge may have content from before it. */
bool
np_emptied_meanwhile(double t)
{

	return (NP_LOAD(emptied_newest_us) > (uint64_t)(t * 1e6));
}

static void
emptied_whole(struct np_server *srv, uint64_t t_us)
{
	uint64_t *us = srv == NULL ? &emptied_all_us : &srv->emptied_us;

	if (*us < t_us)
		*us = t_us;
}

static struct emptied *
emptied_oldest(void)
{
	struct emptied *e, *oldest = emptied;

	for (e = emptied; e < emptied + ENTRIES; e++)
		if (e->t_us < oldest->t_us)
			oldest = e;
	return (oldest);
}

/* Purge one server or all: only this path, or all below it, or everything without one. */
bool
np_empty(struct np_server *srv, const char *path, bool exact)
{
	struct emptied *e;
	uint64_t now_us;

	if (strlen(path) >= PATH_MOST)
		return (false);
	AZ(pthread_rwlock_wrlock(&emptied_lock));
	now_us = emptied_now_us();
	if (*path == '\0') {
		emptied_whole(srv, now_us);
	} else {
		e = emptied_oldest();
		if (e->t_us != 0)
			emptied_whole(e->server, e->t_us);
		e->t_us = now_us;
		e->server = srv;
		e->exact = exact;
		bprintf(e->path, "%s", path);
	}
	NP_STORE(emptied_newest_us, now_us);
	AZ(pthread_rwlock_unlock(&emptied_lock));
	return (true);
}

/* Purge nothing by path, but do not keep responses that are being fetched now. */
void
np_emptied_now(void)
{

	NP_STORE(emptied_newest_us, emptied_now_us());
}
