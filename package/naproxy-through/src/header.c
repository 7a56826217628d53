/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * PROXY protocol, version 2 (haproxy's doc/proxy-protocol.txt, 2.2).
 */

#include <arpa/inet.h>

#include <string.h>

#include "through.h"

static const uint8_t signature[12] = "\r\n\r\n\0\r\nQUIT\n";

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

void
header_client(const uint8_t *head, char *client, socklen_t size)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const uint8_t *address = head + HEADER_FIRST;
	int family;

	client[0] = '\0';
	if (head[AT_COMMAND] != COMMAND_PROXY)
		return;
	if (head[AT_FAMILY] == TCP4) {
		family = AF_INET;
	} else if (head[AT_FAMILY] == TCP6) {
		/* The edge listens for both at once. */
		family = memcmp(address, mapped, sizeof mapped) ? AF_INET6 :
		    AF_INET;
		if (family == AF_INET)
			address += sizeof mapped;
	} else
		return;
	AN(inet_ntop(family, address, client, size) != NULL);
}
