/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * How the page is read, by the VMOD and by naproxy-through, the magic packet that
 * both make of it, and the hashes by which it knows clients.
 */

#ifndef PAGE_READ_H_INCLUDED
#define PAGE_READ_H_INCLUDED

#include <netinet/in.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "naproxy_page.h"

#define NP_LOAD(x)	__atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define NP_STORE(x, v)	__atomic_store_n(&(x), (v), __ATOMIC_RELEASE)
#define NP_ADD(x, v)	__atomic_add_fetch(&(x), (v), __ATOMIC_RELAXED)

#define PAGE_FUTURE_US	1000000		/* a heartbeat ahead of us: rubbish */
#define PAGE_SPINS	50
#define PAGE_TRIES	100
#define PAGE_PAUSE_NS	20000

static inline bool
page_string(const char *s, size_t len)
{

	return (memchr(s, '\0', len) != NULL);
}

static inline const char *
page_id_problem(const char *id)
{

	if (!page_string(id, NAPROXY_ID_LEN))
		return ("an id without end");
	if (id[strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0')
		return ("an id that is not of a-z, 0-9 and -");
	return (NULL);
}

static inline const char *
page_header_problem(const struct naproxy_page *p)
{

	if (NP_LOAD(p->magic) != NAPROXY_PAGE_MAGIC)
		return ("wrong magic");
	if (NP_LOAD(p->version) != NAPROXY_PAGE_VERSION)
		return ("wrong version");
	if (NP_LOAD(p->size) != NAPROXY_PAGE_SIZE)
		return ("wrong size in the header");
	if (NP_LOAD(p->nservers) > NAPROXY_SERVERS)
		return ("too many servers");
	return (NULL);
}

/* Is the controller alive? */
static inline bool
page_fresh(const struct naproxy_page *p, uint64_t now_us)
{
	uint64_t beat, max;

	beat = NP_LOAD(p->heartbeat_us);
	max = NP_LOAD(p->heartbeat_max_ms) * UINT64_C(1000);
	return (beat != 0 && beat <= now_us + PAGE_FUTURE_US &&
	    now_us <= beat + max);
}

/*
 * Read under a seqlock. Returns the seq of the contents of dst, or an odd number if the
 * read failed.
 */
static inline uint32_t
page_copy(const uint32_t *seq, void *dst, const void *base, size_t from,
    size_t to)
{
	const struct timespec pause = { 0, PAGE_PAUSE_NS };
	uint32_t s = 1;
	int i;

	for (i = 0; i < PAGE_TRIES; i++) {
		s = NP_LOAD(*seq);
		if ((s & 1) == 0) {
			memcpy((char *)dst + from, (const char *)base + from,
			    to - from);
			__atomic_thread_fence(__ATOMIC_ACQUIRE);
			if (__atomic_load_n(seq, __ATOMIC_RELAXED) == s)
				return (s);
		}
		if (i >= PAGE_SPINS)
			(void)nanosleep(&pause, NULL);
	}
	return (s | 1);
}

static inline uint32_t
page_copy_server(struct naproxy_server *dst, const struct naproxy_server *src)
{

	uint32_t s = 1;
	int i;

	/* It is in two places: both of one writing, or it is written just now. */
	for (i = 0; i < PAGE_TRIES; i++) {
		s = page_copy(&src->seq, dst, src,
		    offsetof(struct naproxy_server, id),
		    offsetof(struct naproxy_server, held_now));
		if ((s & 1) != 0 || page_copy(&src->seq, dst, src,
		    offsetof(struct naproxy_server, cookie),
		    offsetof(struct naproxy_server, visited_us)) == s)
			return (s);
	}
	return (s | 1);
}

#define PAGE_MAGIC_BYTES	(6 + 16 * 6)

/* The magic packet for a server, and where it goes; false: it has no MAC. */
static inline bool
page_magic_packet(const struct naproxy_server *conf,
    uint8_t packet[PAGE_MAGIC_BYTES], struct sockaddr_in *to)
{
	static const uint8_t none[6] = { 0 };
	unsigned u;

	if (!memcmp(conf->mac, none, sizeof none))
		return (false);
	memset(packet, 0xff, 6);
	for (u = 0; u < 16; u++)
		memcpy(packet + 6 + u * 6, conf->mac, 6);
	memset(to, 0, sizeof *to);
	to->sin_family = AF_INET;
	memcpy(&to->sin_addr, conf->wol_address, sizeof to->sin_addr);
	if (to->sin_addr.s_addr == INADDR_ANY)
		to->sin_addr.s_addr = htonl(INADDR_BROADCAST);
	to->sin_port = htons(conf->wol_port == 0 ? 9 : (uint16_t)conf->wol_port);
	return (true);
}

/*
 * Addresses, of family 4 or 6: `bytes` has 4 or 16.
 */

/* Private, loopback, link-local or unique-local: the office's own. */
static inline bool
page_own_address(unsigned family, const uint8_t *b)
{
	static const uint8_t loopback[16] = { [15] = 1 };

	if (family == 4)
		return (b[0] == 10 || b[0] == 127 ||
		    (b[0] == 172 && (b[1] & 0xf0) == 16) ||
		    (b[0] == 192 && b[1] == 168) ||
		    (b[0] == 169 && b[1] == 254));
	return (family == 6 && ((b[0] & 0xfe) == 0xfc ||
	    (b[0] == 0xfe && (b[1] & 0xc0) == 0x80) ||
	    !memcmp(b, loopback, sizeof loopback)));
}

/* FNV-1a, 64 bits; 0 begins. */
static inline uint64_t
page_hash(uint64_t hash, const void *data, size_t len)
{
	const uint8_t *p = data;

	if (hash == 0)
		hash = UINT64_C(0xcbf29ce484222325);
	while (len-- > 0) {
		hash ^= *p++;
		hash *= UINT64_C(0x100000001b3);
	}
	return (hash);
}

static inline uint64_t
page_place_hash(const char *kind, unsigned family, const uint8_t *bytes, size_t len)
{
	const uint8_t number = (uint8_t)family;
	uint64_t hash;

	hash = page_hash(page_hash(0, kind, strlen(kind)), &number, 1);
	hash = page_hash(hash, bytes, len);
	return (hash == 0 ? 1 : hash);
}

/* naproxy_event.address and .network. */
static inline uint64_t
page_address_hash(unsigned family, const uint8_t *bytes)
{

	return (page_place_hash("", family, bytes, family == 4 ? 4 : 8));
}

static inline uint64_t
page_network_hash(unsigned family, const uint8_t *bytes)
{

	return (page_place_hash("n", family, bytes, family == 4 ? 3 : 6));
}

#endif /* PAGE_READ_H_INCLUDED */
