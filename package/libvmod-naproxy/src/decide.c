/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What becomes of a request that the cache cannot answer: algorithm 1 of the thesis.
 *
 *   a robot, and the server sleeps       -> refused, nobody is woken
 *   over its share, and it sleeps        -> spent, nobody is woken
 *   a crawler, too soon after another    -> refused
 *   too many of its client in flight     -> full
 *   the server is awake                  -> fetch, pass or pipe
 *   otherwise the server is woken, and
 *       a person's page load             -> waiting_page
 *       anything else is held            -> held, capped, limit or gone
 *
 * A server also counts as awake when the controller is gone: then np_wake() sends
 * the magic packet, in case it sleeps. Otherwise np_wake() does nothing for a server
 * that is awake, so it is not asked first.
 */

#include "cache/cache.h"
#include "vcl.h"

#include "naproxy.h"

/* May this class wake the server, or is the request one that is never refused? */
bool
np_may_wake(VRT_CTX, const struct np_record *rec)
{

	return ((rec->site->conf.wakes_mask >> rec->klass & 1) != 0 ||
	    rec->let_in || np_never_refused(ctx, rec));
}

static bool
decide_deferred(VRT_CTX, const struct np_record *rec)
{

	return ((rec->site->conf.flags & NAPROXY_F_DEFER) != 0 &&
	    !np_may_wake(ctx, rec));
}

static void
decide_wake(VRT_CTX, struct np_record *rec)
{

	if (ctx->method == VCL_MET_PIPE)
		rec->reason = NAPROXY_WAKE_PIPE;
	else if (rec->flags & NAPROXY_E_PAGE_LOAD)
		rec->reason = NAPROXY_WAKE_PAGE;
	else if (ctx->method == VCL_MET_PASS)
		rec->reason = NAPROXY_WAKE_PASS;
	else
		rec->reason = NAPROXY_WAKE_MISS;
	rec->woke = true;
	np_wake(ctx, rec);
}

/* It goes to the server at once. */
static unsigned
decide_goes(VRT_CTX, const struct np_record *rec)
{

	if (ctx->method == VCL_MET_PIPE)
		return (NAPROXY_PIPE);
	if (ctx->method == VCL_MET_PASS)
		return (NAPROXY_PASS);
	/* Held before, and restarted. */
	return (rec->held ? NAPROXY_HELD : NAPROXY_FETCH);
}

unsigned
np_decide(VRT_CTX, struct np_record *rec)
{
	const struct np_site *site = rec->site;
	bool asleep, page;

	CHECK_OBJ_NOTNULL(rec, NP_RECORD_MAGIC);
	AN(site);
	/* It may have fallen asleep. A pipe that cannot be laid cannot be tried again. */
	np_reach(site, ctx->method == VCL_MET_PIPE);
	asleep = !np_server_available(site->server);
	page = (rec->flags & NAPROXY_E_PAGE_LOAD) != 0 &&
	    (site->conf.flags & NAPROXY_F_WAITING_PAGE) != 0;
	if (asleep ? decide_deferred(ctx, rec) : !np_wake_paced(ctx, rec)) {
		np_wake_refused(ctx, rec);
		return (NAPROXY_REFUSED);
	}
	if (asleep && (rec->flags & NAPROXY_E_SPENT) != 0)
		return (NAPROXY_SPENT);
	/* The waiting page takes no thread for long. */
	if (!asleep || !page) {
		if (!np_clients_admit(rec, true))
			return (NP_FULL);
		np_clients_patience(ctx->sp);
	}
	decide_wake(ctx, rec);
	if (np_server_available(site->server))
		return (decide_goes(ctx, rec));
	return (page ? NAPROXY_WAITING_PAGE : np_hold(ctx, rec));
}
