/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Ask for a server to be woken: the magic packet first, for it is what the
 * reader waits for, then the datagram to the controller. Neither may block.
 */

#include <sys/socket.h>
#include <sys/un.h>

#include <netinet/in.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cache/cache.h"
#include "vsb.h"

#include "crawlers.h"
#include "naproxy.h"

#define WAKE_PAUSE_US	100000
#define TELL_PAUSE_US	1000000
#define WAKE_MAX	1024

static int wake_unix = -1;
static int wake_udp = -1;
static struct sockaddr_un wake_addr;

static const char * const wake_reason[] = {
	[NAPROXY_WAKE_PAGE] = "page",
	[NAPROXY_WAKE_MISS] = "miss",
	[NAPROXY_WAKE_PASS] = "pass",
	[NAPROXY_WAKE_PIPE] = "pipe",
};

void
np_wake_close(void)
{

	if (wake_unix >= 0)
		closefd(&wake_unix);
	if (wake_udp >= 0)
		closefd(&wake_udp);
}

/* Returns an errno, ENAMETOOLONG if the directory's name is too long. */
int
np_wake_open(const char *run_dir)
{
	int one = 1;

	np_wake_close();
	memset(&wake_addr, 0, sizeof wake_addr);
	wake_addr.sun_family = AF_UNIX;
	if (snprintf(wake_addr.sun_path, sizeof wake_addr.sun_path,
	    "%s/wake.sock", run_dir) >= (int)sizeof wake_addr.sun_path)
		return (ENAMETOOLONG);
	wake_unix = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	wake_udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	if (wake_unix < 0 || wake_udp < 0 || setsockopt(wake_udp, SOL_SOCKET,
	    SO_BROADCAST, &one, sizeof one) != 0)
		return (errno);
	return (0);
}

/*--------------------------------------------------------------------*/

static void
wake_magic_packet(const struct np_site *site)
{
	struct naproxy_server *live;
	struct sockaddr_in sin;
	uint8_t packet[PAGE_MAGIC_BYTES];

	if (!page_magic_packet(&site->conf, packet, &sin))
		return;
	if (sendto(wake_udp, packet, sizeof packet, MSG_DONTWAIT | MSG_NOSIGNAL,
	    (struct sockaddr *)&sin, sizeof sin) != (ssize_t)sizeof packet)
		return;
	live = NP_LOAD(site->server->live);
	if (live != NULL)
		(void)NP_ADD(live->magic_packets, 1);
}

/*--------------------------------------------------------------------*/

/* key=value and a newline; characters other than printable ASCII become `?`. */
static void
wake_field(struct vsb *vsb, const char *key, const char *value, size_t most)
{

	VSB_printf(vsb, "%s=", key);
	for (; value != NULL && *value != '\0' && most > 0; value++, most--)
		VSB_putc(vsb, *value < 32 || *value > 126 ? '?' : *value);
	VSB_putc(vsb, '\n');
}

static void
wake_write(VRT_CTX, const struct np_record *rec, struct vsb *vsb)
{
	const struct http *hp;

	/* A fetch does not know who asks. */
	hp = ctx->http_req != NULL ? ctx->http_req : ctx->http_bereq;
	CHECK_OBJ_NOTNULL(hp, HTTP_MAGIC);
	VSB_cat(vsb, "naproxy-wake 1\n");
	wake_field(vsb, "server", rec->site->server->id, NAPROXY_ID_LEN);
	wake_field(vsb, "reason", wake_reason[rec->reason], 16);
	if (np_server_silent(rec->site->server))
		wake_field(vsb, "seen", "silent", 16);
	wake_field(vsb, "method", hp->hd[HTTP_HDR_METHOD].b, 16);
	if (ctx->req != NULL)
		wake_field(vsb, "class", np_class_name[rec->klass], 16);
	wake_field(vsb, "client", np_client_address(ctx), 64);
	wake_field(vsb, "agent", np_header(hp, H_User_Agent), 120);
	wake_field(vsb, "host", np_header(hp, H_Host), 64);
	wake_field(vsb, "path", hp->hd[HTTP_HDR_URL].b, 256);
}

/* Whether the controller has it. */
static bool
wake_send(struct vsb *vsb)
{
	struct np_map *map;
	ssize_t len;

	AZ(VSB_finish(vsb));
	len = VSB_len(vsb);
	if (sendto(wake_unix, VSB_data(vsb), (size_t)len,
	    MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&wake_addr,
	    sizeof wake_addr) == len)
		return (true);
	map = np_page_map();
	if (map != NULL)
		(void)NP_ADD(map->page->wake_errors, 1);
	return (false);
}

static void
wake_datagram(VRT_CTX, const struct np_record *rec)
{
	char buf[WAKE_MAX];
	struct naproxy_server *live;
	struct vsb vsb[1];

	AN(VSB_init(vsb, buf, sizeof buf));
	wake_write(ctx, rec, vsb);
	if (wake_send(vsb)) {
		live = NP_LOAD(rec->site->server->live);
		if (live != NULL)
			(void)NP_ADD(live->wakes[rec->reason], 1);
	}
	VSB_fini(vsb);
}

/* Is it the first in so long? */
static bool
wake_turn(uint64_t *when_us, uint64_t pause_us)
{
	uint64_t now, last;

	now = np_now_us();
	last = NP_LOAD(*when_us);
	if (last != 0 && now < last + pause_us)
		return (false);
	return (__atomic_compare_exchange_n(when_us, &last, now, false,
	    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
}

/*
 * The controller finds out whether this is the search engine that it says, and
 * for how long it has been refused.
 */
void
np_wake_refused(VRT_CTX, const struct np_record *rec)
{
	char buf[WAKE_MAX];
	struct vsb vsb[1];

	CHECK_OBJ_NOTNULL(rec, NP_RECORD_MAGIC);
	if (rec->site == NULL || rec->agent == CRAWLERS_NONE ||
	    crawlers_agent[rec->agent].engine == NULL ||
	    rec->flags & (NAPROXY_E_OWN | NAPROXY_E_RULE) ||
	    !wake_turn(&rec->site->server->told_us, TELL_PAUSE_US))
		return;
	AN(VSB_init(vsb, buf, sizeof buf));
	VSB_cat(vsb, "naproxy-refused 1\n");
	wake_field(vsb, "server", rec->site->server->id, NAPROXY_ID_LEN);
	wake_field(vsb, "engine", crawlers_agent[rec->agent].engine, 32);
	wake_field(vsb, "address", np_client_address(ctx), 64);
	VSB_printf(vsb, "network=%016jx\n", (uintmax_t)rec->network);
	(void)wake_send(vsb);
	VSB_fini(vsb);
}

/* May this crawler ask the server now, that is awake for one that crawls it? */
bool
np_wake_paced(VRT_CTX, const struct np_record *rec)
{

	CHECK_OBJ_NOTNULL(rec, NP_RECORD_MAGIC);
	if (rec->site == NULL || rec->site->conf.crawl_ms == 0 ||
	    rec->klass != NAPROXY_CRAWLER || rec->flags & NAPROXY_E_OWN ||
	    np_never_refused(ctx, rec))
		return (true);
	return (wake_turn(&rec->site->server->crawled_us,
	    rec->site->conf.crawl_ms * UINT64_C(1000)));
}

void
np_wake(VRT_CTX, const struct np_record *rec)
{
	const struct np_site *site;
	bool awake, trusted;

	CHECK_OBJ_NOTNULL(rec, NP_RECORD_MAGIC);
	site = rec->site;
	AN(site);
	trusted = np_page_trusted();
	awake = np_server_state(site->server) == NAPROXY_AWAKE &&
	    !np_server_silent(site->server);
	if (awake && trusted)
		return;
	if (!wake_turn(&site->server->woken_us, WAKE_PAUSE_US))
		return;
	if (!trusted || (site->conf.flags & NAPROXY_F_WOL))
		wake_magic_packet(site);
	if (!awake)
		wake_datagram(ctx, rec);
}
