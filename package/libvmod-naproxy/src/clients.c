/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Who has requests in flight, and how many there may be. A request that may
 * keep a thread for as long as its client likes, or that uses a server, is
 * admitted first and leaves when its task ends.
 *
 * An address may have as many in flight as are still free: one alone gets
 * half of all, two get a third each, and a newcomer always finds some. So
 * nobody has to say how many are fair (dynamic thresholds, Choudhury and Hahne
 * 1998). Those that wait for a sleeping server get three quarters of all at
 * most, so that awake servers keep threads.
 *
 * The table is ours, under one mutex; the page has a copy.
 */

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <linux/sockios.h>

#include <string.h>
#include <unistd.h>

#if __has_include("cache/cache_vinyld.h")
#  include "cache/cache_vinyld.h"
#else
#  include "cache/cache_varnishd.h"
#endif

#include "naproxy.h"

/* The bytes that any client's socket takes at once, even if the client does not read. */
#define CLIENTS_FITS		16384

/* Threads that are for those who need no admission: hits, heads. */
#define CLIENTS_SPARE		20

/*
 * The most requests in flight on a machine with 512 MB, and with more. The limit is
 * their threads' memory.
 */
#define CLIENTS_SMALL		400
#define CLIENTS_LARGE		680
#define CLIENTS_LARGE_MB	900
#define CLIENTS_MOST		1000

/* How long an upload may pause: a phone in a train. */
#define CLIENTS_PAUSE_S		30

/* How many of a client's requests use a server. */
struct np_uses {
	unsigned		people;
	unsigned		robots;
	unsigned		programs;
	unsigned		exempt;	/* of people and programs, those of E_OWN */
};

struct np_client {
	uint64_t		address;
	uint64_t		network;
	unsigned		n;	/* in flight; 0: unused */
	unsigned		own;	/* of these, those of E_OWN */
	struct np_uses		uses[NAPROXY_SERVERS];
	VTAILQ_HEAD(, np_record)	records;
};

static pthread_mutex_t clients_mtx = PTHREAD_MUTEX_INITIALIZER;

/* All under clients_mtx. */
static struct np_client clients[NAPROXY_CLIENTS];
static unsigned clients_end;		/* those in use are before this one */
static unsigned clients_most;
static unsigned clients_total;
static unsigned clients_waiting;
static struct naproxy_page *clients_page;

/*--------------------------------------------------------------------
 * The copy in the page
 */

static uint8_t
clients_most_255(unsigned n)
{

	return (n < UINT8_MAX ? (uint8_t)n : UINT8_MAX);
}

static void
clients_copy(const struct np_client *c)
{
	struct naproxy_client *p;
	const struct np_uses *u;
	uint8_t exempt = 0;
	unsigned i;

	if (clients_page == NULL)
		return;
	p = &clients_page->client[c - clients];
	/* Nobody takes one client's numbers for another's. */
	if (NP_LOAD(p->address) != c->address)
		NP_STORE(p->in_flight, 0);
	NP_STORE(p->address, c->address);
	NP_STORE(p->network, c->network);
	/* A rule may name one request, and not who sends it. */
	NP_STORE(p->own, (uint8_t)(c->own == c->n));
	for (i = 0; i < NAPROXY_SERVERS; i++) {
		u = &c->uses[i];
		if (u->exempt > 0)
			exempt |= (uint8_t)(1U << i);
		NP_STORE(p->people[i], clients_most_255(u->people));
		NP_STORE(p->robots[i], clients_most_255(u->robots));
		NP_STORE(p->programs[i], clients_most_255(u->programs));
	}
	NP_STORE(p->exempt, exempt);
	NP_STORE(p->in_flight, (uint16_t)c->n);
}

/* As it was counted before, or from now on. */
static void
clients_count(struct np_client *c, const struct np_counted_as *as, bool add)
{
	struct np_uses *u;
	unsigned by = add ? 1 : -1U;

	if (as->own)
		c->own += by;
	if (as->place == 0)
		return;
	u = &c->uses[as->place - 1];
	if (np_robot(as->klass))
		u->robots += by;
	else if (as->klass == NAPROXY_PERSON)
		u->people += by;
	else
		u->programs += by;
	if (as->own && !np_robot(as->klass))
		u->exempt += by;
}

/*
 * Count the request by its present class and server. Keep the server's place with the
 * request, because another page may have the server in another place.
 */
static void
clients_recount(struct np_client *c, struct np_record *rec)
{
	const struct np_server *srv;

	clients_count(c, &rec->counted_as, false);
	memset(&rec->counted_as, 0, sizeof rec->counted_as);
	rec->counted_as.own = (rec->flags & NAPROXY_E_OWN) != 0;
	rec->counted_as.klass = rec->klass;
	if (rec->uses) {
		srv = rec->site->server;
		if (NP_LOAD(srv->live) != NULL)
			rec->counted_as.place = (uint8_t)(srv->index + 1);
	}
	clients_count(c, &rec->counted_as, true);
}

/* The copy is in this page from now on, and its servers have these places. */
void
np_clients_attach(struct naproxy_page *page)
{
	struct np_client *c;
	struct np_record *rec;

	AZ(pthread_mutex_lock(&clients_mtx));
	if (page != clients_page && page != NULL)
		memset(page->client, 0, sizeof page->client);
	clients_page = page;
	for (c = clients; c < clients + clients_end; c++) {
		if (c->n == 0)
			continue;
		VTAILQ_FOREACH(rec, &c->records, in_flight)
			clients_recount(c, rec);
		clients_copy(c);
	}
	AZ(pthread_mutex_unlock(&clients_mtx));
}

/*--------------------------------------------------------------------
 * Admission
 */

static intmax_t
clients_room(void)
{
	intmax_t mb;

	mb = (intmax_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) >> 20;
	return (mb < CLIENTS_LARGE_MB ? CLIENTS_SMALL : CLIENTS_LARGE);
}

/* As many as this can be had, 0: as there is memory for; else the reason why not. */
const char *
np_clients_most(intmax_t most)
{

	if (most == 0)
		most = clients_room();
	if (most < 1 || most > CLIENTS_MOST)
		return ("not a number of requests from 1 to 1000");
	/* A fetch takes two threads: the client's and its own. */
	if ((unsigned)most * 2 + CLIENTS_SPARE >
	    cache_param->wthread_max * cache_param->wthread_pools)
		return ("more than half of thread_pool_max");
	AZ(pthread_mutex_lock(&clients_mtx));
	clients_most = (unsigned)most;
	AZ(pthread_mutex_unlock(&clients_mtx));
	return (NULL);
}

unsigned
np_clients_half(void)
{

	return (NP_LOAD(clients_most) / 2);
}

/* Under clients_mtx: where this one is, or will be; past the end: nowhere. */
static struct np_client *
clients_find(uint64_t address)
{
	struct np_client *c, *unused = NULL;

	for (c = clients; c < clients + clients_end; c++) {
		if (c->n > 0 && c->address == address)
			return (c);
		if (c->n == 0 && unused == NULL)
			unused = c;
	}
	return (unused == NULL ? c : unused);
}

/* Under clients_mtx, as the next. */
static void
clients_enter(struct np_client *c, struct np_record *rec)
{

	assert(c < clients + NAPROXY_CLIENTS);
	if (c->n == 0) {
		memset(c, 0, sizeof *c);
		VTAILQ_INIT(&c->records);
		c->address = rec->address;
		c->network = rec->network;
		if (c == clients + clients_end)
			clients_end++;
	}
	c->n++;
	clients_total++;
	VTAILQ_INSERT_HEAD(&c->records, rec, in_flight);
	rec->admitted = c;
}

static void
clients_leave(struct np_record *rec)
{
	struct np_client *c = rec->admitted;

	assert(c->n > 0 && clients_total > 0);
	VTAILQ_REMOVE(&c->records, rec, in_flight);
	rec->admitted = NULL;
	clients_count(c, &rec->counted_as, false);
	memset(&rec->counted_as, 0, sizeof rec->counted_as);
	c->n--;
	clients_total--;
	if (c->n == 0)
		c->address = 0;
	clients_copy(c);
	while (clients_end > 0 && clients[clients_end - 1].n == 0)
		clients_end--;
}

/* May it go on? If so, it is in flight, and uses its server if it says so. */
bool
np_clients_admit(struct np_record *rec, bool uses)
{
	struct np_client *c;
	bool ok = true;

	CHECK_OBJ_NOTNULL(rec, NP_RECORD_MAGIC);
	uses = uses && rec->site != NULL;
	AZ(pthread_mutex_lock(&clients_mtx));
	if (rec->admitted == NULL) {
		c = clients_find(rec->address);
		ok = c < clients + NAPROXY_CLIENTS &&
		    c->n < clients_most - clients_total;
		if (ok)
			clients_enter(c, rec);
	}
	if (ok) {
		rec->uses = rec->uses || uses;
		clients_recount(rec->admitted, rec);
		clients_copy(rec->admitted);
	}
	AZ(pthread_mutex_unlock(&clients_mtx));
	return (ok);
}

void
np_clients_leave(struct np_record *rec)
{

	CHECK_OBJ_NOTNULL(rec, NP_RECORD_MAGIC);
	if (rec->admitted == NULL)
		return;
	AZ(pthread_mutex_lock(&clients_mtx));
	clients_leave(rec);
	AZ(pthread_mutex_unlock(&clients_mtx));
}

/* May one more wait for its server? */
bool
np_clients_wait(void)
{
	bool ok;

	AZ(pthread_mutex_lock(&clients_mtx));
	ok = clients_waiting < clients_most - clients_most / 4;
	if (ok)
		clients_waiting++;
	AZ(pthread_mutex_unlock(&clients_mtx));
	return (ok);
}

void
np_clients_waited(void)
{

	AZ(pthread_mutex_lock(&clients_mtx));
	assert(clients_waiting > 0);
	clients_waiting--;
	AZ(pthread_mutex_unlock(&clients_mtx));
}

/*--------------------------------------------------------------------
 * Sockets
 */

/*
 * Will the socket take so many bytes at once? Not if this client has not read
 * what was sent before. A thread remembers what it wrote to the connection it
 * had last, so that it need not ask the kernel for each small answer.
 */
bool
np_clients_fits(const struct sess *sp, uint64_t bytes)
{
	static __thread struct {
		uint64_t	session;
		uint64_t	bytes;
	} last;
	uint64_t session;
	int queued;

	CHECK_OBJ_NOTNULL(sp, SESS_MAGIC);
	if (sp->fd < 0)
		return (true);
	if (bytes > CLIENTS_FITS)
		return (false);
	session = VXID(sp->vxid);
	if (last.session != session || last.bytes + bytes > CLIENTS_FITS) {
		last.session = session;
		last.bytes = 0;
		if (ioctl(sp->fd, SIOCOUTQ, &queued) == 0 && queued > 0)
			last.bytes = (uint64_t)queued;
	}
	if (last.bytes + bytes > CLIENTS_FITS) {
		last.session = 0;
		return (false);
	}
	last.bytes += bytes;
	return (true);
}

/* Is all that the client has to send here? Then nobody waits for it. */
bool
np_clients_sent(const struct req *req)
{
	const struct http_conn *htc = req->htc;
	int queued;

	CHECK_OBJ_NOTNULL(req, REQ_MAGIC);
	if (req->req_body_status->avail <= 0 || req->sp->fd < 0)
		return (true);
	CHECK_OBJ_NOTNULL(htc, HTTP_CONN_MAGIC);
	if (req->req_body_status != BS_LENGTH ||
	    ioctl(req->sp->fd, FIONREAD, &queued) != 0)
		return (false);
	if (htc->pipeline_b != NULL)
		queued += (int)(htc->pipeline_e - htc->pipeline_b);
	return (queued >= htc->content_length);
}

/*
 * A connection that is in flight. Varnish ends it when its client has read nothing
 * for idle_send_timeout. (Varnish alone would wait for send_timeout, and would also
 * end clients that read.) Uploads may pause for longer than a connection may be idle.
 */
void
np_clients_patience(const struct sess *sp)
{
	struct timeval tv = { CLIENTS_PAUSE_S, 0 };
	socklen_t len = sizeof tv;
	unsigned ms;

	CHECK_OBJ_NOTNULL(sp, SESS_MAGIC);
	if (sp->fd < 0)
		return;
	/* If this fails, the old timeout stays. */
	(void)setsockopt(sp->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	if (getsockopt(sp->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, &len) != 0)
		return;
	ms = (unsigned)tv.tv_sec * 1000 + (unsigned)tv.tv_usec / 1000;
	(void)setsockopt(sp->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

/* He does not read: an answer would only wait for him. */
void
np_clients_hang_up(const struct sess *sp)
{

	CHECK_OBJ_NOTNULL(sp, SESS_MAGIC);
	if (sp->fd >= 0)
		(void)shutdown(sp->fd, SHUT_RDWR);
}
