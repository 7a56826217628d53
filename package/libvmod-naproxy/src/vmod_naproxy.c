/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What VCL sees. vmod_naproxy.vcc says what each function promises.
 */

#include <sys/socket.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "vcl.h"
#include "vrt_obj.h"
#include "vsa.h"
#include "vsb.h"

#include "crawlers.h"
#include "language.h"
#include "naproxy.h"

#include "vcc_naproxy_if.h"

#define TROUBLE_CONNECT_MS	3000
#define FIRST_BYTE_MS		600000
#define UNTRUSTED_FIRST_BYTE_MS	20000
#define DEFAULT_CONNECT_MS	10000

/* Bytes of an answer of ours, and of another's head: more than most have. */
#define SYNTH_MOST		12288
#define HEAD_MOST		1024
#define FOLLOWED_S		8	/* then a page that says so loads again */
#define PACED_S			10	/* then a crawler may ask again */

#define H_X_Naproxy_Cookie	HDR("X-Naproxy-Cookie")
#define H_X_Naproxy_Debug	HDR("X-Naproxy-Debug")
#define H_X_Naproxy_Plain	HDR("X-Naproxy-Plain")

static const char * const state_name[] = {
	[NAPROXY_UNKNOWN] = "unknown",
	[NAPROXY_AWAKE] = "awake",
	[NAPROXY_FALLING_ASLEEP] = "falling_asleep",
	[NAPROXY_ASLEEP] = "asleep",
	[NAPROXY_WAKING] = "waking",
	[NAPROXY_TROUBLE] = "trouble",
};

/* VCLs that use us, and how many of them are warm; only the CLI's thread counts. */
static unsigned users;
static unsigned warm;

/*--------------------------------------------------------------------*/

int v_matchproto_(vmod_event_f)
VPFX(vmod_event)(VRT_CTX, struct vmod_priv *priv, enum vcl_event_e ev)
{
	const char *problem;
	struct np_vcl *vcl;

	switch (ev) {
	case VCL_EVENT_LOAD:
		problem = np_as_sent_begin(ctx);
		if (problem != NULL) {
			VSB_cat(ctx->msg, problem);
			return (1);
		}
		if (users == 0)
			np_headers_begin();
		priv->priv = np_vcl_new(ctx);
		users++;
		break;
	case VCL_EVENT_WARM:
		if (warm++ == 0) {
			np_statistics_begin();
			np_watch_start();
		}
		break;
	case VCL_EVENT_COLD:
		assert(warm > 0);
		if (--warm == 0) {
			np_watch_stop();
			np_statistics_end();
		}
		break;
	case VCL_EVENT_DISCARD:
		vcl = priv->priv;
		if (vcl == NULL)
			break;
		priv->priv = NULL;
		np_as_sent_end(ctx);
		np_vcl_free(&vcl);
		assert(users > 0);
		if (--users > 0)
			break;
		/* Nothing of ours runs any more, and we may be unloaded. */
		np_wake_close();
		np_statistics_forget();
		np_snap_end();
		np_clients_attach(NULL);
		np_page_close();
		np_servers_free();
		break;
	default:
		break;
	}
	return (0);
}

VCL_VOID v_matchproto_(td_naproxy_open)
vmod_open(VRT_CTX, VCL_STRING run_dir, VCL_INT most)
{
	const char *problem;
	int e;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	if (ctx->method != VCL_MET_INIT) {
		VRT_fail(ctx, "naproxy.open() belongs in vcl_init");
		return;
	}
	if (run_dir == NULL || *run_dir != '/') {
		VRT_fail(ctx, "naproxy.open(): not an absolute path: %s",
		    run_dir == NULL ? "(null)" : run_dir);
		return;
	}
	problem = np_clients_most(most);
	if (problem != NULL) {
		VRT_fail(ctx, "naproxy.open(): %jd: %s", (intmax_t)most,
		    problem);
		return;
	}
	if (!strcmp(np_page_dir(), run_dir))
		return;
	if (np_page_dir()[0] != '\0') {
		VRT_fail(ctx, "naproxy.open(%s): %s is open already; a new "
		    "directory needs a restart", run_dir, np_page_dir());
		return;
	}
	e = np_wake_open(run_dir);
	if (e != 0) {
		VRT_fail(ctx, "naproxy.open(%s): %s", run_dir, VAS_errtxt(e));
		return;
	}
	np_page_open(run_dir);
	np_snap_begin();
}

/*--------------------------------------------------------------------
 * The server and the client
 */

static struct np_record *
request_record(VRT_CTX, const char *function)
{
	struct np_record *rec;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	if (ctx->req == NULL ||
	    (ctx->bo != NULL && ctx->method != VCL_MET_PIPE)) {
		VRT_fail(ctx, "naproxy.%s() belongs in client methods",
		    function);
		return (NULL);
	}
	rec = np_record_new(ctx);
	if (rec == NULL)
		VRT_fail(ctx, "naproxy.%s(): out of workspace", function);
	return (rec);
}

/* The headers are read. */
static void
request_select(VRT_CTX, struct np_record *rec, const char *host)
{

	rec->site = NULL;
	np_snap_release(&rec->ref);
	np_page_snap(&rec->ref);
	if (rec->ref.snap != NULL)
		rec->site = np_snap_find(rec->ref.snap, host);
	np_classify(ctx, rec);
	np_visit(ctx, rec, host);
}

/* Not by its headers: HTTP/2 needs none for a body. */
static bool
request_body(const struct req *req)
{

	CHECK_OBJ_NOTNULL(req, REQ_MAGIC);
	return (req->req_body_status != BS_NONE);
}

VCL_BOOL v_matchproto_(td_naproxy_body)
vmod_body(VRT_CTX)
{

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	return (ctx->req != NULL && request_body(ctx->req));
}

/* The director of a request's server, or of a fetch's; NULL: none. */
static VCL_BACKEND
task_director(VRT_CTX, const struct np_record *rec, struct np_vcl *vcl)
{

	if (rec == NULL || rec->site == NULL)
		return (NULL);
	return (np_director(ctx, vcl, rec->site->server));
}

VCL_VOID v_matchproto_(td_naproxy_own)
vmod_own(VRT_CTX, struct vmod_priv *priv)
{
	VCL_BACKEND dir;

	dir = task_director(ctx, np_record(ctx), priv->priv);
	if (dir != NULL)
		np_director_own(ctx, dir);
}

static bool
task_owns(VRT_CTX, const struct np_record *rec, struct np_vcl *vcl)
{
	VCL_BACKEND dir;

	dir = task_director(ctx, rec, vcl);
	return (dir != NULL && np_director_owns(ctx, dir));
}

VCL_BOOL v_matchproto_(td_naproxy_owns)
vmod_owns(VRT_CTX, struct vmod_priv *priv)
{

	return (task_owns(ctx, np_record(ctx), priv->priv));
}

/* Has it a header of which the office says that it says who is asking? */
static bool
request_private(VRT_CTX, const struct np_record *rec)
{
	unsigned u;

	if (rec->site == NULL || rec->site->conf.cookie[0] == 0)
		return (false);
	for (u = HTTP_HDR_FIRST; u < ctx->http_req->nhd; u++)
		if (np_header_private(&rec->site->conf, ctx->http_req->hd[u]))
			return (true);
	return (false);
}

VCL_BOOL v_matchproto_(td_naproxy_usual)
vmod_usual(VRT_CTX, struct vmod_priv *priv, VCL_BOOL edge)
{
	struct np_record *rec;

	rec = request_record(ctx, "usual");
	if (rec == NULL)
		return (false);
	np_headers_read(&rec->headers, ctx->http_req);
	if (!request_body(ctx->req) &&
	    np_headers_usual(&rec->headers, ctx->http_req)) {
		request_select(ctx, rec, rec->headers.host);
		if (rec->site != NULL && !request_private(ctx, rec) &&
		    !(rec->site->conf.flags &
		    (edge ? NAPROXY_F_THROUGH : NAPROXY_F_HTTPS_ONLY)) &&
		    np_server_available(rec->site->server) &&
		    !task_owns(ctx, rec, priv->priv)) {
			rec->start_us = np_coarse_us();
			rec->usual = true;
			np_accept_images(ctx->http_req);
			return (true);
		}
	}
	rec->start_us = np_now_us();
	return (false);
}

VCL_VOID v_matchproto_(td_naproxy_select)
vmod_select(VRT_CTX, VCL_STRING host)
{
	struct np_record *rec;

	rec = request_record(ctx, "select");
	if (rec == NULL)
		return;
	if (rec->start_us == 0)
		rec->start_us = np_now_us();
	np_headers_read(&rec->headers, ctx->http_req);
	request_select(ctx, rec, host);
	if (rec->site != NULL && !np_server_available(rec->site->server))
		rec->slept = true;
}

VCL_BOOL v_matchproto_(td_naproxy_large)
vmod_large(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	return (rec != NULL && rec->headers.large);
}

VCL_BOOL v_matchproto_(td_naproxy_credential)
vmod_credential(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	return (rec != NULL &&
	    (rec->headers.credential || request_private(ctx, rec)));
}

/*
 * Is nothing but a claim of a proxy's the reason that what is fetched is not kept? The
 * visitor may have made that up.
 */
static bool
task_claims(const struct http *bereq)
{
	struct np_headers headers;

	np_headers_read(&headers, bereq);
	return (headers.credential && !headers.own_credential &&
	    (!strcmp(bereq->hd[HTTP_HDR_METHOD].b, "GET") ||
	    !strcmp(bereq->hd[HTTP_HDR_METHOD].b, "HEAD")) &&
	    np_header(bereq, H_Cookie) == NULL &&
	    np_header(bereq, H_Authorization) == NULL);
}

VCL_VOID v_matchproto_(td_naproxy_plain_names)
vmod_plain_names(VRT_CTX)
{
	bool shared;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	if (ctx->http_bereq == NULL)
		return;
	shared = ctx->bo != NULL && ctx->method == VCL_MET_BACKEND_FETCH &&
	    !VRT_r_bereq_uncacheable(ctx);
	np_headers_plain(ctx->http_bereq, !shared && !task_claims(ctx->http_bereq));
	if (shared)
		np_headers_single(ctx->http_bereq);
}

VCL_STRING v_matchproto_(td_naproxy_variant)
vmod_variant(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	return (rec == NULL ? NULL : np_variant(ctx, rec));
}

VCL_VOID v_matchproto_(td_naproxy_accept)
vmod_accept(VRT_CTX)
{

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	if (ctx->http_req != NULL)
		np_accept_images(ctx->http_req);
}

static const struct np_site *
task_site(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	return (rec == NULL ? NULL : rec->site);
}

static bool
task_flag(VRT_CTX, uint32_t flag)
{
	const struct np_site *site;

	site = task_site(ctx);
	return (site != NULL && (site->conf.flags & flag) != 0);
}

VCL_BACKEND v_matchproto_(td_naproxy_backend)
vmod_backend(VRT_CTX, struct vmod_priv *priv)
{

	return (task_director(ctx, np_record(ctx), priv->priv));
}

VCL_STRING v_matchproto_(td_naproxy_server)
vmod_server(VRT_CTX)
{
	const struct np_site *site;

	site = task_site(ctx);
	return (site == NULL ? "" : site->server->id);
}

VCL_STRING v_matchproto_(td_naproxy_state)
vmod_state(VRT_CTX)
{
	const struct np_site *site;

	site = task_site(ctx);
	if (site == NULL || !np_page_trusted())
		return ("unknown");
	return (state_name[np_server_state(site->server)]);
}

VCL_BOOL v_matchproto_(td_naproxy_awake)
vmod_awake(VRT_CTX)
{
	const struct np_site *site;

	site = task_site(ctx);
	return (site == NULL || np_server_available(site->server));
}

VCL_BOOL v_matchproto_(td_naproxy_trusted)
vmod_trusted(VRT_CTX)
{

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	return (np_page_trusted());
}

VCL_INT v_matchproto_(td_naproxy_servers)
vmod_servers(VRT_CTX)
{

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	return (np_page_servers());
}

VCL_STRING v_matchproto_(td_naproxy_class)
vmod_class(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	return (rec == NULL ? "" : np_class_name[rec->klass]);
}

VCL_STRING v_matchproto_(td_naproxy_agent)
vmod_agent(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL || rec->agent == CRAWLERS_NONE)
		return ("");
	return (crawlers_agent[rec->agent].name);
}

VCL_BOOL v_matchproto_(td_naproxy_page_load)
vmod_page_load(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	return (rec != NULL && (rec->flags & NAPROXY_E_PAGE_LOAD) != 0);
}

/*--------------------------------------------------------------------
 * Configuration
 */

VCL_BOOL v_matchproto_(td_naproxy_may_wake)
vmod_may_wake(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	return (rec != NULL && rec->site != NULL && np_may_wake(ctx, rec));
}

VCL_BOOL v_matchproto_(td_naproxy_defer_crawlers)
vmod_defer_crawlers(VRT_CTX)
{

	return (task_flag(ctx, NAPROXY_F_DEFER));
}

/* Do files belong to nobody, and some cookies say nothing? */
static bool
site_shares(const struct np_site *site)
{

	return (site != NULL && (site->conf.flags &
	    (NAPROXY_F_FROZEN | NAPROXY_F_AGGRESSIVE)) != 0);
}

VCL_BOOL v_matchproto_(td_naproxy_harmless)
vmod_harmless(VRT_CTX)
{
	const struct np_site *site;
	const char *cookie;

	site = task_site(ctx);
	if (!site_shares(site) || ctx->http_req == NULL)
		return (false);
	cookie = np_header(ctx->http_req, H_Cookie);
	return (cookie == NULL || np_cookies_harmless(&site->conf, cookie));
}

/* NULL: the request has none. */
static txt *
task_cookie(VRT_CTX, const char *name)
{
	struct http *hp = ctx->http_req;
	unsigned u;

	for (u = HTTP_HDR_FIRST; hp != NULL && u < hp->nhd; u++)
		if (!strncasecmp(hp->hd[u].b, name, strlen(name)))
			return (&hp->hd[u]);
	return (NULL);
}

#define HIDDEN		"X-Naproxy-"
#define ANSWER_LEAST	12288	/* of workspace, for later steps */

/*
 * Cookies may be half of a request's head: they are copied once, and VCL, which copies
 * with each step, does not touch them.
 */
VCL_VOID v_matchproto_(td_naproxy_own_cookies)
vmod_own_cookies(VRT_CTX)
{
	static const char name[] = "Cookie: ";
	const char *header;
	char *copy;
	txt *hd;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	hd = task_cookie(ctx, "Cookie:");
	header = np_header(ctx->http_req, H_Cookie);
	if (hd == NULL || header == NULL || strstr(header, "naproxy") == NULL)
		return;
	copy = WS_Alloc(ctx->ws, (unsigned)(strlen(header) + sizeof name));
	if (copy == NULL) {
		VRT_fail(ctx, "naproxy.own_cookies(): out of workspace");
		return;
	}
	(void)strcpy(copy, name);
	np_cookies_not_ours(copy + sizeof name - 1, header);
	hd->b = copy;
	hd->e = copy + strlen(copy);
	if (copy[sizeof name - 1] == '\0')
		http_Unset(ctx->http_req, H_Cookie);
}

VCL_BOOL v_matchproto_(td_naproxy_hide_cookie)
vmod_hide_cookie(VRT_CTX)
{
	unsigned left, size;
	char *copy;
	size_t len;
	txt *hd;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	hd = task_cookie(ctx, "Cookie:");
	if (hd == NULL)
		return (false);
	len = (size_t)(hd->e - hd->b);
	size = (unsigned)(sizeof HIDDEN + len);
	/* Allocating in vain would fail the request. */
	left = WS_ReserveAll(ctx->ws);
	WS_Release(ctx->ws, 0);
	if (left < size + ANSWER_LEAST)
		return (false);
	copy = WS_Alloc(ctx->ws, size);
	if (copy == NULL)
		return (false);
	(void)strcpy(copy, HIDDEN);
	(void)memcpy(copy + sizeof HIDDEN - 1, hd->b, len);
	hd->b = copy;
	hd->e = copy + sizeof HIDDEN - 1 + len;
	copy[sizeof HIDDEN - 1 + len] = '\0';
	return (true);
}

VCL_VOID v_matchproto_(td_naproxy_show_cookie)
vmod_show_cookie(VRT_CTX)
{
	txt *hd;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	hd = task_cookie(ctx, HIDDEN "Cookie:");
	if (hd != NULL)
		hd->b += sizeof HIDDEN - 1;
}

VCL_BOOL v_matchproto_(td_naproxy_https_only)
vmod_https_only(VRT_CTX)
{

	return (task_flag(ctx, NAPROXY_F_HTTPS_ONLY));
}

VCL_BOOL v_matchproto_(td_naproxy_through)
vmod_through(VRT_CTX)
{

	return (task_flag(ctx, NAPROXY_F_THROUGH));
}

VCL_INT v_matchproto_(td_naproxy_hsts)
vmod_hsts(VRT_CTX)
{
	const struct np_site *site;

	site = task_site(ctx);
	return (site == NULL ? 0 : site->conf.hsts_s);
}

VCL_STRING v_matchproto_(td_naproxy_challenge)
vmod_challenge(VRT_CTX, VCL_STRING url)
{
	static const char path[] = "/.well-known/acme-challenge/";
	const struct np_record *rec;
	const char *answer;

	rec = np_record(ctx);
	if (rec == NULL || rec->ref.snap == NULL || url == NULL ||
	    strncmp(url, path, sizeof path - 1) != 0)
		return ("");
	answer = np_names_answer(&rec->ref.snap->names, url + sizeof path - 1);
	return (answer == NULL ? "" : answer);
}

VCL_DURATION v_matchproto_(td_naproxy_grace)
vmod_grace(VRT_CTX)
{
	const struct np_site *site;

	site = task_site(ctx);
	if (site == NULL || (site->conf.flags & NAPROXY_F_AGGRESSIVE) == 0)
		return (0);
	return (site->conf.grace_s);
}

static VCL_DURATION
timeout_s(uint32_t conf_ms, uint32_t most_ms)
{

	return ((conf_ms != 0 && conf_ms < most_ms ? conf_ms : most_ms) / 1e3);
}

VCL_DURATION v_matchproto_(td_naproxy_keep)
vmod_keep(VRT_CTX)
{
	const struct np_record *rec;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	rec = np_record(ctx);
	if (rec == NULL || ctx->http_bereq == NULL)
		return (-1);
	return (np_rule_s(rec, NAPROXY_RULE_KEEP,
	    ctx->http_bereq->hd[HTTP_HDR_URL].b));
}

/* The URL that is asked for, by the client or of the server; NULL: none. */
static const char *
task_url(VRT_CTX)
{
	const struct http *hp;

	hp = ctx->http_req != NULL ? ctx->http_req : ctx->http_bereq;
	return (hp == NULL ? NULL : hp->hd[HTTP_HDR_URL].b);
}

VCL_BOOL v_matchproto_(td_naproxy_shared)
vmod_shared(VRT_CTX)
{

	return (site_shares(task_site(ctx)) && np_file(task_url(ctx)));
}

VCL_DURATION v_matchproto_(td_naproxy_browser)
vmod_browser(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL || rec->ref.snap == NULL || !rec->ref.snap->browsers)
		return (-1);
	return (np_rule_s(rec, NAPROXY_RULE_BROWSER, task_url(ctx)));
}

VCL_BOOL v_matchproto_(td_naproxy_freezes)
vmod_freezes(VRT_CTX, VCL_INT status)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	return (rec != NULL && np_file_frozen(ctx, rec, task_url(ctx), status));
}

VCL_DURATION v_matchproto_(td_naproxy_frozen)
vmod_frozen(VRT_CTX, VCL_INT status)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL || !np_file_frozen(ctx, rec, task_url(ctx), status))
		return (0);
	return (np_server_frozen_s(rec->site->server));
}

VCL_BOOL v_matchproto_(td_naproxy_thawed)
vmod_thawed(VRT_CTX, VCL_DURATION age)
{
	const struct np_site *site;

	site = task_site(ctx);
	return (site != NULL && (site->conf.flags & NAPROXY_F_FROZEN) != 0 &&
	    np_server_woke(site->server, age));
}

VCL_VOID v_matchproto_(td_naproxy_stored)
vmod_stored(VRT_CTX, VCL_BOOL https)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	if (rec != NULL && rec->site != NULL && ctx->http_beresp != NULL)
		np_stored(ctx, rec, https);
}

VCL_VOID v_matchproto_(td_naproxy_inside)
vmod_inside(VRT_CTX)
{
	struct np_record *rec;

	rec = request_record(ctx, "inside");
	if (rec != NULL)
		rec->counted = true;
}

VCL_DURATION v_matchproto_(td_naproxy_connect_timeout)
vmod_connect_timeout(VRT_CTX)
{
	const struct np_site *site;

	site = task_site(ctx);
	if (site == NULL)
		return (DEFAULT_CONNECT_MS / 1e3);
	if (np_page_trusted() &&
	    np_server_state(site->server) == NAPROXY_TROUBLE)
		return (timeout_s(site->conf.connect_timeout_ms,
		    TROUBLE_CONNECT_MS));
	if (site->conf.connect_timeout_ms == 0)
		return (DEFAULT_CONNECT_MS / 1e3);
	return (site->conf.connect_timeout_ms / 1e3);
}

VCL_DURATION v_matchproto_(td_naproxy_first_byte_timeout)
vmod_first_byte_timeout(VRT_CTX)
{
	const struct np_site *site;
	uint32_t ms;

	site = task_site(ctx);
	ms = site == NULL ? 0 : site->conf.first_byte_timeout_ms;
	if (!np_page_trusted())
		return (timeout_s(ms, UNTRUSTED_FIRST_BYTE_MS));
	return (timeout_s(ms, ms == 0 ? FIRST_BYTE_MS : ms));
}

VCL_INT v_matchproto_(td_naproxy_retry_after)
vmod_retry_after(VRT_CTX)
{
	const struct np_record *rec;
	uint64_t at_us, now_us;

	rec = np_record(ctx);
	if (rec == NULL || rec->site == NULL)
		return (3600);
	if (rec->site->conf.crawl_ms != 0 &&
	    np_server_available(rec->site->server))
		return (PACED_S);
	/*
	 * Strangers have cost as much as they may. A browser that loads the page
	 * again shows that it is one, and is served: see server/people.py.
	 */
	if ((rec->flags & NAPROXY_E_PAGE_LOAD) != 0 &&
	    (rec->site->conf.spent_mask >> rec->klass & 1) != 0)
		return (FOLLOWED_S);
	at_us = rec->site->conf.retry_at_us;
	now_us = np_now_us();
	if (np_robot(rec->klass) && at_us > now_us)
		return ((VCL_INT)((at_us - now_us) / 1000000 + 1));
	return (rec->site->conf.crawler_retry_s == 0 ? 3600 :
	    rec->site->conf.crawler_retry_s);
}

/*--------------------------------------------------------------------
 * In flight
 */

/* Can it be over without waiting for its client? */
static bool
answer_quick(VRT_CTX)
{
	struct objcore *oc;

	if (ctx->method != VCL_MET_DELIVER)
		return (np_clients_sent(ctx->req) &&
		    np_clients_fits(ctx->sp, SYNTH_MOST));
	oc = ctx->req->objcore;
	CHECK_OBJ_NOTNULL(oc, OBJCORE_MAGIC);
	/* An object that is still being fetched comes at the server's pace. */
	return (oc->boc == NULL && np_clients_fits(ctx->sp,
	    HEAD_MOST + ObjGetLen(ctx->req->wrk, oc)));
}

VCL_BOOL v_matchproto_(td_naproxy_admit)
vmod_admit(VRT_CTX)
{
	struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL)
		rec = request_record(ctx, "admit");
	if (rec == NULL || rec->admitted != NULL || answer_quick(ctx))
		return (true);
	if (rec->address == 0)
		np_classify_address(ctx, rec);
	if (np_clients_admit(rec, false)) {
		np_clients_patience(ctx->sp);
		return (true);
	}
	if (ctx->method == VCL_MET_SYNTH &&
	    !np_clients_fits(ctx->sp, SYNTH_MOST))
		np_clients_hang_up(ctx->sp);
	return (false);
}

/*--------------------------------------------------------------------
 * What becomes of it
 */

/* Its word in VCL, the outcome that it counts as, and its text in X-Naproxy. */
static const struct word {
	const VCL_ENUM	*word;
	uint8_t		outcome;
	const VCL_ENUM	*said;
} words[] = {
#define O(number, name, word, end, marks)				\
	[number] = { &VENUM(word), number, &VENUM(word) },
#define C(name, word, outcome, said)					\
	[NP_##name] = { &VENUM(word), NAPROXY_##outcome, &VENUM(said) },
	NAPROXY_OUTCOME_LIST(O)
	NAPROXY_CASE_LIST(C)
#undef O
#undef C
};

static void
request_became(struct np_record *rec, unsigned what)
{

	rec->became = (uint8_t)what;
	rec->outcome = words[what].outcome;
}

VCL_BOOL v_matchproto_(td_naproxy_decide)
vmod_decide(VRT_CTX)
{
	struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL || rec->site == NULL || ctx->req == NULL)
		return (true);
	request_became(rec, np_decide(ctx, rec));
	return (rec->outcome == NAPROXY_PIPE ||
	    (naproxy_marks(rec->outcome) & NAPROXY_O_SERVED) != 0);
}

VCL_VOID v_matchproto_(td_naproxy_outcome)
vmod_outcome(VRT_CTX, VCL_ENUM what)
{
	struct np_record *rec;
	unsigned u;

	rec = np_record(ctx);
	for (u = 0; rec != NULL && u < sizeof words / sizeof *words; u++)
		if (words[u].word != NULL && *words[u].word == what)
			request_became(rec, u);
}

VCL_STRING v_matchproto_(td_naproxy_became)
vmod_became(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	return (rec == NULL ? VENUM(other) : *words[rec->became].word);
}

static void
request_report(struct np_record *rec, VCL_INT status)
{

	if (status > 0 && status <= UINT16_MAX)
		rec->status = (uint16_t)status;
	np_record_arrived(rec);
}

VCL_BOOL v_matchproto_(td_naproxy_fresh_hit)
vmod_fresh_hit(VRT_CTX, VCL_INT status)
{
	struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL)
		return (true);
	if (rec->became != NAPROXY_OTHER)
		return (false);
	request_became(rec, NAPROXY_HIT);
	if (!rec->usual &&
	    (np_header(ctx->http_req, H_X_Naproxy_Cookie) != NULL ||
	    np_header(ctx->http_req, H_X_Naproxy_Debug) != NULL))
		return (false);
	request_report(rec, status);
	return (true);
}

VCL_STRING v_matchproto_(td_naproxy_report)
vmod_report(VRT_CTX, VCL_INT status)
{
	struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL)
		return (VENUM(other));
	request_report(rec, status);
	if (naproxy_marks(rec->outcome) & NAPROXY_O_SERVED &&
	    ctx->method == VCL_MET_DELIVER)
		np_login_answered(rec, ctx->http_req, ctx->http_resp);
	return (*words[rec->became].said);
}

/*--------------------------------------------------------------------
 * Of a fetch
 */

/*
 * If a reused connection ends without an answer, Varnish resends a request without a
 * body, even if its method is not idempotent.
 */
static const char once[] = "it may change something";

VCL_VOID v_matchproto_(td_naproxy_once)
vmod_once(VRT_CTX)
{
	struct np_record *rec;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	if (ctx->bo == NULL)
		return;
	if (ctx->bo->no_retry == NULL)
		ctx->bo->no_retry = once;
	rec = np_record(ctx);
	if (rec != NULL)
		rec->once = true;
}

VCL_BOOL v_matchproto_(td_naproxy_may_retry)
vmod_may_retry(VRT_CTX)
{
	struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL || rec->site == NULL || ctx->bo == NULL ||
	    ctx->method != VCL_MET_BACKEND_ERROR || ctx->bo->is_bgfetch ||
	    ctx->bo->acct.bereq_hdrbytes != 0 || !np_hold_fetch(ctx, rec))
		return (false);
	/* Nothing was sent. */
	if (ctx->bo->no_retry == once)
		ctx->bo->no_retry = NULL;
	return (true);
}

VCL_BOOL v_matchproto_(td_naproxy_settling)
vmod_settling(VRT_CTX)
{
	const struct np_site *site;

	site = task_site(ctx);
	return (site != NULL &&
	    np_server_settling(site->server, site->conf.settle_ms));
}

VCL_BOOL v_matchproto_(td_naproxy_uncached)
vmod_uncached(VRT_CTX)
{
	const struct np_site *site;

	site = task_site(ctx);
	return (site != NULL &&
	    np_server_settling(site->server, site->conf.uncached_ms));
}

VCL_BOOL v_matchproto_(td_naproxy_not_ready)
vmod_not_ready(VRT_CTX)
{
	struct np_record *rec;
	bool unsent;

	rec = np_record(ctx);
	if (rec == NULL || rec->site == NULL || ctx->bo == NULL ||
	    ctx->bo->is_bgfetch ||
	    !np_server_settling(rec->site->server, rec->site->conf.settle_ms))
		return (false);
	unsent = ctx->method == VCL_MET_BACKEND_ERROR &&
	    ctx->bo->acct.bereq_hdrbytes == 0;
	/* It may be carried out already, or its body is gone. */
	if (ctx->bo->no_retry != NULL && !(unsent && ctx->bo->no_retry == once))
		return (false);
	if (!np_hold_ready(ctx, rec))
		return (false);
	ctx->bo->no_retry = NULL;
	return (true);
}

VCL_VOID v_matchproto_(td_naproxy_answered)
vmod_answered(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	if (rec != NULL && rec->site != NULL && ctx->bo != NULL)
		np_reach_answered(rec->site->server);
}

VCL_VOID v_matchproto_(td_naproxy_stream)
vmod_stream(VRT_CTX)
{
	struct np_record *rec;

	rec = np_record(ctx);
	if (rec != NULL && ctx->bo != NULL)
		rec->endless = true;
}

/*--------------------------------------------------------------------
 * What the cache must not have any more
 */

VCL_VOID v_matchproto_(td_naproxy_caching)
vmod_caching(VRT_CTX)
{
	struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL || ctx->http_bereq == NULL)
		return;
	rec->plain = np_header(ctx->http_bereq, H_X_Naproxy_Plain) != NULL;
	if (rec->site != NULL)
		np_changed_fetch(rec->site->server, ctx->http_bereq);
}

VCL_BOOL v_matchproto_(td_naproxy_plain)
vmod_plain(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	return (rec != NULL && rec->plain);
}

VCL_VOID v_matchproto_(td_naproxy_changed)
vmod_changed(VRT_CTX)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	if (rec != NULL && ctx->http_req != NULL)
		np_changed(rec, ctx->http_req);
}

VCL_BOOL v_matchproto_(td_naproxy_outdated)
vmod_outdated(VRT_CTX, VCL_DURATION age)
{
	const struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL || ctx->http_req == NULL)
		return (false);
	return (np_changed_since(rec, ctx->http_req, ctx->now - age) ||
	    np_emptied_since(rec, task_url(ctx), ctx->now - age));
}

VCL_BOOL v_matchproto_(td_naproxy_empty)
vmod_empty(VRT_CTX, VCL_STRING server, VCL_STRING path, VCL_BOOL exact)
{
	struct np_server *srv = NULL;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	if (server != NULL && *server != '\0') {
		srv = np_server_find(server);
		if (srv == NULL)
			return (false);
	}
	return (np_empty(srv, path == NULL ? "" : path, exact));
}

VCL_VOID v_matchproto_(td_naproxy_emptied)
vmod_emptied(VRT_CTX)
{

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	np_emptied_now();
}

VCL_BOOL v_matchproto_(td_naproxy_overtaken)
vmod_overtaken(VRT_CTX)
{
	const struct np_record *rec;
	const struct objcore *oc;

	rec = np_record(ctx);
	if (rec == NULL || ctx->bo == NULL)
		return (false);
	if (ctx->method != VCL_MET_BACKEND_FETCH)
		return (np_emptied_meanwhile(ctx->bo->t_first) ||
		    np_changed_since(rec, ctx->http_bereq, ctx->bo->t_first));
	oc = ctx->bo->stale_oc;
	return (oc != NULL &&
	    np_emptied_since(rec, task_url(ctx), oc->t_origin));
}

VCL_BOOL v_matchproto_(td_naproxy_own_server)
vmod_own_server(VRT_CTX)
{
	const struct np_site *site;
	const uint8_t *bytes;
	VCL_IP ip;
	int fam;

	site = task_site(ctx);
	if (site == NULL || ctx->req == NULL)
		return (false);
	ip = VRT_r_client_ip(ctx);
	if (ip == NULL)
		return (false);
	fam = VSA_GetPtr(ip, &bytes);
	/* A server on the box itself does not sleep. */
	return ((fam == AF_INET && site->conf.family == 4 && bytes[0] != 127 &&
	    !memcmp(bytes, site->conf.address, 4)) ||
	    (fam == AF_INET6 && site->conf.family == 6 &&
	    !memcmp(bytes, site->conf.address, 16)));
}

VCL_VOID v_matchproto_(td_naproxy_fetching)
vmod_fetching(VRT_CTX)
{
	struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL || rec->site == NULL || ctx->bo == NULL ||
	    ctx->req != NULL || rec->fetching)
		return;
	rec->fetching = true;
	np_gauge_fetching(rec->site->server, 1);
}

VCL_VOID v_matchproto_(td_naproxy_piping)
vmod_piping(VRT_CTX)
{
	struct np_record *rec;

	rec = np_record(ctx);
	if (rec == NULL || rec->site == NULL || ctx->req == NULL ||
	    ctx->bo == NULL || rec->piping)
		return;
	rec->piping = true;
	np_gauge_piping(rec->site->server, 1);
	/* It may last for hours, and it is news now. */
	request_became(rec, NAPROXY_PIPE);
	np_record_arrived(rec);
	np_record_count(rec);
}

/*--------------------------------------------------------------------
 * For the waiting page and the status path
 */

static unsigned
site_eta_s(const struct np_site *site)
{
	const struct naproxy_server *live;
	uint64_t left_us, gone_us = 0;

	left_us = site->conf.wake_expect_ms * UINT64_C(1000);
	live = NP_LOAD(site->server->live);
	if (live != NULL && np_server_state(site->server) == NAPROXY_WAKING)
		gone_us = np_now_us() - NP_LOAD(live->since_us);
	/* Later than usual: expect another quarter of the time that has passed. */
	if (gone_us + gone_us / 4 >= left_us)
		left_us = gone_us / 4;
	else
		left_us -= gone_us;
	if (left_us < UINT64_C(1000000))
		return (1);
	return ((unsigned)((left_us + 999999) / 1000000));
}

VCL_INT v_matchproto_(td_naproxy_eta)
vmod_eta(VRT_CTX)
{
	const struct np_site *site;

	site = task_site(ctx);
	return (site == NULL ? 1 : site_eta_s(site));
}

VCL_BOOL v_matchproto_(td_naproxy_restarts)
vmod_restarts(VRT_CTX)
{
	const struct np_site *site;
	uint32_t state;

	site = task_site(ctx);
	if (site == NULL || (site->conf.flags & NAPROXY_F_RESTARTS) == 0)
		return (false);
	state = np_server_state(site->server);
	return (state == NAPROXY_WAKING || state == NAPROXY_TROUBLE);
}

VCL_STRING v_matchproto_(td_naproxy_notice)
vmod_notice(VRT_CTX)
{
	const struct np_record *rec;
	const char *p;
	struct vsb vsb[1];

	rec = np_record(ctx);
	if (rec == NULL || rec->ref.snap == NULL || rec->ref.snap->notice[0] == '\0')
		return ("");
	WS_VSB_new(vsb, ctx->ws);
	for (p = rec->ref.snap->notice; *p != '\0'; p++) {
		switch (*p) {
		case '&':
			VSB_cat(vsb, "&amp;");
			break;
		case '<':
			VSB_cat(vsb, "&lt;");
			break;
		case '>':
			VSB_cat(vsb, "&gt;");
			break;
		case '"':
			VSB_cat(vsb, "&quot;");
			break;
		case '\'':
			VSB_cat(vsb, "&#39;");
			break;
		default:
			VSB_putc(vsb, *p);
			break;
		}
	}
	return (WS_VSB_finish(vsb, ctx->ws, NULL));
}

VCL_STRING v_matchproto_(td_naproxy_language)
vmod_language(VRT_CTX, VCL_STRING accept, VCL_STRING available)
{
	const char *best;
	size_t len;

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	if (available == NULL)
		return ("");
	best = language_best(accept, available, &len);
	return (WS_Printf(ctx->ws, "%.*s", (int)len, best));
}

VCL_STRING v_matchproto_(td_naproxy_status)
vmod_status(VRT_CTX)
{
	const struct naproxy_server *live;
	const struct np_site *site;
	bool available, trusted;
	uint64_t since_us = 0;

	site = task_site(ctx);
	trusted = np_page_trusted();
	if (site == NULL)
		return (WS_Printf(ctx->ws, "{\"id\": null, \"state\": "
		    "\"unknown\", \"available\": true, \"since_s\": 0, "
		    "\"eta_s\": 0, \"trusted\": %s}",
		    trusted ? "true" : "false"));
	available = np_server_available(site->server);
	live = NP_LOAD(site->server->live);
	if (live != NULL && NP_LOAD(live->since_us) != 0)
		since_us = np_now_us() - NP_LOAD(live->since_us);
	return (WS_Printf(ctx->ws, "{\"id\": \"%s\", \"state\": \"%s\", "
	    "\"available\": %s, \"since_s\": %.1f, \"eta_s\": %u, "
	    "\"trusted\": %s}", site->server->id, vmod_state(ctx),
	    available ? "true" : "false", (double)since_us / 1e6,
	    available ? 0 : site_eta_s(site), trusted ? "true" : "false"));
}
