/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What the program's files share. Each calls only those above it in this list:
 *
 *   watch.c       time, and what epoll tells of
 *   service.c     the page, and the services that it names
 *   wake.c        datagram and magic packet
 *   header.c      reads a PROXY v2 header, writes one of v1
 *   connection.c  holds a connection, joins it to the server's
 *   main.c        the loop
 *
 * One thread, no locks. Nothing here may block.
 */

#ifndef THROUGH_H_INCLUDED
#define THROUGH_H_INCLUDED

#include <sys/types.h>

#include <netinet/in.h>

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page_read.h"

#define AN(x)		assert((x) != 0)
#define AZ(x)		assert((x) == 0)

/* What epoll tells of: the first member of whatever waits for something. */
struct watch {
	enum { WATCH_SERVICE, WATCH_CLIENT, WATCH_SERVER } kind;
	int			fd;		/* -1: none */
	uint32_t		events;		/* what it waits for; 0: nothing */
};

/* Who a client is, empty if nobody says so. */
struct ends {
	char			client[INET6_ADDRSTRLEN];
	char			line[128];	/* PROXY, version 1 */
	struct in6_addr		from;		/* of IPv6, its /64 */
	uint64_t		address;	/* hashes, see naproxy_event; */
	uint64_t		network;	/* 0: no share limits it */
};

struct service {
	struct watch		watch;		/* its listening socket */
	struct service		*next;
	struct naproxy_service	conf;		/* configuration only */
	struct naproxy_server	server;		/* the same */
	struct naproxy_service	*live;		/* in the page; NULL: given up */
	const struct naproxy_server	*live_server;
	uint32_t		open;
	uint32_t		held;
	bool			deaf;		/* it could not listen */
	uint64_t		woken_us;
	uint64_t		answered_us;	/* it took a connection */
	uint64_t		silent_us;	/* it took none; 0: it has since */
};

/*--------------------------------------------------------------------
 * watch.c
 */

uint64_t monotonic_us(void);
void watch_open(void);
void watch_wait(int ms, void (*happened)(struct watch *));
void watch_set(struct watch *, uint32_t events);
void watch_close(struct watch *);

/*--------------------------------------------------------------------
 * service.c
 */

/* Look at the page: is it another one, are there other services? */
void services_look(void);
struct service *services(void);
/* Write the gauges. */
void services_tell(void);

bool service_trusted(const struct service *);
uint32_t service_state(const struct service *);
/* Since when it is in that state. */
uint64_t service_since(const struct service *);
/* Is it called awake? It may have fallen asleep by itself. */
bool service_awake(const struct service *);
/* Is it time to doubt that? Not if it has answered lately. */
bool service_quiet(const struct service *);
/* It took a connection; it took none. */
void service_answered(struct service *);
void service_unanswered(struct service *);
/* Is it called awake, and took no connection since? */
bool service_silent(const struct service *);
/* May a connection go to the server now? */
bool service_available(const struct service *);
/* Has this client used up its share there? Then it wakes nothing. */
bool service_spent(const struct service *, const struct ends *);
socklen_t service_target(const struct service *, struct sockaddr_storage *);
/* A counter of the page; what was given up counts no more. */
#define SERVICE_ADD(svc, counter, n) do {				\
	if ((svc)->live != NULL)					\
		(void)NP_ADD((svc)->live->counter, (n));		\
} while (0)

/*--------------------------------------------------------------------
 * wake.c
 */

#define WAKE_AGAIN_US	250000

void wake_open(void);
void wake(struct service *, const char *client);

/*--------------------------------------------------------------------
 * header.c
 */

#define HEADER_FIRST	16
#define HEADER_MOST	(HEADER_FIRST + 512)

/*
 * How many bytes the header has, of which `len` are there: more than that, go
 * on reading; 0, it is none.
 */
size_t header_wants(const uint8_t *, size_t len);

/* Of a whole header; of a connection that came to us directly. */
void header_ends(const uint8_t *, struct ends *);
void socket_ends(int fd, const struct sockaddr_storage *client, struct ends *);

/*--------------------------------------------------------------------
 * connection.c
 */

struct connection;

void connection_accept(struct service *);
void connection_event(struct watch *);
/* What is due by now. Returns in how many ms it wants to be called again. */
int connections_tick(void);
/* Free those that have ended. */
void connections_bury(void);

#endif /* THROUGH_H_INCLUDED */
