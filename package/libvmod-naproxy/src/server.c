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

#define SERVERS_MAX	64	/* ids ever seen; more is somebody's mistake */

static struct np_server *servers;	/* under np_page_mtx */

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
	srv->next = servers;
	servers = srv;
	return (srv);
}

/* The first of all, linked by next. */
struct np_server *
np_servers(void)
{

	return (servers);
}

struct np_server *
np_server_find(const char *id)
{
	struct np_server *srv;

	AZ(pthread_mutex_lock(&np_page_mtx));
	for (srv = servers; srv != NULL && strcmp(srv->id, id) != 0;
	    srv = srv->next)
		continue;
	AZ(pthread_mutex_unlock(&np_page_mtx));
	return (srv);
}

void
np_servers_free(void)
{
	struct np_server *srv;

	while ((srv = servers) != NULL) {
		CHECK_OBJ(srv, NP_SERVER_MAGIC);
		servers = srv->next;
		AZ(pthread_mutex_destroy(&srv->mtx));
		np_changed_end(srv);
		FREE_OBJ(srv);
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

/*
 * Did it take no connection (reach.c)? Only of a server that the controller calls
 * awake does that know more.
 */
bool
np_server_silent(const struct np_server *srv)
{
	const struct naproxy_server *live;
	uint64_t silent_us;

	silent_us = NP_LOAD(srv->silent_us);
	if (silent_us == 0)
		return (false);
	live = NP_LOAD(srv->live);
	return (live != NULL && NP_LOAD(live->since_us) < silent_us &&
	    np_server_state(srv) == NAPROXY_AWAKE);
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
		return (!np_server_silent(srv));
	}
}

/*
 * For how long has it been unable to change its files? The page's clock: nobody
 * sets it.
 */
double
np_server_frozen_s(const struct np_server *srv)
{
	const struct naproxy_server *live;
	uint64_t froze_us, now_us;

	if (np_server_available(srv))
		return (0);
	live = NP_LOAD(srv->live);
	if (live == NULL)
		return (0);
	froze_us = NP_LOAD(live->froze_us);
	now_us = np_now_us();
	/* A 32 bit controller stores it in halves: for a moment it is in the future. */
	if (froze_us == 0 || froze_us > now_us)
		return (0);
	return ((double)(now_us - froze_us) / 1e6);
}

/* Did it wake in the last `ago_s`? When somebody began to look at it counts, too. */
bool
np_server_woke(const struct np_server *srv, double ago_s)
{
	const struct naproxy_server *live;
	uint64_t since_us, now_us;

	live = NP_LOAD(srv->live);
	if (live == NULL || np_server_state(srv) != NAPROXY_AWAKE)
		return (false);
	since_us = NP_LOAD(live->since_us);
	now_us = np_now_us();
	return (since_us <= now_us && (double)(now_us - since_us) / 1e6 < ago_s);
}

/*
 * Is it waking, or did it wake within the last `window_ms`? Its answers may then only
 * say that it is not ready. 0: never.
 */
bool
np_server_settling(const struct np_server *srv, uint32_t window_ms)
{

	if (window_ms == 0 || !np_page_trusted())
		return (false);
	return (np_server_state(srv) == NAPROXY_WAKING ||
	    np_server_woke(srv, window_ms / 1e3));
}

/*
 * When may the next waiter go? release_batch of them go at once, then there is a pause
 * of release_ms: all of them together could overload a server that has just woken up.
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
