/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Does a server that is called awake still take connections? It may have fallen
 * asleep by itself. Asked before a request is sent, for one that was sent to a
 * sleeping server is lost, or nobody knows whether it was carried out.
 *
 * Nobody asks as long as the server has answered lately, by the page's reach_ms;
 * if that is 0, nobody ever does. If it takes no connection, it
 * counts as asleep for this process, until it takes a connection or the
 * controller says something new of it.
 */

#include <sys/socket.h>

#include <netinet/in.h>

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cache/cache.h"

#include "naproxy.h"

/* On the office's own network; a lost packet costs a magic one. */
#define REACH_LIMIT_MS		300
/* Nor need all ask who come or are held at once. */
#define REACH_PAUSE_US		UINT64_C(100000)

static socklen_t
reach_address(struct sockaddr_storage *ss, const struct naproxy_server *conf)
{
	struct sockaddr_in6 *sin6 = (void *)ss;
	struct sockaddr_in *sin = (void *)ss;

	memset(ss, 0, sizeof *ss);
	if (conf->port == 0)
		return (0);
	if (conf->family == 4) {
		sin->sin_family = AF_INET;
		sin->sin_port = htons(conf->port);
		memcpy(&sin->sin_addr, conf->address, sizeof sin->sin_addr);
		return (sizeof *sin);
	}
	if (conf->family != 6)
		return (0);
	sin6->sin6_family = AF_INET6;
	sin6->sin6_port = htons(conf->port);
	memcpy(&sin6->sin6_addr, conf->address, sizeof sin6->sin6_addr);
	return (sizeof *sin6);
}

/*
 * Is the server up? A refused connection proves that it is. An error on our side, such
 * as running out of sockets, says nothing about the server.
 */
static bool
reach_connect(const struct naproxy_server *conf)
{
	struct sockaddr_storage ss;
	struct linger reset = { 1, 0 };
	struct pollfd pfd;
	socklen_t len;
	int fd, error;

	len = reach_address(&ss, conf);
	if (len == 0)
		return (true);
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return (true);
	error = connect(fd, (struct sockaddr *)&ss, len) == 0 ? 0 : errno;
	if (error == EINPROGRESS) {
		pfd.fd = fd;
		pfd.events = POLLOUT;
		error = ETIMEDOUT;
		len = sizeof error;
		if (poll(&pfd, 1, REACH_LIMIT_MS) == 1)
			AZ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
	}
	/* Nothing was said, so nothing has to wait: no port is kept for it. */
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	closefd(&fd);
	switch (error) {
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EHOSTDOWN:
	case ENETDOWN:
		return (false);
	default:
		return (true);
	}
}

void
np_reach_answered(struct np_server *srv)
{

	NP_STORE(srv->answered_us, np_now_us());
	NP_STORE(srv->silent_us, 0);
}

static bool
reach_lately(const struct np_site *site, uint64_t now_us, uint64_t lately_us)
{
	const struct np_server *srv = site->server;
	const struct naproxy_server *live;
	uint64_t last_us;

	live = NP_LOAD(srv->live);
	if (live == NULL)
		return (true);
	last_us = NP_LOAD(srv->answered_us);
	if (last_us < NP_LOAD(live->since_us))
		last_us = NP_LOAD(live->since_us);
	return (now_us < last_us + lately_us);
}

/*
 * Look whether it takes a connection, if it is called awake; `surely`: unless
 * it has answered just now.
 */
void
np_reach(const struct np_site *site, bool surely)
{
	struct np_server *srv = site->server;
	uint64_t now_us, last_us;

	CHECK_OBJ_NOTNULL(srv, NP_SERVER_MAGIC);
	if (site->conf.reach_ms == 0 || !np_page_trusted() ||
	    np_server_state(srv) != NAPROXY_AWAKE)
		return;
	now_us = np_now_us();
	if (np_server_silent(srv)) {
		last_us = NP_LOAD(srv->reach_us);
		if (now_us < last_us + REACH_PAUSE_US ||
		    !__atomic_compare_exchange_n(&srv->reach_us, &last_us,
		    now_us, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return;
	} else if (reach_lately(site, now_us, surely ? REACH_PAUSE_US :
	    site->conf.reach_ms * UINT64_C(1000))) {
		return;
	}
	if (reach_connect(&site->conf))
		np_reach_answered(srv);
	else if (NP_LOAD(srv->answered_us) < now_us)
		/* When we began: the controller may have seen it awake since. */
		NP_STORE(srv->silent_us, now_us);
}
