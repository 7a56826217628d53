/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Joins connections to a server that may sleep, without reading them: it is
 * woken, and they wait meanwhile. What there is to join stands in the page.
 */

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "through.h"

#define LOOK_US		1000000

static void
happened(struct watch *w)
{

	if (w->kind == WATCH_SERVICE)
		connection_accept((struct service *)w);
	else
		connection_event(w);
}

int
main(int argc, char **argv)
{
	uint64_t look = 0;
	int wait_ms;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: naproxy-through RUN_DIR\n");
		return (2);
	}
	if (chdir(argv[1]) != 0)
		err(1, "%s", argv[1]);
	(void)signal(SIGPIPE, SIG_IGN);
	watch_open();
	wake_open();
	for (;;) {
		if (monotonic_us() >= look) {
			services_look();
			look = monotonic_us() + LOOK_US;
		}
		wait_ms = connections_tick();
		connections_bury();
		services_tell();
		watch_wait(wait_ms, happened);
	}
}
