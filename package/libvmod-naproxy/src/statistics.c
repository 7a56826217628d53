/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What is counted of a server, and shown: its gauges, in the page and in
 * varnishstat; and the page's counters, in varnishstat.
 */

#include <time.h>

#include "cache/cache.h"

#include "naproxy.h"
#include "VSC_naproxy.h"

#define VSC_NS		100000000

/* Copies counters for varnishstat. */
static pthread_t vsc_thread;
static pthread_cond_t vsc_end;
static bool vsc_runs;			/* written under np_page_mtx */

/*--------------------------------------------------------------------
 * Gauges: counted here, mirrored in the page and in varnishstat.
 */

static void
gauge_mirror(struct np_server *srv)
{
	struct naproxy_server *live;

	srv->vsc->held_now = srv->held;
	live = NP_LOAD(srv->live);
	if (live == NULL)
		return;
	NP_STORE(live->held_now, srv->held);
	NP_STORE(live->fetching_now, srv->fetching);
	NP_STORE(live->piping_now, srv->piping);
}

/* The server's record is this one from now on, and its gauges are there. */
void
np_statistics_attach(struct np_server *srv, struct naproxy_server *live,
    unsigned u)
{

	if (NP_LOAD(srv->live) == live)
		return;
	AZ(pthread_mutex_lock(&srv->mtx));
	srv->index = u;
	NP_STORE(srv->live, live);
	gauge_mirror(srv);
	AZ(pthread_mutex_unlock(&srv->mtx));
}

bool
np_gauge_hold(struct np_server *srv, uint32_t cap)
{
	bool ok;

	CHECK_OBJ_NOTNULL(srv, NP_SERVER_MAGIC);
	AZ(pthread_mutex_lock(&srv->mtx));
	ok = srv->held < cap;
	if (ok) {
		srv->held++;
		gauge_mirror(srv);
	}
	AZ(pthread_mutex_unlock(&srv->mtx));
	return (ok);
}

static void
gauge_add(struct np_server *srv, uint32_t *gauge, int by)
{

	CHECK_OBJ_NOTNULL(srv, NP_SERVER_MAGIC);
	AZ(pthread_mutex_lock(&srv->mtx));
	assert(by > 0 || *gauge > 0);
	*gauge += by;
	gauge_mirror(srv);
	AZ(pthread_mutex_unlock(&srv->mtx));
}

void
np_gauge_unhold(struct np_server *srv)
{

	gauge_add(srv, &srv->held, -1);
}

void
np_gauge_fetching(struct np_server *srv, int by)
{

	gauge_add(srv, &srv->fetching, by);
}

void
np_gauge_piping(struct np_server *srv, int by)
{

	gauge_add(srv, &srv->piping, by);
}

/*--------------------------------------------------------------------
 * varnishstat's counters are copied from the page: two sets that every
 * request writes would cost a hit twice as much.
 */

static void
vsc_copy(struct VSC_naproxy *vsc, const struct naproxy_server *live)
{
	uint64_t sum;
	unsigned u;

#define ALL(o)	naproxy_outcomes(live, ~0U, o)
	vsc->hits = ALL(NAPROXY_HIT);
	vsc->stale = ALL(NAPROXY_STALE);
	vsc->refused = ALL(NAPROXY_REFUSED);
	vsc->waiting_pages = ALL(NAPROXY_WAITING_PAGE);
	vsc->held = ALL(NAPROXY_HELD);
	vsc->capped = ALL(NAPROXY_CAPPED);
	vsc->limit = ALL(NAPROXY_LIMIT);
	vsc->gone = ALL(NAPROXY_GONE);
	vsc->spent = ALL(NAPROXY_SPENT);
	for (sum = 0, u = 0; u < NAPROXY_OUTCOMES; u++)
		sum += ALL(u);
#undef ALL
	vsc->requests = sum;
	vsc->total = naproxy_total(live);
	vsc->delayed = NP_LOAD(live->delayed);
	for (sum = 0, u = 0; u < NAPROXY_REASONS; u++)
		sum += NP_LOAD(live->wakes[u]);
	vsc->wakes = sum;
	vsc->magic_packets = NP_LOAD(live->magic_packets);
}

static void
vsc_copy_all(void)
{
	const struct np_server *srv;
	const struct naproxy_server *live;

	for (srv = np_servers(); srv != NULL; srv = srv->next) {
		CHECK_OBJ(srv, NP_SERVER_MAGIC);
		srv->vsc->state = np_server_state(srv);
		live = NP_LOAD(srv->live);
		if (live != NULL)
			vsc_copy(srv->vsc, live);
	}
}

/*--------------------------------------------------------------------
 * Beginning and end
 */

/* Have varnishstat show it. Asked for at each reading, done at the first. */
void
np_statistics_show(struct np_server *srv)
{

	CHECK_OBJ_NOTNULL(srv, NP_SERVER_MAGIC);
	if (srv->vsc != NULL)
		return;
	srv->vsc = VSC_naproxy_New(NULL, &srv->vsc_seg, "%s", srv->id);
	AN(srv->vsc);
}

static void *
vsc_loop(void *priv)
{
	struct timespec ts;

	(void)priv;
	(void)pthread_setname_np(pthread_self(), "naproxy-vsc");
	AZ(pthread_mutex_lock(&np_page_mtx));
	while (vsc_runs) {
		vsc_copy_all();
		AZ(clock_gettime(CLOCK_MONOTONIC, &ts));
		ts.tv_nsec += VSC_NS;
		ts.tv_sec += ts.tv_nsec / 1000000000;
		ts.tv_nsec %= 1000000000;
		(void)pthread_cond_timedwait(&vsc_end, &np_page_mtx, &ts);
	}
	AZ(pthread_mutex_unlock(&np_page_mtx));
	return (NULL);
}

void
np_statistics_begin(void)
{
	pthread_condattr_t attr;

	AZ(pthread_condattr_init(&attr));
	AZ(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	AZ(pthread_cond_init(&vsc_end, &attr));
	AZ(pthread_condattr_destroy(&attr));
	vsc_runs = true;
	AZ(pthread_create(&vsc_thread, NULL, vsc_loop, NULL));
}

void
np_statistics_end(void)
{

	AZ(pthread_mutex_lock(&np_page_mtx));
	vsc_runs = false;
	AZ(pthread_cond_signal(&vsc_end));
	AZ(pthread_mutex_unlock(&np_page_mtx));
	AZ(pthread_join(vsc_thread, NULL));
	AZ(pthread_cond_destroy(&vsc_end));
}

void
np_statistics_forget(void)
{
	struct np_server *srv;

	for (srv = np_servers(); srv != NULL; srv = srv->next) {
		CHECK_OBJ(srv, NP_SERVER_MAGIC);
		VSC_naproxy_Destroy(&srv->vsc_seg);
		srv->vsc = NULL;
	}
}
