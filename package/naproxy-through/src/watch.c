/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Time, and waiting for what happens to sockets: epoll.
 */

#include <sys/epoll.h>

#include <err.h>
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "through.h"

#define AT_ONCE		64

static int epoll_fd;

void
watch_open(void)
{

	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		err(1, "epoll_create1");
}

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

void
watch_wait(int ms, void (*happened)(struct watch *))
{
	struct epoll_event ev[AT_ONCE];
	struct watch *w;
	int i, n;

	n = epoll_wait(epoll_fd, ev, AT_ONCE, ms);
	if (n < 0 && errno != EINTR)
		err(1, "epoll_wait");
	for (i = 0; i < n; i++) {
		w = ev[i].data.ptr;
		/* An event before it in the same batch may have ended it. */
		if (w->events != 0)
			happened(w);
	}
}
