/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A director for each server of a VCL. It makes a new back end when the
 * page's address changes, and keeps the last few: when Varnish frees one, it
 * waits for each idle connection to be closed, and one to a machine that is
 * gone may take its time. No request has to wait for that, under a lock least
 * of all. A task holds a reference to the back end it was given.
 *
 * A client's connection may have a back end of its own, for logins that hold
 * for a connection, such as NTLM: nobody else's request goes over one.
 *
 * Requests that may change something have another back end: its connections are
 * closed after one request, so none of them is idle. The server may close an idle
 * connection just as a request is sent over it, and nobody would know whether it
 * read that.
 *
 * The back end does the work. Around it a request is watched (watch.c), its
 * response's body is read as the server sends it (stream.c), and interim responses
 * are dropped: Varnish would take one for an error.
 *
 * A server that is asked by HTTPS is behind a socket of haproxy's, which has
 * one connection to the server for each of ours.
 */

#include <netinet/in.h>
#include <sys/un.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include("cache/cache_vinyld.h")
#  include "cache/cache_vinyld.h"
#else
#  include "cache/cache_varnishd.h"
#endif
#include "cache/cache_director.h"
#include "vsa.h"
#include "vtim.h"
#include "vsb.h"

#include "naproxy.h"

#define INTERIM_MOST	100		/* for one request: 102 may come often */
#define DIRECTORS_MAX	32
#define DIRECTOR_KEPT	4
#define DIRECTOR_OWN	64
/* The number of no client's connection. */
#define SESSION_ONCE	UINT64_MAX
/* Longer than backend_idle_timeout: none of its connections is left. */
#define OWN_QUIET_US	UINT64_C(5000000)

struct np_kept {
	VCL_BACKEND		backend;	/* our reference */
	struct naproxy_server	made_for;
};

struct np_own {
	uint64_t		session;	/* the client's connection; atomic */
	uint64_t		used_us;
	VCL_BACKEND		backend;	/* our reference; NULL: not yet */
	unsigned		place_n;	/* of when it was made */
};

struct np_director {
	unsigned		magic;
#define NP_DIRECTOR_MAGIC	0x33c1d7ae
	struct np_server	*server;
	VCL_BACKEND		dir;

	/* Under mtx. */
	pthread_mutex_t		mtx;
	struct np_kept		kept[DIRECTOR_KEPT];	/* the newest first */
	unsigned		made_n;
	unsigned		place_n;	/* how often the place changed */
	struct np_own		once;		/* of requests sent only once */
	struct np_own		own[DIRECTOR_OWN];
	unsigned		own_n;		/* atomic; only grows */
};

struct np_vcl {
	unsigned		magic;
#define NP_VCL_MAGIC		0x4e0b1c7f
	pthread_mutex_t		mtx;		/* to add one */
	unsigned		n;		/* atomic; only grows */
	struct np_director	*director[DIRECTORS_MAX];
};

/*--------------------------------------------------------------------
 * Back ends
 */

/*
 * In `store`, which has vsa_suckaddr_len bytes. Varnish shares idle connections
 * between back ends whose addresses are the same, byte by byte. So a session's
 * number is put where connect() does not look, for connections of its own.
 */
static const struct suckaddr *
director_address(void *store, const struct naproxy_server *conf,
    uint64_t session)
{
	struct sockaddr_in6 sin6;
	struct sockaddr_in sin;

	if (conf->port == 0)
		return (NULL);
	if (conf->family == 4) {
		memset(&sin, 0, sizeof sin);
		sin.sin_family = AF_INET;
		sin.sin_port = htons(conf->port);
		memcpy(&sin.sin_addr, conf->address, sizeof sin.sin_addr);
		memcpy(sin.sin_zero, &session, sizeof session);
		return (VSA_Build(store, &sin, sizeof sin));
	}
	if (conf->family != 6)
		return (NULL);
	memset(&sin6, 0, sizeof sin6);
	sin6.sin6_family = AF_INET6;
	sin6.sin6_port = htons(conf->port);
	memcpy(&sin6.sin6_addr, conf->address, sizeof sin6.sin6_addr);
	sin6.sin6_flowinfo = (uint32_t)session;
	return (VSA_Build(store, &sin6, sizeof sin6));
}

static VCL_BACKEND
director_at(VRT_CTX, struct np_director *d, const struct naproxy_server *conf,
    const struct vrt_endpoint *vep)
{
	struct vrt_backend vrt;
	char name[NAPROXY_ID_LEN + 16];

	bprintf(name, "%s.%u", conf->id, ++d->made_n);
	np_init_backend(&vrt);
	vrt.endpoint = vep;
	vrt.vcl_name = name;
	/* PROXY v1. Varnish uses such a connection for one request. */
	vrt.proxy_header = (conf->flags & NAPROXY_F_PROXY) != 0;
	return (np_new_backend(ctx, &vrt));
}

static VCL_BACKEND
director_make_plain(VRT_CTX, struct np_director *d,
    const struct naproxy_server *conf, uint64_t session)
{
	struct vrt_endpoint vep;
	const struct suckaddr *sa;
	VCL_BACKEND be = NULL;
	void *store;

	store = malloc(vsa_suckaddr_len);
	AN(store);
	sa = director_address(store, conf, session);
	if (sa != NULL) {
		INIT_OBJ(&vep, VRT_ENDPOINT_MAGIC);
		if (conf->family == 4)
			vep.ipv4 = sa;
		else
			vep.ipv6 = sa;
		be = director_at(ctx, d, conf, &vep);
	}
	free(store);
	return (be);
}

/*
 * haproxy waits for a PROXY header. Varnish only shares idle connections with the
 * same preamble, and this one contains the session.
 */
struct np_proxy {
	char			signature[12];
	uint8_t			command;
#define PROXY_LOCAL		0x20		/* version 2; says nothing */
	uint8_t			family;
	uint8_t			length[2];
	uint8_t			type;
#define PROXY_UNIQUE_ID		0x05
	uint8_t			value_length[2];
	uint8_t			session[8];
};
_Static_assert(sizeof(struct np_proxy) == 27, "PROXY");

static VCL_BACKEND
director_make_tls(VRT_CTX, struct np_director *d,
    const struct naproxy_server *conf, uint64_t session)
{
	struct vrt_endpoint vep;
	struct vrt_blob first;
	struct np_proxy proxy = {
		.signature = { '\r', '\n', '\r', '\n', '\0', '\r', '\n',
		    'Q', 'U', 'I', 'T', '\n' },
		.command = PROXY_LOCAL,
		.length[1] = sizeof proxy - offsetof(struct np_proxy, type),
		.type = PROXY_UNIQUE_ID,
		.value_length[1] = sizeof proxy.session,
	};
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];

	if (strchr(conf->id, '/') != NULL || snprintf(path, sizeof path,
	    "%s/edge/to-%s.sock", np_page_dir(), conf->id) >= (int)sizeof path)
		return (NULL);
	INIT_OBJ(&vep, VRT_ENDPOINT_MAGIC);
	vep.uds_path = path;
	if (!(conf->flags & NAPROXY_F_PROXY)) {
		memcpy(proxy.session, &session, sizeof proxy.session);
		np_init_blob(&first);
		first.len = sizeof proxy;
		first.blob = &proxy;
		vep.preamble = &first;
	}
	return (director_at(ctx, d, conf, &vep));
}

static VCL_BACKEND
director_make(VRT_CTX, struct np_director *d, const struct naproxy_server *conf,
    uint64_t session)
{

	if (conf->flags & NAPROXY_F_TLS)
		return (director_make_tls(ctx, d, conf, session));
	return (director_make_plain(ctx, d, conf, session));
}

static bool
director_same_place(const struct naproxy_server *a,
    const struct naproxy_server *b)
{

	return (a->family == b->family && a->port == b->port &&
	    !((a->flags ^ b->flags) & (NAPROXY_F_TLS | NAPROXY_F_PROXY)) &&
	    !memcmp(a->address, b->address, sizeof a->address));
}

/*
 * Move the back end for this place to the front. The caller releases the evicted one,
 * without the lock.
 */
static VCL_BACKEND
director_choose(VRT_CTX, struct np_director *d,
    const struct naproxy_server *conf)
{
	struct np_kept chosen;
	VCL_BACKEND out;
	unsigned u;

	for (u = 0; u < DIRECTOR_KEPT && d->kept[u].backend != NULL; u++)
		if (director_same_place(conf, &d->kept[u].made_for))
			break;
	if (u < DIRECTOR_KEPT && d->kept[u].backend != NULL) {
		chosen = d->kept[u];
		memmove(d->kept + 1, d->kept, u * sizeof *d->kept);
		d->kept[0] = chosen;
		return (NULL);
	}
	chosen.backend = director_make(ctx, d, conf, 0);
	if (chosen.backend == NULL)
		return (NULL);
	chosen.made_for = *conf;
	out = d->kept[DIRECTOR_KEPT - 1].backend;
	memmove(d->kept + 1, d->kept, (DIRECTOR_KEPT - 1) * sizeof *d->kept);
	d->kept[0] = chosen;
	return (out);
}

static struct np_own *
own_find(struct np_director *d, uint64_t session)
{
	struct np_own *own, *end;

	end = d->own + NP_LOAD(d->own_n);
	for (own = d->own; own < end; own++)
		if (NP_LOAD(own->session) == session)
			return (own);
	return (NULL);
}

/*
 * Under mtx, as the next: one to be had, a new one or the one that was quiet
 * longest; NULL: none.
 */
static struct np_own *
own_free(struct np_director *d, uint64_t now_us)
{
	struct np_own *own, *oldest = d->own;

	if (d->own_n < DIRECTOR_OWN) {
		own = &d->own[d->own_n];
		NP_STORE(d->own_n, d->own_n + 1);
		return (own);
	}
	for (own = d->own; own < d->own + DIRECTOR_OWN; own++)
		if (own->used_us < oldest->used_us)
			oldest = own;
	return (oldest->used_us + OWN_QUIET_US < now_us ? oldest : NULL);
}

/* Its back end at its present place. The caller releases the previous one. */
static VCL_BACKEND
own_backend(VRT_CTX, struct np_director *d, struct np_own *own,
    VCL_BACKEND *out)
{

	own->used_us = np_now_us();
	if (own->backend == NULL || own->place_n != d->place_n) {
		*out = own->backend;
		own->backend = director_make(ctx, d, &d->kept[0].made_for,
		    own->session);
		own->place_n = d->place_n;
	}
	return (own->backend);
}

/* A reference to the back end of now, for the caller to release. */
static VCL_BACKEND
director_backend(VRT_CTX, struct np_director *d,
    const struct naproxy_server *conf, uint64_t session, bool once)
{
	VCL_BACKEND given = NULL, out = NULL, own_out = NULL;
	struct np_own *own;

	AZ(pthread_mutex_lock(&d->mtx));
	if (conf != NULL && (d->kept[0].backend == NULL ||
	    !director_same_place(conf, &d->kept[0].made_for))) {
		out = director_choose(ctx, d, conf);
		d->place_n++;
	}
	own = own_find(d, session);
	if (own == NULL && once)
		own = &d->once;
	if (d->kept[0].backend != NULL)
		VRT_Assign_Backend(&given, own == NULL ? d->kept[0].backend :
		    own_backend(ctx, d, own, &own_out));
	AZ(pthread_mutex_unlock(&d->mtx));
	VRT_Assign_Backend(&out, NULL);
	VRT_Assign_Backend(&own_out, NULL);
	return (given);
}

/* The number of the client's connection. */
static uint64_t
director_session(VRT_CTX)
{
	const struct sess *sp;

	sp = ctx->bo != NULL && ctx->bo->sp != NULL ? ctx->bo->sp :
	    ctx->req->sp;
	CHECK_OBJ_NOTNULL(sp, SESS_MAGIC);
	return (VXID(sp->vxid));
}

/*
 * The back end that this task goes to, at the place of now. The record keeps the
 * reference while the task lasts.
 */
static VCL_BACKEND
director_resolve(VRT_CTX, VCL_BACKEND dir)
{
	const struct np_site *site = NULL;
	struct np_director *d;
	struct np_record *rec;
	struct np_ref ref;
	VCL_BACKEND be;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	CHECK_OBJ_NOTNULL(dir, DIRECTOR_MAGIC);
	CAST_OBJ_NOTNULL(d, dir->priv, NP_DIRECTOR_MAGIC);
	rec = np_record(ctx);
	if (rec == NULL)
		return (NULL);
	np_page_snap(&ref);
	if (ref.snap != NULL)
		site = np_snap_site(ref.snap, d->server->id);
	be = director_backend(ctx, d, site == NULL ? NULL : &site->conf,
	    director_session(ctx), rec->once);
	np_snap_release(&ref);
	VRT_Assign_Backend(&rec->backend, NULL);
	rec->backend = be;
	return (be);
}

/* The one that director_resolve() found. */
static VCL_BACKEND
director_resolved(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	CHECK_OBJ_NOTNULL(rec, NP_RECORD_MAGIC);
	CHECK_OBJ_NOTNULL(rec->backend, DIRECTOR_MAGIC);
	return (rec->backend);
}

static void v_matchproto_(vdi_finish_f)
director_finish(VRT_CTX, VCL_BACKEND dir)
{
	VCL_BACKEND be = director_resolved(ctx);

	(void)dir;
	be->vdir->methods->finish(ctx, be);
	np_watch_done();
}

/* Which bytes are still to come, by RFC 9112, 6.3, in Varnish's terms. */
static void
interim_body(struct busyobj *bo)
{
	unsigned status = bo->beresp->status;

	if (!strcmp(bo->bereq->hd[HTTP_HDR_METHOD].b, "HEAD") || status == 204 ||
	    status == 304)
		bo->htc->body_status = BS_NONE;
	else if (status < 200)
		bo->htc->body_status = BS_ERROR;
}

/*
 * Discard an interim response and read the next head in its place. Bytes of the next
 * head that were already read move to the front, so it has the same space.
 */
static int
interim_next(struct busyobj *bo, double until)
{
	struct http_conn *htc = bo->htc;
	size_t ahead = 0;

	htc->doclose = SC_RX_BAD;
	if (V1F_Setup_Fetch == NULL)
		return (-1);
	WS_Reset(bo->ws, (uintptr_t)htc->rxbuf_b);
	(void)WS_ReserveAll(bo->ws);
	if (htc->pipeline_b != NULL) {
		ahead = (size_t)(htc->pipeline_e - htc->pipeline_b);
		(void)memmove(htc->rxbuf_b, htc->pipeline_b, ahead);
		htc->pipeline_b = htc->pipeline_e = NULL;
	}
	htc->rxbuf_e = htc->rxbuf_b + ahead;
	/* It releases the workspace. */
	if (HTC_RxStuff(htc, HTTP1_Complete, NULL, NULL, until, NAN,
	    htc->between_bytes_timeout,
	    (int)cache_param->http_resp_size) != HTC_S_COMPLETE)
		return (-1);
	HTTP_Setup(bo->beresp, bo->ws, bo->vsl, SLT_BerespMethod);
	if (HTTP1_DissectResponse(htc, bo->beresp, bo->bereq) != 0)
		return (-1);
	bo->acct.beresp_hdrbytes += (uint64_t)(htc->rxbuf_e - htc->rxbuf_b);
	htc->doclose = http_DoConnection(bo->beresp, SC_RESP_CLOSE);
	interim_body(bo);
	if (htc->body_status == BS_NONE || htc->body_status == BS_ERROR)
		return (0);
	return (V1F_Setup_Fetch(bo->vfc, htc) ? -1 : 0);
}

static bool
interim(const struct busyobj *bo)
{
	unsigned status = bo->beresp->status;

	return (status >= 100 && status < 200 && status != 101);
}

static int v_matchproto_(vdi_gethdrs_f)
director_gethdrs(VRT_CTX, VCL_BACKEND dir)
{
	struct busyobj *bo = ctx->bo;
	VCL_BACKEND be;
	double until;
	unsigned u;
	int i;

	CHECK_OBJ_NOTNULL(bo, BUSYOBJ_MAGIC);
	be = director_resolve(ctx, dir);
	if (be == NULL) {
		VSLb(bo->vsl, SLT_FetchError, "naproxy: no address of %s",
		    dir->vcl_name);
		return (-1);
	}
	np_watch_begin();
	i = be->vdir->methods->gethdrs(ctx, be);
	if (i != 0) {
		np_watch_done();
		return (i);
	}
	until = VTIM_real() + bo->htc->first_byte_timeout;
	for (u = 0; i == 0 && interim(bo); u++)
		i = u < INTERIM_MOST ? interim_next(bo, until) : -1;
	if (u > 0 && i == 0)
		http_VSL_log(bo->beresp);
	if (i == 0 && np_stream_begin(bo))
		return (0);
	if (bo->htc->doclose == SC_NULL)
		bo->htc->doclose = SC_RX_BAD;
	director_finish(ctx, dir);
	return (-1);
}

static VCL_IP v_matchproto_(vdi_getip_f)
director_getip(VRT_CTX, VCL_BACKEND dir)
{
	VCL_BACKEND be = director_resolved(ctx);

	(void)dir;
	return (be->vdir->methods->getip(ctx, be));
}

static stream_close_t v_matchproto_(vdi_http1pipe_f)
director_pipe(VRT_CTX, VCL_BACKEND dir)
{
	const struct np_record *rec;
	struct np_pipe pipe;
	stream_close_t why;
	VCL_BACKEND be;

	be = director_resolve(ctx, dir);
	if (be == NULL)
		return (SC_TX_ERROR);
	rec = np_record(ctx);
	np_pipe_begin(&pipe, ctx->req->sp->fd, rec->site);
	why = be->vdir->methods->http1pipe(ctx, be);
	np_pipe_end(&pipe);
	return (why);
}

static VCL_BOOL v_matchproto_(vdi_healthy_f)
director_healthy(VRT_CTX, VCL_BACKEND dir, VCL_TIME *changed)
{

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	CHECK_OBJ_NOTNULL(dir, DIRECTOR_MAGIC);
	if (changed != NULL)
		*changed = 0;
	return (1);
}

static void v_matchproto_(vdi_list_f)
director_list(VRT_CTX, VCL_BACKEND dir, struct vsb *vsb, int pflag, int jflag)
{
	static const char * const state[] = {
		"unknown", "awake", "falling_asleep", "asleep", "waking",
		"trouble"
	};
	struct np_director *d;
	const char *s;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	CHECK_OBJ_NOTNULL(dir, DIRECTOR_MAGIC);
	CAST_OBJ_NOTNULL(d, dir->priv, NP_DIRECTOR_MAGIC);
	s = state[np_server_state(d->server)];
	if (jflag && pflag)
		VSB_printf(vsb, "{\"state\": \"%s\"},\n", s);
	else if (jflag)
		VSB_printf(vsb, "[0, 0, \"%s\"]", s);
	else if (!pflag)
		VSB_printf(vsb, "0/0\t%s", s);
}

static const struct vdi_methods director_methods[1] = {{
	.magic = VDI_METHODS_MAGIC,
	.type = "naproxy",
	.gethdrs = director_gethdrs,
	.finish = director_finish,
	.getip = director_getip,
	.http1pipe = director_pipe,
	.healthy = director_healthy,
	.list = director_list,
}};

static struct np_director *
director_of(VCL_BACKEND dir)
{
	struct np_director *d;

	CHECK_OBJ_NOTNULL(dir, DIRECTOR_MAGIC);
	CAST_OBJ_NOTNULL(d, dir->priv, NP_DIRECTOR_MAGIC);
	return (d);
}

void
np_director_own(VRT_CTX, VCL_BACKEND dir)
{
	struct np_director *d = director_of(dir);
	uint64_t now_us = np_now_us(), session = director_session(ctx);
	VCL_BACKEND out = NULL;
	struct np_own *own;

	AZ(pthread_mutex_lock(&d->mtx));
	own = own_find(d, session);
	if (own == NULL) {
		own = own_free(d, now_us);
		if (own != NULL) {
			out = own->backend;
			own->backend = NULL;
			NP_STORE(own->session, session);
		}
	}
	if (own != NULL)
		own->used_us = now_us;
	AZ(pthread_mutex_unlock(&d->mtx));
	VRT_Assign_Backend(&out, NULL);
}

bool
np_director_owns(VRT_CTX, VCL_BACKEND dir)
{
	struct np_director *d = director_of(dir);
	uint64_t session = director_session(ctx);
	struct np_own *own;

	/* Without the lock: each hit asks, and hardly one is such a client's. */
	if (own_find(d, session) == NULL)
		return (false);
	AZ(pthread_mutex_lock(&d->mtx));
	own = own_find(d, session);
	if (own != NULL)
		/* So that it still has it when it gets to the fetch. */
		own->used_us = np_now_us();
	AZ(pthread_mutex_unlock(&d->mtx));
	return (own != NULL);
}

const struct np_server *
np_director_server(VCL_BACKEND dir)
{
	struct np_director *d;

	if (dir == NULL)
		return (NULL);
	CHECK_OBJ(dir, DIRECTOR_MAGIC);
	d = dir->priv;
	/* Another director's private data begins with another magic. */
	return (VALID_OBJ(d, NP_DIRECTOR_MAGIC) ? d->server : NULL);
}

/*--------------------------------------------------------------------
 * The directors of a VCL
 */

static struct np_director *
director_new(VRT_CTX, struct np_server *srv)
{
	struct np_director *d;

	ALLOC_OBJ(d, NP_DIRECTOR_MAGIC);
	AN(d);
	d->server = srv;
	d->once.session = SESSION_ONCE;
	AZ(pthread_mutex_init(&d->mtx, NULL));
	d->dir = VRT_AddDirector(ctx, director_methods, d, "%s", srv->id);
	if (d->dir == NULL) {
		AZ(pthread_mutex_destroy(&d->mtx));
		FREE_OBJ(d);
		return (NULL);
	}
	/* It lives as long as the VCL: no request needs to lock and count it. */
	VRT_StaticDirector(d->dir);
	return (d);
}

static struct np_director *
director_find(struct np_vcl *vcl, const struct np_server *srv)
{
	unsigned u, n;

	n = NP_LOAD(vcl->n);
	for (u = 0; u < n; u++)
		if (vcl->director[u]->server == srv)
			return (vcl->director[u]);
	return (NULL);
}

VCL_BACKEND
np_director(VRT_CTX, struct np_vcl *vcl, struct np_server *srv)
{
	struct np_director *d;

	CHECK_OBJ_NOTNULL(vcl, NP_VCL_MAGIC);
	d = director_find(vcl, srv);
	if (d != NULL)
		return (d->dir);
	AZ(pthread_mutex_lock(&vcl->mtx));
	d = director_find(vcl, srv);
	if (d == NULL && vcl->n < DIRECTORS_MAX) {
		d = director_new(ctx, srv);
		if (d != NULL) {
			vcl->director[vcl->n] = d;
			NP_STORE(vcl->n, vcl->n + 1);
		}
	}
	AZ(pthread_mutex_unlock(&vcl->mtx));
	return (d == NULL ? NULL : d->dir);
}

struct np_vcl *
np_vcl_new(VRT_CTX)
{
	struct np_vcl *vcl;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	ALLOC_OBJ(vcl, NP_VCL_MAGIC);
	AN(vcl);
	AZ(pthread_mutex_init(&vcl->mtx, NULL));
	return (vcl);
}

void
np_vcl_free(struct np_vcl **vclp)
{
	struct np_director *d;
	struct np_vcl *vcl;
	unsigned u;

	TAKE_OBJ_NOTNULL(vcl, vclp, NP_VCL_MAGIC);
	while (vcl->n > 0) {
		d = vcl->director[--vcl->n];
		CHECK_OBJ_NOTNULL(d, NP_DIRECTOR_MAGIC);
		for (u = 0; u < DIRECTOR_KEPT; u++)
			VRT_Assign_Backend(&d->kept[u].backend, NULL);
		for (u = 0; u < d->own_n; u++)
			VRT_Assign_Backend(&d->own[u].backend, NULL);
		VRT_Assign_Backend(&d->once.backend, NULL);
		VRT_DelDirector(&d->dir);
		AZ(pthread_mutex_destroy(&d->mtx));
		FREE_OBJ(d);
	}
	AZ(pthread_mutex_destroy(&vcl->mtx));
	FREE_OBJ(vcl);
}
