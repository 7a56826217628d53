/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Who a client is: by the PROXY protocol, version 2, from the edge; in words to
 * a server that wants version 1 (haproxy's doc/proxy-protocol.txt, 2.1, 2.2).
 */

#include <arpa/inet.h>

#include <stdio.h>
#include <string.h>

#include "through.h"

static const uint8_t signature[12] = { '\r', '\n', '\r', '\n', '\0', '\r',
	'\n', 'Q', 'U', 'I', 'T', '\n' };

enum {
	AT_COMMAND = 12,	/* version and command */
	AT_FAMILY = 13,
	AT_LENGTH = 14,
};

#define COMMAND_LOCAL	0x20
#define COMMAND_PROXY	0x21
#define TCP4		0x11
#define TCP6		0x21
#define TCP4_LEN	12	/* two addresses, two ports */
#define TCP6_LEN	36

static size_t
header_len(const uint8_t *head)
{

	return ((size_t)head[AT_LENGTH] << 8 | head[AT_LENGTH + 1]);
}

size_t
header_wants(const uint8_t *head, size_t len)
{
	size_t rest;

	if (len < HEADER_FIRST)
		return (HEADER_FIRST);
	rest = header_len(head);
	if (memcmp(head, signature, sizeof signature) != 0 ||
	    (head[AT_COMMAND] != COMMAND_LOCAL &&
	    head[AT_COMMAND] != COMMAND_PROXY) ||
	    rest > HEADER_MOST - HEADER_FIRST)
		return (0);
	if (head[AT_COMMAND] == COMMAND_PROXY &&
	    ((head[AT_FAMILY] == TCP4 && rest < TCP4_LEN) ||
	    (head[AT_FAMILY] == TCP6 && rest < TCP6_LEN)))
		return (0);
	return (HEADER_FIRST + rest);
}

/* The edge listens for both families at once. */
static const void *
plain_address(const struct in6_addr *address, int *family)
{

	*family = IN6_IS_ADDR_V4MAPPED(address) ? AF_INET : AF_INET6;
	return (*family == AF_INET ? &address->s6_addr[12] :
	    address->s6_addr);
}

/* On whose share it is: nobody's, if it is the office's own. */
static void
ends_count(struct ends *ends, unsigned family, const uint8_t *address)
{

	if (page_own_address(family, address))
		return;
	ends->address = page_address_hash(family, address);
	ends->network = page_network_hash(family, address);
}

static void
ends_say(struct ends *ends, const struct in6_addr *from,
    const struct in6_addr *to, unsigned from_port, unsigned to_port)
{
	char there[INET6_ADDRSTRLEN];
	const void *address;
	int family, to_family;

	address = plain_address(from, &family);
	AN(inet_ntop(family, address, ends->client, sizeof ends->client) !=
	    NULL);
	ends_count(ends, family == AF_INET ? 4 : 6, address);
	ends->from = *from;
	if (family == AF_INET6)
		memset(&ends->from.s6_addr[8], 0, 8);
	address = plain_address(to, &to_family);
	AN(inet_ntop(to_family, address, there, sizeof there) != NULL);
	if (family == to_family)
		(void)snprintf(ends->line, sizeof ends->line,
		    "PROXY TCP%d %s %s %u %u\r\n", family == AF_INET ? 4 : 6,
		    ends->client, there, from_port, to_port);
}

static void
map_address(struct in6_addr *mapped, const void *address)
{

	memset(mapped, 0, sizeof *mapped);
	mapped->s6_addr[10] = mapped->s6_addr[11] = 0xff;
	memcpy(&mapped->s6_addr[12], address, sizeof (struct in_addr));
}

static unsigned
port_at(const uint8_t *p)
{

	return ((unsigned)p[0] << 8 | p[1]);
}

void
header_ends(const uint8_t *head, struct ends *ends)
{
	const uint8_t *p = head + HEADER_FIRST;
	struct in6_addr from, to;

	if (head[AT_COMMAND] != COMMAND_PROXY)
		return;
	if (head[AT_FAMILY] == TCP4) {
		map_address(&from, p);
		map_address(&to, p + 4);
		ends_say(ends, &from, &to, port_at(p + 8), port_at(p + 10));
	} else if (head[AT_FAMILY] == TCP6) {
		memcpy(&from, p, sizeof from);
		memcpy(&to, p + 16, sizeof to);
		ends_say(ends, &from, &to, port_at(p + 32), port_at(p + 34));
	}
}

static unsigned
socket_end(const struct sockaddr_storage *ss, struct in6_addr *address)
{
	const struct sockaddr_in *sin = (const struct sockaddr_in *)ss;
	const struct sockaddr_in6 *sin6 = (const struct sockaddr_in6 *)ss;

	if (ss->ss_family == AF_INET) {
		map_address(address, &sin->sin_addr);
		return (ntohs(sin->sin_port));
	}
	*address = sin6->sin6_addr;
	return (ntohs(sin6->sin6_port));
}

void
socket_ends(int fd, const struct sockaddr_storage *client, struct ends *ends)
{
	struct sockaddr_storage here;
	struct in6_addr from, to;
	socklen_t len = sizeof here;
	unsigned from_port, to_port;

	memset(&here, 0, sizeof here);
	AZ(getsockname(fd, (struct sockaddr *)&here, &len));
	from_port = socket_end(client, &from);
	to_port = socket_end(&here, &to);
	ends_say(ends, &from, &to, from_port, to_port);
}
