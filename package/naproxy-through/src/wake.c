/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Ask for a server to be woken, as the VMOD does: the magic packet first, then
 * the datagram to the controller (docs/architecture.md).
 */

#include <sys/socket.h>
#include <sys/un.h>

#include <err.h>
#include <stdio.h>
#include <string.h>

#include "through.h"

#define WAKE_PAUSE_US	100000
#define WAKE_MOST	1024

static int wake_unix = -1, wake_udp = -1;
static const struct sockaddr_un controller = {
	.sun_family = AF_UNIX,
	.sun_path = "wake.sock",
};

void
wake_open(void)
{
	int one = 1;

	wake_unix = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	wake_udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	if (wake_unix < 0 || wake_udp < 0 || setsockopt(wake_udp, SOL_SOCKET,
	    SO_BROADCAST, &one, sizeof one) != 0)
		err(1, "socket");
}

static void
wake_magic_packet(const struct naproxy_server *conf)
{
	struct sockaddr_in sin;
	uint8_t packet[PAGE_MAGIC_BYTES];

	if (!page_magic_packet(conf, packet, &sin))
		return;
	(void)sendto(wake_udp, packet, sizeof packet, MSG_NOSIGNAL,
	    (const struct sockaddr *)&sin, sizeof sin);
}

static void
wake_datagram(const struct service *svc, const char *client)
{
	char buf[WAKE_MOST];
	int len;

	/* What it asks for nobody reads. */
	len = snprintf(buf, sizeof buf, "naproxy-wake 1\nserver=%s\n"
	    "reason=pass\n%sclass=person\nclient=%s\nhost=%s\npath=port %u\n",
	    svc->server.id, service_silent(svc) ? "seen=silent\n" : "",
	    client, svc->conf.id, svc->conf.port);
	(void)sendto(wake_unix, buf, (size_t)len, MSG_NOSIGNAL,
	    (const struct sockaddr *)&controller, sizeof controller);
}

void
wake(struct service *svc, const char *client)
{
	uint64_t now = monotonic_us();
	bool trusted = service_trusted(svc);
	bool awake = service_state(svc) == NAPROXY_AWAKE &&
	    !service_silent(svc);

	if ((awake && trusted) || now < svc->woken_us + WAKE_PAUSE_US)
		return;
	svc->woken_us = now;
	if (!trusted || (svc->server.flags & NAPROXY_F_WOL))
		wake_magic_packet(&svc->server);
	if (!awake)
		wake_datagram(svc, client);
}
