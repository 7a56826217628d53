/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A response's body, as the server sends it. Varnish reads from the server's
 * connection and does nothing else meanwhile. So before each read we wait for
 * the next bytes ourselves, and look each second at what Varnish does not see:
 *
 *   - A client that is gone: its stream ends.
 *   - A server that sleeps: it sends no more.
 *   - A stream (see stream()) may be silent for longer than other responses,
 *     but only half of the requests in flight may be streams and pipes that
 *     have been silent for a minute.
 *   - A response that takes long is for those who already read it: the cache
 *     does not keep it.
 *
 * The bytes that came with the head go on at once. Varnish by itself would
 * first read more of a body whose length it does not know.
 */

#include <poll.h>

#if __has_include("cache/cache_vinyld.h")
#  include "cache/cache_vinyld.h"
#else
#  include "cache/cache_varnishd.h"
#endif
#include "cache/cache_filter.h"

#include "naproxy.h"

#define STREAM_SLICE_MS		1000
#define STREAM_SHORT_US		UINT64_C(60000000)
#define STREAM_KEPT_US		UINT64_C(10000000)
#define STREAM_IDLE_MS		3600000
/* As much as the head of a chunk has, its end and that of the one before. */
#define STREAM_CHUNK_HEAD	24

struct np_stream {
	unsigned		magic;
#define NP_STREAM_MAGIC		0x6be02c91
	struct busyobj		*bo;
	const struct np_site	*site;		/* NULL: unknown */
	uint64_t		begin_us;
	uint64_t		idle_us;	/* longest silence */
	bool			endless;
	bool			counted;	/* in silent_n */
	bool			ended;		/* its client sends no more */
	bool			dropped;	/* not kept, or never was */
};

static unsigned silent_n;	/* streams and pipes; atomic */

/*--------------------------------------------------------------------
 * How many may be silent for long
 */

void
np_silent_begin(void)
{

	(void)NP_ADD(silent_n, 1);
}

void
np_silent_end(void)
{

	(void)__atomic_sub_fetch(&silent_n, 1, __ATOMIC_RELAXED);
}

/* One that has been silent for so long: must it end? Then it is not counted any more. */
bool
np_silent_over(uint64_t us)
{
	unsigned n;

	if (us < STREAM_SHORT_US)
		return (false);
	n = NP_LOAD(silent_n);
	while (n > np_clients_half())
		if (__atomic_compare_exchange_n(&silent_n, &n, n - 1, false,
		    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return (true);
	return (false);
}

uint64_t
np_silent_most_us(uint32_t conf_ms)
{

	return ((conf_ms == 0 ? STREAM_IDLE_MS : conf_ms) * UINT64_C(1000));
}

/*--------------------------------------------------------------------
 * Waiting for the next bytes
 */

/* By now, is there anybody for whom to wait? NULL: yes. */
static const char *
stream_client(struct np_stream *st, short revents)
{

	if (st->bo->fetch_objcore->flags & OC_F_CANCEL)
		return ("the client is gone");
	if (!st->bo->uncacheable || st->bo->is_bgfetch)
		return (NULL);
	if (st->bo->sp->fd < 0 || (revents & (POLLERR | POLLHUP)))
		return ("the client is gone");
	if (revents & POLLRDHUP)
		st->ended = true;
	return (NULL);
}

static const char *
stream_over(struct np_stream *st, uint64_t silent_us)
{

	if (silent_us >= st->idle_us)
		return ("silent for too long");
	if (st->ended && silent_us >= STREAM_SHORT_US)
		/* Half-closed, or gone: only sending more would show which. */
		return ("silent, and its client sends no more");
	if (st->counted && np_silent_over(silent_us)) {
		st->counted = false;
		return ("too many are silent");
	}
	if (st->site != NULL && np_page_trusted() &&
	    np_server_state(st->site->server) == NAPROXY_ASLEEP)
		return ("the server sleeps");
	return (NULL);
}

/* The response was stored for everybody at first; drop it from the cache. */
static void
stream_drop(struct np_stream *st)
{

	if (st->dropped || np_now_us() < st->begin_us + STREAM_KEPT_US)
		return;
	st->dropped = true;
	if (HSH_Kill != NULL)
		HSH_Kill(st->bo->fetch_objcore);
}

/* NULL: there are bytes, or the end, or an error that the read will say. */
static const char *
stream_wait(struct np_stream *st)
{
	struct pollfd pfd[2];
	uint64_t begin_us = np_now_us();
	const char *why;
	short revents;
	int client;

	for (;;) {
		pfd[0].fd = *st->bo->htc->rfd;
		pfd[0].events = POLLIN;
		client = st->bo->is_bgfetch || !st->bo->uncacheable ? -1 :
		    st->bo->sp->fd;
		pfd[1].fd = client;
		pfd[1].events = st->ended ? 0 : POLLRDHUP;
		pfd[0].revents = pfd[1].revents = 0;
		if (poll(pfd, 2, STREAM_SLICE_MS) < 0 && errno != EINTR)
			return (NULL);
		stream_drop(st);
		if (pfd[0].revents != 0)
			return (NULL);
		/* Its number may be another's by now. */
		revents = client >= 0 && st->bo->sp->fd == client ?
		    pfd[1].revents : 0;
		why = stream_client(st, revents);
		if (why == NULL)
			why = stream_over(st, np_now_us() - begin_us);
		if (why != NULL)
			return (why);
	}
}

/*--------------------------------------------------------------------
 * The fetch processor
 */

static enum vfp_status v_matchproto_(vfp_init_f)
stream_init(VRT_CTX, struct vfp_ctx *vc, struct vfp_entry *vfe)
{
	struct np_stream *st;
	struct np_record *rec;
	uint32_t ms = 0;

	CHECK_OBJ_NOTNULL(vc, VFP_CTX_MAGIC);
	CHECK_OBJ_NOTNULL(ctx->bo, BUSYOBJ_MAGIC);
	st = WS_Alloc(ctx->bo->ws, sizeof *st);
	if (st == NULL)
		return (VFP_ERROR);
	INIT_OBJ(st, NP_STREAM_MAGIC);
	rec = np_record(ctx);
	st->bo = ctx->bo;
	st->begin_us = np_now_us();
	st->dropped = ctx->bo->uncacheable || !ctx->bo->do_stream;
	if (rec != NULL) {
		st->site = rec->site;
		st->endless = rec->endless;
	}
	if (st->endless) {
		if (st->site != NULL)
			ms = st->site->conf.stream_idle_ms;
		st->idle_us = np_silent_most_us(ms);
		st->counted = true;
		np_silent_begin();
	} else
		/* It was set with the connection. */
		st->idle_us =
		    (uint64_t)(ctx->bo->htc->between_bytes_timeout * 1e6);
	vfe->priv1 = st;
	return (VFP_OK);
}

/* The bytes that came with the head, and no more. */
static enum vfp_status
stream_ahead(struct vfp_ctx *vc, const struct http_conn *htc, char *p,
    ssize_t *lp)
{
	enum vfp_status vp = VFP_OK;
	ssize_t have, l, got = 0, room = *lp;

	while (vp == VFP_OK && htc->pipeline_b != NULL && got < room) {
		have = htc->pipeline_e - htc->pipeline_b;
		if (htc->body_status == BS_CHUNKED)
			have = have > STREAM_CHUNK_HEAD ?
			    have - STREAM_CHUNK_HEAD : 1;
		l = have < room - got ? have : room - got;
		vp = VFP_Suck(vc, p + got, &l);
		got += l;
	}
	*lp = got;
	return (vp);
}

static enum vfp_status v_matchproto_(vfp_pull_f)
stream_pull(struct vfp_ctx *vc, struct vfp_entry *vfe, void *p, ssize_t *lp)
{
	const struct http_conn *htc;
	struct np_stream *st;
	const char *why;

	CHECK_OBJ_NOTNULL(vc, VFP_CTX_MAGIC);
	CAST_OBJ_NOTNULL(st, vfe->priv1, NP_STREAM_MAGIC);
	htc = st->bo->htc;
	CHECK_OBJ_NOTNULL(htc, HTTP_CONN_MAGIC);
	if (htc->pipeline_b != NULL)
		return (stream_ahead(vc, htc, p, lp));
	why = stream_wait(st);
	if (why == NULL)
		return (VFP_Suck(vc, p, lp));
	*lp = 0;
	return (VFP_Error(vc, "naproxy: %s", why));
}

static void v_matchproto_(vfp_fini_f)
stream_fini(struct vfp_ctx *vc, struct vfp_entry *vfe)
{
	struct np_stream *st;

	CHECK_OBJ_NOTNULL(vc, VFP_CTX_MAGIC);
	if (vfe->priv1 == NULL)
		return;
	TAKE_OBJ_NOTNULL(st, &vfe->priv1, NP_STREAM_MAGIC);
	if (st->counted)
		np_silent_end();
	st->magic = 0;
}

static const struct vfp stream_vfp = {
	.name = "naproxy",
	.init = stream_init,
	.pull = stream_pull,
	.fini = stream_fini,
};

/* The head is here. False: there is no room. */
bool
np_stream_begin(struct busyobj *bo)
{

	CHECK_OBJ_NOTNULL(bo, BUSYOBJ_MAGIC);
	CHECK_OBJ_NOTNULL(bo->htc, HTTP_CONN_MAGIC);
	if (bo->htc->body_status == BS_NONE ||
	    bo->htc->body_status == BS_ERROR)
		return (true);
	return (VFP_Push(bo->vfc, &stream_vfp) != NULL);
}
