/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The page's mapping: open the page, check it, know whether to trust it.
 *
 * The controller makes a page by rename, never in place, so a file that is
 * mapped here is never truncated. A new inode is noticed within a second. The
 * old mapping stays, because other threads may be reading it: with both rings
 * 912 KiB each time a controller starts.
 */

#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache.h"

#include "naproxy.h"

pthread_mutex_t np_page_mtx = PTHREAD_MUTEX_INITIALIZER;

static char page_dir[NP_DIR_MAX];
static struct np_map *page_map;		/* newest; atomic */
static struct stat page_stat, page_events_stat, page_stores_stat;

/* As both rings begin. */
static const struct page_ring {
	uint32_t	magic;
	uint32_t	version;
	uint32_t	size;
	uint32_t	count;
} page_events = {
	NAPROXY_EVENTS_MAGIC, NAPROXY_PAGE_VERSION,
	sizeof(struct naproxy_events), NAPROXY_EVENTS
}, page_stores = {
	NAPROXY_STORES_MAGIC, NAPROXY_PAGE_VERSION,
	sizeof(struct naproxy_stores), NAPROXY_STORES
};

static uint64_t page_start_us;
static char page_complaint[256];	/* the last, not to repeat it */

/*--------------------------------------------------------------------*/

static uint64_t
page_clock(clockid_t clock)
{
	struct timespec ts;

	AZ(clock_gettime(clock, &ts));
	return ((uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000);
}

uint64_t
np_now_us(void)
{

	return (page_clock(CLOCK_MONOTONIC));
}

uint64_t
np_coarse_us(void)
{

	return (page_clock(CLOCK_MONOTONIC_COARSE));
}

/* Say it once: a malformed page is looked at every second. */
void
np_page_complain(const char *fmt, ...)
{
	char buf[sizeof page_complaint];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(buf, sizeof buf, fmt, ap);
	va_end(ap);
	if (!strcmp(buf, page_complaint))
		return;
	memcpy(page_complaint, buf, sizeof buf);
	VSL(SLT_Error, NO_VXID, "naproxy: %s", buf);
}

/*--------------------------------------------------------------------
 * What may stand in a page
 */

const char *
np_page_server_problem(const struct naproxy_server *s)
{
	const char *problem;

	problem = page_id_problem(s->id);
	if (problem != NULL)
		return (problem);
	if (s->family != 0 && s->family != 4 && s->family != 6)
		return ("an unknown address family");
	return (NULL);
}

static bool
page_name_plain(const char *name)
{
	const char *p;

	for (p = name; *p > ' ' && *p <= '~' && (*p < 'A' || *p > 'Z'); p++)
		continue;
	return (*p == '\0' && p[-1] != '.');
}

static const char *
page_name_problem(const struct naproxy_name *n)
{

	if (!page_string(n->name, sizeof n->name))
		return ("a host name without end");
	if (!page_name_plain(n->name))
		return ("a host name that is none");
	if (n->server >= NAPROXY_SERVERS)
		return ("a host name of no server");
	if (n->flags & ~NAPROXY_N_BELOW)
		return ("a host name of an unknown kind");
	return (NULL);
}

static bool
page_challenge_plain(const struct naproxy_challenge *c)
{
	static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789_.-";

	return (page_string(c->token, sizeof c->token) &&
	    page_string(c->answer, sizeof c->answer) &&
	    c->token[strspn(c->token, base64url)] == '\0' &&
	    c->answer[strspn(c->answer, base64url)] == '\0');
}

const char *
np_page_names_problem(const struct naproxy_page *copy)
{
	const struct naproxy_challenge *c;
	const struct naproxy_name *n;
	const char *problem;

	for (n = copy->names; n < copy->names + NAPROXY_NAMES &&
	    n->name[0] != '\0'; n++) {
		problem = page_name_problem(n);
		if (problem != NULL)
			return (problem);
	}
	for (c = copy->challenge; c < copy->challenge + NAPROXY_CHALLENGES; c++)
		if (!page_challenge_plain(c))
			return ("a challenge that is none");
	return (NULL);
}

/*--------------------------------------------------------------------*/

uint32_t
np_page_copy_box(struct naproxy_page *dst, const struct naproxy_page *src)
{

	static const size_t notice = offsetof(struct naproxy_page, notice);
	static const size_t end = offsetof(struct naproxy_page, child_start_us);
	static const size_t spent = offsetof(struct naproxy_page, spent);
	static const size_t verified = offsetof(struct naproxy_page, verified);
	uint32_t seq;
	int i;

	/* Three pieces, of the same writing. */
	for (i = 0; i < PAGE_TRIES; i++) {
		seq = page_copy(&src->seq, dst, src, notice, end);
		if ((seq & 1) || (page_copy(&src->seq, dst, src, spent,
		    spent + sizeof src->spent) == seq &&
		    page_copy(&src->seq, dst, src, verified,
		    verified + sizeof src->verified) == seq))
			return (seq);
	}
	return (1);
}

uint32_t
np_page_copy_names(struct naproxy_page *dst, const struct naproxy_page *src)
{

	return (page_copy(&src->names_seq, dst, src,
	    offsetof(struct naproxy_page, names),
	    offsetof(struct naproxy_page, service)));
}

uint32_t
np_page_copy_server(struct naproxy_server *dst,
    const struct naproxy_server *src)
{

	return (page_copy_server(dst, src));
}

/*--------------------------------------------------------------------
 * Mapping
 */

static void *
page_mmap(const char *name, size_t size, struct stat *st, const char **problem)
{
	char path[NP_DIR_MAX + 16];
	void *p;
	int fd;

	*problem = NULL;
	bprintf(path, "%s/%s", page_dir, name);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0) {
		*problem = VAS_errtxt(errno);
		return (NULL);
	}
	if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode))
		*problem = "not a file";
	else if (st->st_size != (off_t)size)
		*problem = "wrong size";
	if (*problem != NULL) {
		closefd(&fd);
		return (NULL);
	}
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		*problem = VAS_errtxt(errno);
		p = NULL;
	}
	closefd(&fd);
	return (p);
}

static const char *
page_names_problem(const struct naproxy_page *p)
{
	struct naproxy_page *copy;
	const char *problem;

	copy = calloc(1, sizeof *copy);
	AN(copy);
	problem = np_page_copy_names(copy, p) & 1 ? "locked" :
	    np_page_names_problem(copy);
	free(copy);
	return (problem);
}

static const char *
page_problem(const struct naproxy_page *p)
{
	struct naproxy_server conf;
	const char *problem;
	unsigned u, n;

	problem = page_header_problem(p);
	if (problem != NULL)
		return (problem);
	n = NP_LOAD(p->nservers);
	for (u = 0; u < n; u++) {
		memset(&conf, 0, sizeof conf);
		if (np_page_copy_server(&conf, &p->server[u]) & 1)
			return ("locked");
		problem = np_page_server_problem(&conf);
		if (problem != NULL)
			return (problem);
	}
	return (page_names_problem(p));
}

static struct naproxy_page *
page_open_page(struct stat *st)
{
	struct naproxy_page *p;
	const char *problem;

	p = page_mmap("page", sizeof *p, st, &problem);
	if (p != NULL) {
		problem = page_problem(p);
		if (problem == NULL)
			return (p);
		AZ(munmap(p, sizeof *p));
	}
	np_page_complain("%s/page: %s", page_dir, problem);
	return (NULL);
}

static void *
page_open_ring(const char *name, const struct page_ring *wanted, struct stat *st)
{
	const char *problem;
	void *p;

	p = page_mmap(name, wanted->size, st, &problem);
	if (p != NULL) {
		if (!memcmp(p, wanted, sizeof *wanted))
			return (p);
		problem = "wrong header";
		AZ(munmap(p, wanted->size));
	}
	np_page_complain("%s/%s: %s", page_dir, name, problem);
	return (NULL);
}

static bool
page_moved(const char *name, const struct stat *was)
{
	char path[NP_DIR_MAX + 16];
	struct stat st;

	bprintf(path, "%s/%s", page_dir, name);
	if (stat(path, &st) != 0)
		return (was->st_ino == 0);
	return (st.st_ino != was->st_ino || st.st_dev != was->st_dev);
}

/*
 * Is there a page now, or another one? Then its mapping, for the caller to
 * put in use.
 */
struct np_map *
np_page_look(void)
{
	struct stat st, est, sst;
	struct naproxy_page *p;
	struct np_map *map, *old;

	old = page_map;
	if (!page_moved("page", &page_stat) &&
	    !page_moved("events", &page_events_stat) &&
	    !page_moved("stored", &page_stores_stat))
		return (NULL);
	p = page_open_page(&st);
	if (p == NULL)
		return (NULL);
	ALLOC_OBJ(map, NP_MAP_MAGIC);
	AN(map);
	map->page = p;
	memset(&est, 0, sizeof est);
	map->events = page_open_ring("events", &page_events, &est);
	memset(&sst, 0, sizeof sst);
	map->stores = page_open_ring("stored", &page_stores, &sst);
	map->older = old;
	page_stat = st;
	page_events_stat = est;
	page_stores_stat = sst;
	NP_STORE(p->child_start_us, page_start_us);
	return (map);
}

void
np_page_use(struct np_map *map)
{

	CHECK_OBJ_NOTNULL(map, NP_MAP_MAGIC);
	NP_STORE(page_map, map);
	page_complaint[0] = '\0';
}

struct np_map *
np_page_map(void)
{

	return (NP_LOAD(page_map));
}

bool
np_page_trusted(void)
{
	const struct np_map *map;

	map = np_page_map();
	return (map != NULL && page_header_problem(map->page) == NULL &&
	    page_fresh(map->page, np_coarse_us()));
}

unsigned
np_page_servers(void)
{
	const struct np_map *map;

	map = np_page_map();
	return (map == NULL ? 0 : NP_LOAD(map->page->nservers));
}

/*--------------------------------------------------------------------*/

const char *
np_page_dir(void)
{

	return (page_dir);
}

void
np_page_open(const char *run_dir)
{

	assert(strlen(run_dir) < sizeof page_dir);
	bprintf(page_dir, "%s", run_dir);
	if (page_start_us == 0)
		page_start_us = np_now_us();
}

void
np_page_close(void)
{
	struct np_map *map;

	AZ(pthread_mutex_lock(&np_page_mtx));
	while ((map = page_map) != NULL) {
		CHECK_OBJ(map, NP_MAP_MAGIC);
		page_map = map->older;
		AZ(munmap(map->page, sizeof *map->page));
		if (map->events != NULL)
			AZ(munmap(map->events, sizeof *map->events));
		if (map->stores != NULL)
			AZ(munmap(map->stores, sizeof *map->stores));
		FREE_OBJ(map);
	}
	memset(&page_stat, 0, sizeof page_stat);
	memset(&page_events_stat, 0, sizeof page_events_stat);
	page_dir[0] = '\0';
	AZ(pthread_mutex_unlock(&np_page_mtx));
}
