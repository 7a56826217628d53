/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Whether a request proves that the server's name leads to the box: the
 * controller lets a server sleep by itself only after one did.
 */

#include <sys/socket.h>

#include <string.h>

#include "cache/cache.h"
#include "vrt_obj.h"
#include "vsa.h"

#include "naproxy.h"

#define VISIT_US	1000000

static bool
visit_loopback(int family, const uint8_t *bytes)
{
	static const uint8_t six[16] = { [15] = 1 };

	return (family == AF_INET ? bytes[0] == 127 :
	    !memcmp(bytes, six, sizeof six));
}

/*
 * Does the box ask itself, or the server? The connection's own addresses count,
 * not what a header says of them.
 */
static bool
visit_from_here(VRT_CTX, const struct naproxy_server *conf)
{
	const uint8_t *client, *server;
	size_t len;
	VCL_IP ip;
	int family;

	ip = VRT_r_client_ip(ctx);
	if (ip == NULL)
		return (true);
	family = VSA_GetPtr(ip, &client);
	if (family != AF_INET && family != AF_INET6)
		return (true);
	len = family == AF_INET ? 4 : 16;
	if (visit_loopback(family, client))
		return (true);
	if (conf->family == (family == AF_INET ? 4 : 6) &&
	    !memcmp(client, conf->address, len))
		return (true);
	/* A host that connects to its own address also uses it as the source. */
	ip = VRT_r_server_ip(ctx);
	return (ip != NULL && VSA_GetPtr(ip, &server) == family &&
	    !memcmp(client, server, len));
}

/* The site is chosen, and the client is classified. */
void
np_visit(VRT_CTX, struct np_record *rec, const char *host)
{
	const struct np_site *site = rec->site;
	const char *listener;

	rec->visits = false;
	if (site == NULL || np_robot(rec->klass))
		return;
	if (!np_names_proper(host) || (site->named &&
	    np_names_find(&rec->ref.snap->names, host) < 0))
		return;
	if (visit_from_here(ctx, &site->conf))
		return;
	listener = VRT_r_local_socket(ctx);
	rec->tls = listener != NULL && !strcmp(listener, "edge");
	rec->visits = true;
}

/* Answers that need neither the server nor its pages prove nothing about them. */
void
np_visit_count(const struct np_record *rec, struct naproxy_server *live)
{
	uint64_t *word, now_us;

	if (!rec->visits || rec->outcome == NAPROXY_OTHER ||
	    rec->outcome == NAPROXY_STATUS)
		return;
	word = rec->tls ? &live->visited_tls_us : &live->visited_us;
	now_us = np_coarse_us();
	/* To the second: each hit would have to have the line otherwise. */
	if (NP_LOAD(*word) + VISIT_US <= now_us)
		NP_STORE(*word, now_us);
}
