/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A server as this process knows it. It is found by its id, so that gauges
 * and rate limits follow it when a new page puts it in another slot.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"

#include "naproxy.h"
#include "VSC_naproxy.h"

#define SERVERS_MAX	64	/* ids ever seen; more is somebody's mistake */

static struct np_server *servers;	/* under the page's lock */

struct np_server *
np_server_get(const char *id)
{
	struct np_server *srv;
	unsigned n = 0;

	for (srv = servers; srv != NULL; srv = srv->next, n++)
		if (!strcmp(srv->id, id))
			return (srv);
	if (n >= SERVERS_MAX)
		return (NULL);
	ALLOC_OBJ(srv, NP_SERVER_MAGIC);
	AN(srv);
	bprintf(srv->id, "%s", id);
	AZ(pthread_mutex_init(&srv->mtx, NULL));
	srv->vsc = VSC_naproxy_New(NULL, &srv->vsc_seg, "%s", id);
	AN(srv->vsc);
	srv->next = servers;
	servers = srv;
	return (srv);
}

void
np_servers_free(void)
{
	struct np_server *srv;

	while ((srv = servers) != NULL) {
		CHECK_OBJ(srv, NP_SERVER_MAGIC);
		servers = srv->next;
		VSC_naproxy_Destroy(&srv->vsc_seg);
		AZ(pthread_mutex_destroy(&srv->mtx));
		FREE_OBJ(srv);
	}
}

/*--------------------------------------------------------------------
 * Gauges: counted here, mirrored in the page and in varnishstat.
 */

static void
server_mirror(struct np_server *srv)
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

static void
server_attach(struct np_server *srv, struct naproxy_server *live, unsigned u)
{

	if (NP_LOAD(srv->live) == live)
		return;
	AZ(pthread_mutex_lock(&srv->mtx));
	srv->index = u;
	NP_STORE(srv->live, live);
	server_mirror(srv);
	AZ(pthread_mutex_unlock(&srv->mtx));
}

/* The servers' records are those of this reading's page from now on. */
void
np_server_attach(struct np_snap *snap)
{
	struct np_server *srv;
	const struct np_site *site;

	for (srv = servers; srv != NULL; srv = srv->next) {
		site = np_snap_site(snap, srv->id);
		if (site == NULL)
			server_attach(srv, NULL, 0);
		else
			server_attach(srv,
			    &snap->map->page->server[site - snap->site],
			    (unsigned)(site - snap->site));
	}
}

bool
np_server_hold(struct np_server *srv, uint32_t cap)
{
	bool ok;

	CHECK_OBJ_NOTNULL(srv, NP_SERVER_MAGIC);
	AZ(pthread_mutex_lock(&srv->mtx));
	ok = srv->held < cap;
	if (ok) {
		srv->held++;
		server_mirror(srv);
	}
	AZ(pthread_mutex_unlock(&srv->mtx));
	return (ok);
}

static void
server_gauge(struct np_server *srv, uint32_t *gauge, int by)
{

	CHECK_OBJ_NOTNULL(srv, NP_SERVER_MAGIC);
	AZ(pthread_mutex_lock(&srv->mtx));
	assert(by > 0 || *gauge > 0);
	*gauge += by;
	server_mirror(srv);
	AZ(pthread_mutex_unlock(&srv->mtx));
}

void
np_server_unhold(struct np_server *srv)
{

	server_gauge(srv, &srv->held, -1);
}

void
np_server_fetching(struct np_server *srv, int by)
{

	server_gauge(srv, &srv->fetching, by);
}

void
np_server_piping(struct np_server *srv, int by)
{

	server_gauge(srv, &srv->piping, by);
}

/*--------------------------------------------------------------------
 * varnishstat's counters are copied from the page: two sets that every
 * request writes would cost a hit twice as much.
 */

static void
server_vsc(struct VSC_naproxy *vsc, const struct naproxy_server *live)
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

/* Under the page's lock. */
void
np_servers_vsc(void)
{
	const struct np_server *srv;
	const struct naproxy_server *live;

	for (srv = servers; srv != NULL; srv = srv->next) {
		CHECK_OBJ(srv, NP_SERVER_MAGIC);
		srv->vsc->state = np_server_state(srv);
		live = NP_LOAD(srv->live);
		if (live != NULL)
			server_vsc(srv->vsc, live);
	}
}

/*--------------------------------------------------------------------
 * State
 */

uint32_t
np_server_state(const struct np_server *srv)
{
	const struct naproxy_server *live;
	uint32_t state = NAPROXY_UNKNOWN;

	CHECK_OBJ_NOTNULL(srv, NP_SERVER_MAGIC);
	live = NP_LOAD(srv->live);
	if (live != NULL)
		state = NP_LOAD(live->state);
	if (state > NAPROXY_TROUBLE)
		state = NAPROXY_UNKNOWN;
	return (state);
}

bool
np_server_available(const struct np_server *srv)
{

	if (!np_page_trusted())
		return (true);
	switch (np_server_state(srv)) {
	case NAPROXY_FALLING_ASLEEP:
	case NAPROXY_ASLEEP:
	case NAPROXY_WAKING:
		return (false);
	default:
		return (true);
	}
}

/*
 * When may the next waiter go? release_batch of them at once, then a pause
 * of release_ms, so that a server that has just woken up does not meet all
 * of them together.
 */
uint64_t
np_server_turn(struct np_server *srv, const struct naproxy_server *conf,
    uint64_t now_us)
{
	uint64_t turn, pause;

	CHECK_OBJ_NOTNULL(srv, NP_SERVER_MAGIC);
	if (conf->release_batch == 0)
		return (now_us);
	pause = conf->release_ms * UINT64_C(1000);
	AZ(pthread_mutex_lock(&srv->mtx));
	if (now_us >= srv->stage_us + pause) {
		srv->stage_us = now_us;
		srv->stage_n = 0;
	} else if (srv->stage_n >= conf->release_batch) {
		srv->stage_us += pause;
		srv->stage_n = 0;
	}
	srv->stage_n++;
	turn = srv->stage_us;
	AZ(pthread_mutex_unlock(&srv->mtx));
	return (turn);
}
