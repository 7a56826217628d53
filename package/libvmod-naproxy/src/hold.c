/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Wait until the server is up. The thread sleeps on the page's state word;
 * every 250 ms at the latest it looks whether the client is still there, the
 * heartbeat fresh, the page the same, and asks again for the wake.
 *
 * A client of HTTP/2 shares its connection with other requests: that it
 * cancelled one of them is not seen here, only that the connection is gone.
 */

#include <sys/syscall.h>

#include <linux/futex.h>

#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache.h"

#include "naproxy.h"

#define HOLD_SLICE_US	250000

/* 32-bit systems whose time_t has 64 bits have a call of its own. */
#if defined(SYS_futex_time64) && !defined(SYS_futex)
#  define SYS_futex	SYS_futex_time64
#endif
#ifdef SYS_futex_time64
#  define HOLD_FUTEX	(sizeof (time_t) > sizeof (long) ?		\
    SYS_futex_time64 : SYS_futex)
#else
#  define HOLD_FUTEX	SYS_futex
#endif

/*
 * Over HTTP/1 a client may say that it sends no more and wait for its response. Many
 * that left say the same, and are found out when the response is sent.
 */
static bool
hold_gone(VRT_CTX)
{
	const struct sess *sp = ctx->sp;
	struct pollfd pfd;

	CHECK_OBJ_NOTNULL(sp, SESS_MAGIC);
	if (sp->fd < 0)
		return (true);
	pfd.fd = sp->fd;
	pfd.events = !strncmp(ctx->http_req->hd[HTTP_HDR_PROTO].b, "HTTP/1", 6) ?
	    0 : POLLRDHUP;
	pfd.revents = 0;
	return (poll(&pfd, 1, 0) > 0 && (pfd.revents &
	    (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0);
}

static struct timespec
hold_timespec(uint64_t us)
{
	struct timespec ts;

	ts.tv_sec = (time_t)(us / 1000000);
	ts.tv_nsec = (long)(us % 1000000) * 1000;
	return (ts);
}

static uint64_t
hold_deadline(const struct np_record *rec)
{

	return (rec->start_us + rec->site->conf.hold_limit_ms * UINT64_C(1000));
}

static uint64_t
hold_slice(uint64_t now, uint64_t until)
{

	if (until <= now)
		return (0);
	return (until - now < HOLD_SLICE_US ? until - now : HOLD_SLICE_US);
}

static void
hold_pause_for(uint64_t slice)
{
	struct timespec ts = hold_timespec(slice);

	(void)nanosleep(&ts, NULL);
}

/* Sleep until the state moves, or a slice has passed. */
static void
hold_wait(const struct np_server *srv, uint64_t slice)
{
	const struct naproxy_server *live;
	struct timespec ts = hold_timespec(slice);
	uint32_t state;

	live = NP_LOAD(srv->live);
	if (live == NULL)
		return;
	state = NP_LOAD(live->state);
	if (np_server_available(srv))
		return;
	(void)syscall(HOLD_FUTEX, &live->state, FUTEX_WAIT, state, &ts, NULL, 0);
}

/*
 * Sleep until the state moves or the time has come; look at what else may be.
 * NAPROXY_HELD, here and below: nothing speaks against going on.
 */
static enum naproxy_outcome
hold_once(VRT_CTX, const struct np_record *rec, uint64_t now)
{
	struct np_ref ref;
	uint64_t deadline;

	deadline = hold_deadline(rec);
	if (now >= deadline)
		return (NAPROXY_LIMIT);
	if (hold_gone(ctx))
		return (NAPROXY_GONE);
	np_reach(rec->site, false);
	if (rec->woke)
		np_wake(ctx, rec);
	hold_wait(rec->site->server, hold_slice(now, deadline));
	/* A new page? Then the state word is another one. */
	np_page_snap(&ref);
	np_snap_release(&ref);
	return (NAPROXY_HELD);
}

/* Up, but perhaps not everybody's turn at once. */
static enum naproxy_outcome
hold_turn(VRT_CTX, const struct np_record *rec)
{
	uint64_t now, turn, deadline;

	now = np_now_us();
	turn = np_server_turn(rec->site->server, &rec->site->conf, now);
	/* At the limit there is no reason to refuse: the server is up. */
	deadline = hold_deadline(rec);
	if (turn > deadline)
		turn = deadline;
	while (now < turn) {
		if (hold_gone(ctx))
			return (NAPROXY_GONE);
		hold_pause_for(hold_slice(now, turn));
		now = np_now_us();
	}
	return (NAPROXY_HELD);
}

static enum naproxy_outcome
hold_loop(VRT_CTX, const struct np_record *rec)
{
	const struct np_server *srv = rec->site->server;
	enum naproxy_outcome result = NAPROXY_HELD;

	while (result == NAPROXY_HELD && !np_server_available(srv)) {
		result = hold_once(ctx, rec, np_now_us());
		/* It may waver while we wait for our turn. */
		if (result == NAPROXY_HELD && np_server_available(srv))
			result = hold_turn(ctx, rec);
	}
	return (result);
}

/* Is there room for one more, at this server and of all? */
static bool
hold_begin(const struct np_record *rec)
{

	if (!np_clients_wait())
		return (false);
	if (np_gauge_hold(rec->site->server, rec->site->conf.hold_cap))
		return (true);
	np_clients_waited();
	return (false);
}

static void
hold_end(const struct np_record *rec)
{

	np_gauge_unhold(rec->site->server);
	np_clients_waited();
}

/*
 * For a fetch that could not connect: nothing of it was sent. Its client waits
 * behind it, and is not looked at.
 */
bool
np_hold_fetch(VRT_CTX, struct np_record *rec)
{
	const struct np_site *site = rec->site;
	uint64_t now, deadline;

	AN(site);
	now = np_now_us();
	deadline = now + site->conf.hold_limit_ms * UINT64_C(1000);
	rec->reason = NAPROXY_WAKE_MISS;
	np_reach(site, true);
	if (np_server_available(site->server))
		/* Back already; one that refuses connections does so again. */
		return (ctx->bo->retries == 0);
	if (!hold_begin(rec))
		return (false);
	while (!np_server_available(site->server) && now < deadline) {
		np_wake(ctx, rec);
		hold_wait(site->server, hold_slice(now, deadline));
		np_reach(site, false);
		now = np_now_us();
	}
	hold_end(rec);
	return (now < deadline);
}

/* How long to wait before the server is asked again: 1/4 s, 1/2 s, ... 4 s. */
static uint64_t
hold_pause(unsigned retries)
{

	return (UINT64_C(250000) << (retries < 4 ? retries : 4));
}

/*
 * For a fetch whose answer only says that the server is not ready yet. True:
 * ask again.
 */
bool
np_hold_ready(VRT_CTX, struct np_record *rec)
{
	const struct np_site *site = rec->site;
	uint64_t now, until, deadline;

	AN(site);
	now = np_now_us();
	if (rec->unready_us == 0)
		rec->unready_us = now;
	deadline = rec->unready_us + site->conf.hold_limit_ms * UINT64_C(1000);
	until = now + hold_pause(ctx->bo->retries);
	rec->reason = NAPROXY_WAKE_MISS;
	if (now >= deadline || !hold_begin(rec))
		return (false);
	while (now < deadline &&
	    (now < until || !np_server_available(site->server))) {
		np_wake(ctx, rec);
		if (np_server_available(site->server))
			hold_pause_for(hold_slice(now, until));
		else
			hold_wait(site->server, hold_slice(now, deadline));
		now = np_now_us();
	}
	hold_end(rec);
	return (now < deadline);
}

enum naproxy_outcome
np_hold(VRT_CTX, struct np_record *rec)
{
	enum naproxy_outcome result;
	uint64_t begin, end;

	if (!hold_begin(rec))
		return (NAPROXY_CAPPED);
	begin = np_now_us();
	result = hold_loop(ctx, rec);
	hold_end(rec);
	end = np_now_us();
	if (rec->slept)
		rec->delay_us = end - rec->start_us;
	else
		rec->delay_us += end - begin;
	rec->held = true;
	return (result);
}
