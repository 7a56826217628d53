/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The page: map it, read its configuration, know whether to trust it.
 *
 * The controller makes a page by rename, never in place, so a file that is
 * mapped here is never truncated. A new inode is noticed within a second. The
 * old mapping stays, because other threads may be reading it; 16 KiB each
 * time a controller starts anew.
 *
 * Configuration is read as a whole into a snapshot, checked once, and shared
 * by all requests until a seq moves. What cannot be read (a controller that
 * died while writing) or is malformed leaves the previous reading in force.
 */

#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache.h"
#include "vsb.h"

#include "naproxy.h"

#define TICK_US		1000000
#define VSC_NS		100000000
#define FUTURE_US	1000000		/* a heartbeat ahead of us: rubbish */
#define SEQ_SPINS	50
#define SEQ_TRIES	100
#define SEQ_PAUSE_NS	20000

static pthread_mutex_t page_mtx = PTHREAD_MUTEX_INITIALIZER;
static char page_dir[NP_DIR_MAX];
static struct np_map *page_map;		/* newest; atomic */
static struct np_snap *page_snap;	/* newest; atomic, written under page_mtx */
static struct stat page_stat, page_events_stat;
static uint64_t page_tick_us;		/* atomic */
static uint64_t page_start_us;
static char page_complaint[256];	/* the last, not to repeat it */

/* Copies counters for varnishstat. */
static pthread_t page_vsc;
static pthread_cond_t page_vsc_end;
static bool page_vsc_runs;		/* written under page_mtx */

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
static void v_printflike_(1, 2)
page_complain(const char *fmt, ...)
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

static bool
page_string(const char *s, size_t len)
{

	return (memchr(s, '\0', len) != NULL);
}

static const char *
page_server_problem(const struct naproxy_server *s)
{
	unsigned u;

	if (!page_string(s->id, sizeof s->id))
		return ("an id without end");
	if (s->id[strspn(s->id, "abcdefghijklmnopqrstuvwxyz0123456789-")])
		return ("an id that is not of a-z, 0-9 and -");
	for (u = 0; u < NAPROXY_HOSTS; u++)
		if (!page_string(s->hosts[u], sizeof s->hosts[u]))
			return ("a host name without end");
	if (s->family != 0 && s->family != 4 && s->family != 6)
		return ("an unknown address family");
	return (NULL);
}

static const char *
page_header_problem(const struct naproxy_page *p)
{

	if (NP_LOAD(p->magic) != NAPROXY_PAGE_MAGIC)
		return ("wrong magic");
	if (NP_LOAD(p->version) != NAPROXY_PAGE_VERSION)
		return ("wrong version");
	if (NP_LOAD(p->size) != NAPROXY_PAGE_SIZE)
		return ("wrong size in the header");
	if (NP_LOAD(p->nservers) > NAPROXY_SERVERS)
		return ("too many servers");
	return (NULL);
}

/*--------------------------------------------------------------------
 * Read under a seqlock. Returns the seq of what is in dst, or an odd number
 * if it could not be had.
 */

static uint32_t
page_copy(const uint32_t *seq, void *dst, const void *base, size_t from,
    size_t to)
{
	const struct timespec pause = { 0, SEQ_PAUSE_NS };
	uint32_t s = 1;
	int i;

	for (i = 0; i < SEQ_TRIES; i++) {
		s = NP_LOAD(*seq);
		if ((s & 1) == 0) {
			memcpy((char *)dst + from, (const char *)base + from,
			    to - from);
			__atomic_thread_fence(__ATOMIC_ACQUIRE);
			if (__atomic_load_n(seq, __ATOMIC_RELAXED) == s)
				return (s);
		}
		if (i >= SEQ_SPINS)
			(void)nanosleep(&pause, NULL);
	}
	return (s | 1);
}

static uint32_t
page_copy_server(struct naproxy_server *dst, const struct naproxy_server *src)
{

	return (page_copy(&src->seq, dst, src,
	    offsetof(struct naproxy_server, id),
	    offsetof(struct naproxy_server, held_now)));
}

/*--------------------------------------------------------------------
 * Snapshots. Every request takes one, so nobody waits for a lock to get at
 * the newest, and each processor counts for itself. A snapshot's memory stays
 * that of a snapshot until we close. Whoever is about to take one that was
 * just replaced sees that and tries again; one that is taken has a count
 * above zero from before it was replaced until it is released.
 */

static struct np_snap *page_old;	/* replaced; under page_mtx */

static bool
snap_unused(const struct np_snap *snap)
{
	unsigned u;

	for (u = 0; u < NP_STRIPES; u++)
		if (__atomic_load_n(&snap->refs[u].n, __ATOMIC_SEQ_CST) > 0)
			return (false);
	return (true);
}

static struct np_snap *
snap_new(void)
{
	struct np_snap **pp, *snap;

	for (pp = &page_old; (snap = *pp) != NULL; pp = &snap->next) {
		CHECK_OBJ(snap, NP_SNAP_MAGIC);
		if (!snap_unused(snap))
			continue;
		*pp = snap->next;
		memset(&snap->next, 0, offsetof(struct np_snap, refs) -
		    offsetof(struct np_snap, next));
		return (snap);
	}
	snap = aligned_alloc(__alignof__(*snap), sizeof *snap);
	AN(snap);
	INIT_OBJ(snap, NP_SNAP_MAGIC);
	return (snap);
}

static void
snap_replace(struct np_snap *snap)
{
	struct np_snap *old = page_snap;

	__atomic_store_n(&page_snap, snap, __ATOMIC_SEQ_CST);
	if (old == NULL)
		return;
	old->next = page_old;
	page_old = old;
}

static void
snap_free_all(void)
{
	struct np_snap *snap;

	snap_replace(NULL);
	while ((snap = page_old) != NULL) {
		page_old = snap->next;
		FREE_OBJ(snap);
	}
}

/* The newest with a reference to it; of NULL if there is none yet. */
static void
snap_take(struct np_ref *ref)
{
	unsigned stripe;

	stripe = (unsigned)sched_getcpu() % NP_STRIPES;
	while ((ref->snap = NP_LOAD(page_snap)) != NULL) {
		ref->count = &ref->snap->refs[stripe].n;
		(void)__atomic_add_fetch(ref->count, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&page_snap, __ATOMIC_SEQ_CST) == ref->snap)
			break;
		np_snap_release(ref);
	}
}

void
np_snap_release(struct np_ref *ref)
{

	if (ref->snap == NULL)
		return;
	CHECK_OBJ(ref->snap, NP_SNAP_MAGIC);
	ref->snap = NULL;
	(void)__atomic_sub_fetch(ref->count, 1, __ATOMIC_SEQ_CST);
}

static bool
snap_current(const struct np_snap *snap)
{
	const struct naproxy_page *p = snap->map->page;
	unsigned u;

	if (NP_LOAD(p->nservers) != snap->nservers ||
	    NP_LOAD(p->seq) != snap->seq)
		return (false);
	for (u = 0; u < snap->nservers && u < NAPROXY_SERVERS; u++)
		if (NP_LOAD(p->server[u].seq) != snap->site_seq[u])
			return (false);
	return (true);
}

static void
snap_read_box(struct np_snap *snap, const struct np_snap *old,
    struct naproxy_page *copy)
{
	const struct naproxy_rule *r;
	const struct naproxy_learned *l;

	snap->seq = page_copy(&snap->map->page->seq, copy, snap->map->page,
	    offsetof(struct naproxy_page, notice),
	    offsetof(struct naproxy_page, child_start_us));
	if (snap->seq & 1) {
		page_complain("page: the box's configuration stays locked");
		if (old == NULL)
			return;
		snap->nrules = old->nrules;
		snap->nlearned = old->nlearned;
		memcpy(snap->rule, old->rule, sizeof snap->rule);
		memcpy(snap->learned, old->learned, sizeof snap->learned);
		memcpy(snap->notice, old->notice, sizeof snap->notice);
		return;
	}
	for (r = copy->rules; r < copy->rules + NAPROXY_RULES; r++) {
		if (r->kind == NAPROXY_RULE_NONE)
			continue;
		if (r->kind > NAPROXY_RULE_KEEP || r->klass >= NAPROXY_CLASSES
		    || !page_string(r->text, sizeof r->text))
			page_complain("page: rule %d is malformed",
			    (int)(r - copy->rules));
		else
			snap->rule[snap->nrules++] = *r;
	}
	for (l = copy->learned; l < copy->learned + NAPROXY_LEARNED; l++)
		if (l->client != 0 && l->klass < NAPROXY_CLASSES)
			snap->learned[snap->nlearned++] = *l;
	if (page_string(copy->notice, sizeof copy->notice))
		memcpy(snap->notice, copy->notice, sizeof snap->notice);
	else
		page_complain("page: a notice without end");
}

static void
snap_read_site(struct np_snap *snap, const struct np_snap *old, unsigned u)
{
	struct np_site *site = &snap->site[u];
	const char *problem;
	unsigned v;

	snap->site_seq[u] = page_copy_server(&site->conf,
	    &snap->map->page->server[u]);
	if (snap->site_seq[u] & 1) {
		problem = "its configuration stays locked";
	} else {
		problem = page_server_problem(&site->conf);
		for (v = 0; problem == NULL && v < u; v++)
			if (snap->site[v].server != NULL &&
			    !strcmp(snap->site[v].conf.id, site->conf.id))
				problem = "the same id twice";
	}
	if (problem != NULL) {
		page_complain("page: server %u: %s", u, problem);
		if (old == NULL || old->map != snap->map)
			memset(site, 0, sizeof *site);
		else
			*site = old->site[u];
	}
	if (site->conf.id[0] == '\0')
		return;
	site->server = np_server_get(site->conf.id);
	if (site->server == NULL)
		page_complain("page: server %s: too many ids", site->conf.id);
}

static void
snap_renew(struct np_map *map)
{
	struct naproxy_page *copy;
	struct np_snap *snap, *old;
	unsigned u;

	snap = snap_new();
	copy = calloc(1, sizeof *copy);
	AN(copy);
	snap->map = map;
	snap->nservers = NP_LOAD(map->page->nservers);
	old = page_snap;
	snap_read_box(snap, old, copy);
	for (u = 0; u < snap->nservers && u < NAPROXY_SERVERS; u++)
		snap_read_site(snap, old, u);
	free(copy);
	np_server_attach(snap);
	snap_replace(snap);
}

const struct np_site *
np_snap_site(const struct np_snap *snap, const char *id)
{
	unsigned u;

	CHECK_OBJ_NOTNULL(snap, NP_SNAP_MAGIC);
	for (u = 0; u < NAPROXY_SERVERS; u++)
		if (snap->site[u].server != NULL &&
		    !strcmp(snap->site[u].server->id, id))
			return (&snap->site[u]);
	return (NULL);
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
		if (page_copy_server(&conf, &p->server[u]) & 1)
			return ("locked");
		problem = page_server_problem(&conf);
		if (problem != NULL)
			return (problem);
	}
	return (NULL);
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
	page_complain("%s/page: %s", page_dir, problem);
	return (NULL);
}

static struct naproxy_events *
page_open_events(struct stat *st)
{
	struct naproxy_events *e;
	const char *problem;

	e = page_mmap("events", sizeof *e, st, &problem);
	if (e != NULL) {
		if (e->magic == NAPROXY_EVENTS_MAGIC &&
		    e->version == NAPROXY_PAGE_VERSION &&
		    e->size == sizeof *e && e->count == NAPROXY_EVENTS)
			return (e);
		problem = "wrong header";
		AZ(munmap(e, sizeof *e));
	}
	page_complain("%s/events: %s", page_dir, problem);
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

/* Once a second: is there a page now, or another one? */
static void
page_look(void)
{
	struct stat st, est;
	struct naproxy_page *p;
	struct np_map *map, *old;

	old = page_map;
	if (!page_moved("page", &page_stat) &&
	    !page_moved("events", &page_events_stat))
		return;
	p = page_open_page(&st);
	if (p == NULL)
		return;
	ALLOC_OBJ(map, NP_MAP_MAGIC);
	AN(map);
	map->page = p;
	memset(&est, 0, sizeof est);
	map->events = page_open_events(&est);
	map->older = old;
	page_stat = st;
	page_events_stat = est;
	NP_STORE(p->child_start_us, page_start_us);
	snap_renew(map);
	NP_STORE(page_map, map);
	page_complaint[0] = '\0';
}

static void
page_tick(void)
{
	uint64_t now, next;

	now = np_coarse_us();
	next = NP_LOAD(page_tick_us);
	if (now < next || !__atomic_compare_exchange_n(&page_tick_us, &next,
	    now + TICK_US, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	AZ(pthread_mutex_lock(&page_mtx));
	page_look();
	AZ(pthread_mutex_unlock(&page_mtx));
}

void
np_page_snap(struct np_ref *ref)
{

	page_tick();
	snap_take(ref);
	if (ref->snap == NULL || snap_current(ref->snap))
		return;
	np_snap_release(ref);
	AZ(pthread_mutex_lock(&page_mtx));
	if (page_snap != NULL && !snap_current(page_snap))
		snap_renew(page_snap->map);
	AZ(pthread_mutex_unlock(&page_mtx));
	snap_take(ref);
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
	uint64_t now, beat, max;

	map = np_page_map();
	if (map == NULL || page_header_problem(map->page) != NULL)
		return (false);
	now = np_coarse_us();
	beat = NP_LOAD(map->page->heartbeat_us);
	max = NP_LOAD(map->page->heartbeat_max_ms) * UINT64_C(1000);
	return (beat != 0 && beat <= now + FUTURE_US && now <= beat + max);
}

unsigned
np_page_servers(void)
{
	const struct np_map *map;

	map = np_page_map();
	return (map == NULL ? 0 : NP_LOAD(map->page->nservers));
}

/*--------------------------------------------------------------------*/

static void *
page_vsc_thread(void *priv)
{
	struct timespec ts;

	(void)priv;
	(void)pthread_setname_np(pthread_self(), "naproxy-vsc");
	AZ(pthread_mutex_lock(&page_mtx));
	while (page_vsc_runs) {
		np_servers_vsc();
		AZ(clock_gettime(CLOCK_MONOTONIC, &ts));
		ts.tv_nsec += VSC_NS;
		ts.tv_sec += ts.tv_nsec / 1000000000;
		ts.tv_nsec %= 1000000000;
		(void)pthread_cond_timedwait(&page_vsc_end, &page_mtx, &ts);
	}
	AZ(pthread_mutex_unlock(&page_mtx));
	return (NULL);
}

static void
page_vsc_begin(void)
{
	pthread_condattr_t attr;

	AZ(pthread_condattr_init(&attr));
	AZ(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	AZ(pthread_cond_init(&page_vsc_end, &attr));
	AZ(pthread_condattr_destroy(&attr));
	page_vsc_runs = true;
	AZ(pthread_create(&page_vsc, NULL, page_vsc_thread, NULL));
}

static void
page_vsc_stop(void)
{

	if (!page_vsc_runs)
		return;
	AZ(pthread_mutex_lock(&page_mtx));
	page_vsc_runs = false;
	AZ(pthread_cond_signal(&page_vsc_end));
	AZ(pthread_mutex_unlock(&page_mtx));
	AZ(pthread_join(page_vsc, NULL));
	AZ(pthread_cond_destroy(&page_vsc_end));
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
	NP_STORE(page_tick_us, 0);
	page_tick();
	page_vsc_begin();
}

void
np_page_close(void)
{
	struct np_map *map;

	page_vsc_stop();
	AZ(pthread_mutex_lock(&page_mtx));
	snap_free_all();
	while ((map = page_map) != NULL) {
		CHECK_OBJ(map, NP_MAP_MAGIC);
		page_map = map->older;
		AZ(munmap(map->page, sizeof *map->page));
		if (map->events != NULL)
			AZ(munmap(map->events, sizeof *map->events));
		FREE_OBJ(map);
	}
	memset(&page_stat, 0, sizeof page_stat);
	memset(&page_events_stat, 0, sizeof page_events_stat);
	page_dir[0] = '\0';
	AZ(pthread_mutex_unlock(&page_mtx));
}
