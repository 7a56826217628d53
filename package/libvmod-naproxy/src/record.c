/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What became of a request. The record lives in the task, which Varnish ends
 * exactly once, whatever happened: then it is counted. A restart keeps the
 * task, so it is not counted twice; a request that ESI makes is part of the
 * one that includes it.
 */

#include <string.h>

#include "cache/cache.h"

#include "crawlers.h"
#include "naproxy.h"

static const char record_id[1];	/* its address is our key among tasks */

/*--------------------------------------------------------------------
 * Counting
 */

static bool
record_needed(const struct np_record *rec)
{

	return (rec->held ||
	    (naproxy_marks(rec->outcome) & NAPROXY_O_NEEDED) != 0);
}

static bool
record_late(const struct np_record *rec)
{

	return ((naproxy_marks(rec->outcome) & NAPROXY_O_LATE) != 0 ||
	    rec->delay_us > rec->site->conf.delta_ms * UINT64_C(1000));
}

static void
record_max(uint64_t *word, uint64_t value)
{
	uint64_t was;

	was = NP_LOAD(*word);
	/* To the millisecond is good enough, and spares the others' caches. */
	while (was + 1000 <= value && !__atomic_compare_exchange_n(word, &was, value,
	    true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		continue;
}

/* [i] has delays below 1 << i milliseconds; the last, all longer ones. */
static unsigned
record_bucket(uint64_t delay_ms)
{
	unsigned i;

	for (i = 0; i < NAPROXY_DELAYS - 1; i++)
		if (delay_ms < UINT64_C(1) << i)
			break;
	return (i);
}

static void
record_event(const struct np_record *rec, struct naproxy_events *ring)
{
	struct naproxy_event *e;
	uint64_t n;

	n = NP_ADD(ring->head, 1);
	e = &ring->event[(n - 1) % NAPROXY_EVENTS];
	__atomic_store_n(&e->seq, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	e->t_us = rec->start_us;
	e->client = rec->client;
	e->path = rec->event_path;
	e->delay_ms = (uint32_t)(rec->delay_us / 1000);
	e->agent = rec->agent;
	e->server = (uint8_t)rec->site->server->index;
	e->klass = rec->klass;
	e->outcome = rec->outcome;
	e->flags = rec->flags;
	e->status = rec->status;
	e->method = rec->method;
	e->rule = rec->rule;
	e->address = rec->address;
	e->network = rec->network;
	NP_STORE(e->seq, n);
}

static void
record_budget(const struct np_record *rec, struct naproxy_server *live)
{
	uint64_t n;

	if (rec->flags & NAPROXY_E_DELAYED)
		(void)NP_ADD(live->delayed, 1);
	if (rec->delay_us >= 1000 && rec->outcome != NAPROXY_WAITING_PAGE)
		(void)NP_ADD(live->delays[record_bucket(rec->delay_us / 1000)],
		    1);
	record_max(&live->last_request_us, np_coarse_us());
	if ((rec->flags & NAPROXY_E_NEEDED) == 0)
		return;
	n = NP_ADD(live->window_n, 1) - 1;
	NP_STORE(live->window_us[n % NAPROXY_WINDOW], rec->start_us);
}

void
np_record_count(struct np_record *rec)
{
	struct naproxy_server *live;
	struct np_map *map;
	bool budget;

	CHECK_OBJ_NOTNULL(rec, NP_RECORD_MAGIC);
	if (rec->counted || rec->site == NULL)
		return;
	rec->counted = true;
	if (rec->held && (rec->outcome == NAPROXY_FETCH ||
	    rec->outcome == NAPROXY_PASS))
		rec->outcome = NAPROXY_HELD;
	if (record_needed(rec))
		rec->flags |= NAPROXY_E_NEEDED;
	/* The promise does not cover clients that have used up their share. */
	if ((rec->flags & NAPROXY_E_SPENT) == 0 && record_late(rec))
		rec->flags |= NAPROXY_E_DELAYED;
	/* Asking how the server is is not asking for the server. */
	budget = !np_robot(rec->klass) &&
	    !(naproxy_marks(rec->outcome) & NAPROXY_O_APART);

	live = NP_LOAD(rec->site->server->live);
	map = np_page_map();
	if (live == NULL || map == NULL)
		return;
	(void)NP_ADD(live->requests[rec->klass][rec->outcome], 1);
	if (budget && (rec->flags & NAPROXY_E_SPENT))
		(void)NP_ADD(live->spent, 1);
	else if (budget)
		record_budget(rec, live);
	if (budget)
		np_visit_count(rec, live);
	if (map->events != NULL)
		record_event(rec, map->events);
}

/*--------------------------------------------------------------------
 * The task's record
 */

/* The time that an ESI request waited counts for the request that includes it. */
static void
record_include(VRT_CTX, const struct np_record *rec)
{
	struct vrt_ctx top[1];
	struct vmod_priv *priv;
	struct np_record *outer;

	*top = *ctx;
	top->req = ctx->req->top->topreq;
	top->bo = NULL;
	priv = VRT_priv_task_get(top, record_id);
	if (priv == NULL || priv->priv == NULL)
		return;
	CAST_OBJ_NOTNULL(outer, priv->priv, NP_RECORD_MAGIC);
	outer->delay_us += rec->delay_us;
	if (record_needed(rec))
		outer->flags |= NAPROXY_E_NEEDED;
}

/* Is his share used up by now? He may have been here for hours. */
static bool
record_spent(const struct np_record *rec)
{
	const struct np_site *site;
	struct np_ref ref;
	bool spent = false;

	np_page_snap(&ref);
	if (ref.snap != NULL) {
		site = np_snap_site(ref.snap, rec->site->server->id);
		spent = site != NULL && np_snap_spent(ref.snap, site, rec);
	}
	np_snap_release(&ref);
	return (spent);
}

/* The server is in use until now. */
static void
record_touch(const struct np_record *rec)
{
	struct naproxy_server *live;

	live = NP_LOAD(rec->site->server->live);
	if (live != NULL && !np_robot(rec->klass) && !record_spent(rec))
		record_max(&live->last_request_us, np_now_us());
}

static void v_matchproto_(vmod_priv_fini_f)
record_fini(VRT_CTX, void *p)
{
	struct np_record *rec;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	CAST_OBJ_NOTNULL(rec, p, NP_RECORD_MAGIC);
	/* In a method of VCL it is a rollback: the request goes on. */
	if (ctx->req != NULL && ctx->method == 0) {
		if (!IS_TOPREQ(ctx->req))
			record_include(ctx, rec);
		else
			np_record_count(rec);
	}
	if (rec->fetching)
		np_gauge_fetching(rec->site->server, -1);
	if (rec->piping) {
		record_touch(rec);
		np_gauge_piping(rec->site->server, -1);
	}
	np_clients_leave(rec);
	VRT_Assign_Backend(&rec->backend, NULL);
	np_snap_release(&rec->ref);
	rec->magic = 0;
}

static const struct vmod_priv_methods record_methods[1] = {{
	.magic = VMOD_PRIV_METHODS_MAGIC,
	.type = "naproxy_record",
	.fini = record_fini,
}};

struct np_record *
np_record_new(VRT_CTX)
{
	struct vmod_priv *priv;
	struct np_record *rec;

	priv = VRT_priv_task(ctx, record_id);
	if (priv == NULL)
		return (NULL);
	if (priv->priv == NULL) {
		rec = WS_Alloc(ctx->ws, sizeof *rec);
		if (rec == NULL)
			return (NULL);
		INIT_OBJ(rec, NP_RECORD_MAGIC);
		rec->agent = CRAWLERS_NONE;
		rec->became = rec->outcome = NAPROXY_OTHER;
		priv->priv = rec;
		priv->methods = record_methods;
	}
	CAST_OBJ_NOTNULL(rec, priv->priv, NP_RECORD_MAGIC);
	return (rec);
}

/* A fetch asks for the first time: its server is its director's. */
static struct np_record *
record_of_fetch(VRT_CTX)
{
	const struct np_server *srv;
	struct np_record *rec;

	srv = np_director_server(ctx->bo->director_req);
	if (srv == NULL)
		return (NULL);
	rec = np_record_new(ctx);
	if (rec == NULL)
		return (NULL);
	np_page_snap(&rec->ref);
	if (rec->ref.snap != NULL)
		rec->site = np_snap_site(rec->ref.snap, srv->id);
	return (rec);
}

struct np_record *
np_record(VRT_CTX)
{
	struct vmod_priv *priv;
	struct np_record *rec;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	if (ctx->req == NULL && ctx->bo == NULL)
		return (NULL);
	priv = VRT_priv_task_get(ctx, record_id);
	if (priv != NULL && priv->priv != NULL) {
		CAST_OBJ_NOTNULL(rec, priv->priv, NP_RECORD_MAGIC);
		return (rec);
	}
	return (ctx->req == NULL ? record_of_fetch(ctx) : NULL);
}

/* Where a request is known to wait no longer. */
void
np_record_arrived(struct np_record *rec)
{

	if (rec->slept && !rec->held)
		rec->delay_us = np_now_us() - rec->start_us;
}
