/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Joins connections to a server that may sleep, without reading them: it is
 * woken, and they wait meanwhile. What there is to join stands in the page.
 */

#include <sys/epoll.h>

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "through.h"

#define LOOK_US		1000000
#define AT_ONCE		64

static int epoll_fd;

uint64_t
monotonic_us(void)
{
	struct timespec ts;

	AZ(clock_gettime(CLOCK_MONOTONIC, &ts));
	return ((uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000);
}

/*
 * What waits for nothing is not watched at all: the kernel would say again and
 * again that the other side has hung up.
 */
void
watch_set(struct watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	if (events == w->events)
		return;
	if (events == 0)
		AZ(epoll_ctl(epoll_fd, EPOLL_CTL_DEL, w->fd, NULL));
	else if (epoll_ctl(epoll_fd, w->events == 0 ? EPOLL_CTL_ADD :
	    EPOLL_CTL_MOD, w->fd, &ev) != 0)
		err(1, "epoll_ctl");
	w->events = events;
}

void
watch_close(struct watch *w)
{

	if (w->fd < 0)
		return;
	watch_set(w, 0);
	AZ(close(w->fd));
	w->fd = -1;
}

static void
happened(struct epoll_event *ev)
{
	struct watch *w = ev->data.ptr;

	/* An event before it in the same batch may have ended it. */
	if (w->events == 0)
		return;
	if (w->kind == WATCH_SERVICE)
		connection_accept((struct service *)w);
	else
		connection_event(w, ev->events);
}

int
main(int argc, char **argv)
{
	struct epoll_event ev[AT_ONCE];
	uint64_t look = 0;
	int i, n, wait_ms;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: naproxy-through RUN_DIR\n");
		return (2);
	}
	if (chdir(argv[1]) != 0)
		err(1, "%s", argv[1]);
	(void)signal(SIGPIPE, SIG_IGN);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		err(1, "epoll_create1");
	wake_open();
	for (;;) {
		if (monotonic_us() >= look) {
			services_look();
			look = monotonic_us() + LOOK_US;
		}
		wait_ms = connections_tick();
		connections_bury();
		services_tell();
		n = epoll_wait(epoll_fd, ev, AT_ONCE, wait_ms);
		if (n < 0 && errno != EINTR)
			err(1, "epoll_wait");
		for (i = 0; i < n; i++)
			happened(&ev[i]);
	}
}
