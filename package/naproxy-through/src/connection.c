/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A connection, from its client to the server:
 *
 *   HEADER       who it is comes first
 *   HELD         the server is not up
 *   CONNECTING   to the server, or waiting to try it again
 *   JOINED       what comes from one side goes to the other
 *
 * Bytes go through pipes in the kernel (splice). What a side sends is taken
 * when the last piece has gone on to the other, so nothing piles up here.
 */

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <netinet/tcp.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "through.h"

#define ACCEPT_AT_ONCE	16
#define HEADER_US	5000000
#define RETRY_US	250000
#define REACH_US	300000		/* as the VMOD's reach.c */
#define SETTLE_US	100000		/* a client that is gone by then wakes nothing */
#define QUIET_US	60000000	/* no reason to keep a server awake */
#define LOST_MS		10000		/* as the VMOD's watch.c */
#define UPLOAD_LEAST	16384		/* in a minute */
#define IDLE_US		UINT64_C(3600000000)
#define PIECE		65536
#define PIECES		16		/* then others have their turn */
#define FDS_EACH	6
#define FDS_OURS	64
#define WAITING_MS	25
#define JOINED_MS	250
#define NOTHING_MS	1000

struct side {
	struct watch		watch;
	struct connection	*c;
	int			pipe[2];	/* of what it sends */
	size_t			in_pipe;
	bool			ended;		/* it sends no more */
	bool			told;		/* the other side knows that */
};

struct connection {
	struct connection	*next;
	struct service		*svc;
	enum { HEADER, HELD, CONNECTING, JOINED, ENDED } state;
	struct side		client;
	struct side		server;
	bool			held;		/* was, or is */
	bool			patient;	/* tries again */
	bool			cut;		/* the server took not all */
	uint64_t		start_us;
	uint64_t		try_us;
	uint64_t		held_us;	/* since when; 0: never */
	uint64_t		active_us;
	uint64_t		used_us;	/* keeps the server awake */
	uint64_t		upload_us;	/* since when we count ... */
	uint64_t		upload;		/* ... what the client sends */
	struct ends		ends;
	size_t			head_len;
	uint8_t			head[HEADER_MOST];
};

static struct connection *all;
static unsigned number;
static bool any_ended;

/*--------------------------------------------------------------------
 * Its end
 */

static void
side_close(struct side *s)
{

	watch_close(&s->watch);
	if (s->pipe[0] < 0)
		return;
	AZ(close(s->pipe[0]));
	AZ(close(s->pipe[1]));
	s->pipe[0] = -1;
}

static void
not_held(struct connection *c)
{

	if (c->held && c->state != JOINED) {
		AN(c->svc->held);
		c->svc->held--;
	}
}

static void
connection_end(struct connection *c)
{

	not_held(c);
	side_close(&c->client);
	side_close(&c->server);
	AN(c->svc->open);
	c->svc->open--;
	c->state = ENDED;
	any_ended = true;
}

/* Something was cut off: both sides must see that, too. */
static void
connection_abort(struct connection *c)
{
	struct linger reset = { 1, 0 };

	/* A local socket has no such thing. */
	(void)setsockopt(c->client.watch.fd, SOL_SOCKET, SO_LINGER, &reset,
	    sizeof reset);
	if (c->server.watch.fd >= 0)
		(void)setsockopt(c->server.watch.fd, SOL_SOCKET, SO_LINGER,
		    &reset, sizeof reset);
	connection_end(c);
}

void
connections_bury(void)
{
	struct connection *c, **prev = &all;

	if (!any_ended)
		return;
	any_ended = false;
	while ((c = *prev) != NULL) {
		if (c->state != ENDED) {
			prev = &c->next;
			continue;
		}
		*prev = c->next;
		free(c);
		number--;
	}
}

/*--------------------------------------------------------------------
 * Joined
 */

static struct side *
other_side(struct side *s)
{

	return (s == &s->c->client ? &s->c->server : &s->c->client);
}

static bool
would_block(void)
{

	return (errno == EAGAIN || errno == EINTR);
}

/*
 * A client that only sends a byte now and then, and to whom the server has
 * nothing to say, does not use it; an upload does.
 */
static void
connection_used(struct connection *c, bool upload, uint64_t n)
{

	c->active_us = monotonic_us();
	if (upload) {
		if (c->active_us >= c->upload_us + QUIET_US) {
			c->upload_us = c->active_us;
			c->upload = 0;
		}
		c->upload += n;
		if (c->upload < UPLOAD_LEAST)
			return;
	}
	c->used_us = c->active_us;
}

/*
 * The server takes no more: it has reset the connection, perhaps because it
 * answered before it read all of an upload, or the client's own goodbye. Its
 * response is still to be read.
 */
static void
client_unread(struct connection *c)
{

	c->client.ended = c->client.told = true;
	c->client.in_pipe = 0;
	c->cut = true;
}

/* One piece from a side to the other. Returns -1: it failed; 0: not now. */
static int
side_piece(struct side *s)
{
	struct side *to = other_side(s);
	ssize_t n;

	if (s->in_pipe == 0 && !s->ended) {
		n = splice(s->watch.fd, NULL, s->pipe[1], NULL, PIECE,
		    SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
		if (n < 0)
			return (would_block() ? 0 : -1);
		if (n == 0)
			s->ended = true;
		s->in_pipe = (size_t)n;
	}
	if (s->in_pipe > 0) {
		n = splice(s->pipe[0], NULL, to->watch.fd, NULL, s->in_pipe,
		    SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
		if (n < 0 && would_block())
			return (0);
		if (n < 0 && s == &s->c->server)
			return (-1);
		if (n < 0) {
			client_unread(s->c);
			return (0);
		}
		s->in_pipe -= (size_t)n;
		connection_used(s->c, s == &s->c->client, (uint64_t)n);
		if (s == &s->c->client)
			SERVICE_ADD(s->c->svc, bytes_in, (uint64_t)n);
		else
			SERVICE_ADD(s->c->svc, bytes_out, (uint64_t)n);
		return (1);
	}
	if (!s->told) {
		s->told = true;
		(void)shutdown(to->watch.fd, SHUT_WR);
	}
	return (0);
}

static bool
side_pump(struct side *s)
{
	int i, more = 1;

	for (i = 0; more > 0 && i < PIECES; i++)
		more = side_piece(s);
	return (more >= 0);
}

static void
side_wait(struct side *s)
{
	uint32_t events = 0;

	if (s->in_pipe == 0 && !s->ended)
		events |= EPOLLIN;
	if (other_side(s)->in_pipe > 0)
		events |= EPOLLOUT;
	watch_set(&s->watch, events);
}

static void
connection_pump(struct connection *c)
{
	uint64_t before = c->used_us;

	if (!side_pump(&c->client) || !side_pump(&c->server)) {
		connection_abort(c);
		return;
	}
	if (c->used_us != before && c->svc->live != NULL)
		NP_STORE(c->svc->live->last_active_us, c->used_us);
	if (c->client.told && c->server.told) {
		if (c->cut)
			connection_abort(c);
		else
			connection_end(c);
		return;
	}
	side_wait(&c->client);
	side_wait(&c->server);
}

static void
set_option(int fd, int level, int name, int value)
{

	/* Local sockets have none of these. */
	(void)setsockopt(fd, level, name, &value, sizeof value);
}

/*
 * A client may be out of reach for a while. A server in the office is not: one
 * that lost its network or its power is gone within seconds.
 */
static void
side_tune(const struct side *s)
{
	bool client = s == &s->c->client;

	set_option(s->watch.fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(s->watch.fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(s->watch.fd, IPPROTO_TCP, TCP_KEEPIDLE, client ? 120 : 4);
	set_option(s->watch.fd, IPPROTO_TCP, TCP_KEEPINTVL, client ? 15 : 2);
	set_option(s->watch.fd, IPPROTO_TCP, TCP_KEEPCNT, client ? 4 : 3);
}

/* The first bytes on a new connection: there is room for them. */
static bool
server_told(const struct connection *c)
{
	const char *line = c->ends.line;

	if (!(c->svc->server.flags & NAPROXY_F_PROXY))
		return (true);
	if (line[0] == '\0')
		line = "PROXY UNKNOWN\r\n";
	return (send(c->server.watch.fd, line, strlen(line), MSG_NOSIGNAL) ==
	    (ssize_t)strlen(line));
}

static void
connection_join(struct connection *c)
{

	if (!server_told(c) ||
	    pipe2(c->client.pipe, O_NONBLOCK | O_CLOEXEC) != 0 ||
	    pipe2(c->server.pipe, O_NONBLOCK | O_CLOEXEC) != 0) {
		SERVICE_ADD(c->svc, failed, 1);
		connection_abort(c);
		return;
	}
	side_tune(&c->client);
	side_tune(&c->server);
	not_held(c);
	c->state = JOINED;
	c->active_us = monotonic_us();
	service_answered(c->svc);
	if (c->held) {
		SERVICE_ADD(c->svc, held, 1);
		SERVICE_ADD(c->svc, held_ms,
		    (c->active_us - c->start_us) / 1000);
	} else
		SERVICE_ADD(c->svc, passed, 1);
	connection_pump(c);
}

/*--------------------------------------------------------------------
 * Held
 */

static bool
waits(const struct connection *c)
{

	return (c->held && c->state != JOINED && c->state != ENDED);
}

/*
 * May one more of this client be open, or wait? As many as are still free, as
 * the VMOD has it (clients.c): one client alone gets half of them, and whoever
 * comes new finds some.
 */
static bool
fair(const struct connection *c, bool waiting, uint32_t others, uint32_t most)
{
	const struct connection *o;
	uint32_t same = 0;

	if (others >= most)
		return (false);
	for (o = all; o != NULL; o = o->next)
		if (o != c && o->svc == c->svc && o->state != ENDED &&
		    (!waiting || waits(o)) && !memcmp(&o->ends.from,
		    &c->ends.from, sizeof c->ends.from))
			same++;
	return (same < most - others);
}

static void
connection_wake(struct connection *c)
{

	if (!service_spent(c->svc, &c->ends))
		wake(c->svc, c->ends.client);
}

/* The wake comes at the next tick after it has settled. */
static void
connection_hold(struct connection *c)
{
	bool room;

	room = fair(c, true, c->svc->held, c->svc->conf.most_held);
	if (!room)
		/* The client will come again. */
		connection_wake(c);
	if (!room || service_spent(c->svc, &c->ends)) {
		SERVICE_ADD(c->svc, refused, 1);
		connection_abort(c);
		return;
	}
	c->held_us = monotonic_us();
	c->state = HELD;
	c->held = c->patient = true;
	c->svc->held++;
	/*
	 * It may send, or say that it sends no more: that is for the server to
	 * read. Only that it is gone ends the wait.
	 */
	watch_set(&c->client.watch, EPOLLHUP);
}

/*--------------------------------------------------------------------
 * To the server
 */

static bool
out_of_time(const struct connection *c)
{

	return (monotonic_us() >= c->start_us +
	    c->svc->conf.hold_limit_ms * UINT64_C(1000));
}

static void
server_failed(struct connection *c)
{

	watch_close(&c->server.watch);
	connection_wake(c);
	if (c->patient && !out_of_time(c)) {
		c->try_us = monotonic_us() + RETRY_US;
		return;
	}
	SERVICE_ADD(c->svc, failed, 1);
	connection_abort(c);
}

/*
 * No answer. A server that is called awake may have fallen asleep by itself:
 * then it wakes, and this one waits for it like those that found it asleep.
 */
static void
server_unanswered(struct connection *c)
{

	if (!service_awake(c->svc)) {
		server_failed(c);
		return;
	}
	watch_close(&c->server.watch);
	service_unanswered(c->svc);
	if (c->held)
		connection_wake(c);
	else
		connection_hold(c);
	if (c->state == ENDED)
		return;
	c->state = CONNECTING;
	c->try_us = monotonic_us() + RETRY_US;
}

/* Who refuses a connection is there. */
static void
server_problem(struct connection *c, int problem)
{

	switch (problem) {
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EHOSTDOWN:
	case ENETDOWN:
		server_unanswered(c);
		break;
	default:
		server_failed(c);
		break;
	}
}

static void
server_connect(struct connection *c)
{
	struct sockaddr_storage ss;
	socklen_t len;

	c->state = CONNECTING;
	c->try_us = monotonic_us();
	len = service_target(c->svc, &ss);
	c->server.watch.fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC |
	    SOCK_NONBLOCK, 0);
	if (c->server.watch.fd < 0)
		server_failed(c);
	else if (connect(c->server.watch.fd, (struct sockaddr *)&ss, len) == 0)
		connection_join(c);
	else if (errno == EINPROGRESS)
		watch_set(&c->server.watch, EPOLLOUT);
	else
		server_problem(c, errno);
}

static void
server_connected(struct connection *c)
{
	socklen_t len = sizeof (int);
	int problem;

	AZ(getsockopt(c->server.watch.fd, SOL_SOCKET, SO_ERROR, &problem,
	    &len));
	if (problem != 0)
		server_problem(c, problem);
	else
		connection_join(c);
}

static void
connection_go(struct connection *c)
{

	if (!service_available(c->svc)) {
		if (c->held)
			c->state = HELD;
		else
			connection_hold(c);
		return;
	}
	if (!service_trusted(c->svc)) {
		c->patient = true;
		connection_wake(c);
	} else if (service_since(c->svc) + c->svc->conf.hold_limit_ms *
	    UINT64_C(1000) > monotonic_us())
		c->patient = true;	/* not all of it may be up yet */
	server_connect(c);
}

/*--------------------------------------------------------------------
 * Its beginning
 */

static void
connection_known(struct connection *c)
{

	SERVICE_ADD(c->svc, accepted, 1);
	watch_set(&c->client.watch, 0);
	if (!fair(c, false, c->svc->open - 1, c->svc->conf.most_open)) {
		SERVICE_ADD(c->svc, refused, 1);
		connection_abort(c);
		return;
	}
	connection_go(c);
}

static void
connection_header(struct connection *c)
{
	size_t wants;
	ssize_t n;

	while ((wants = header_wants(c->head, c->head_len)) > c->head_len) {
		n = recv(c->client.watch.fd, c->head + c->head_len,
		    wants - c->head_len, 0);
		if (n < 0 && would_block())
			return;
		if (n <= 0) {
			connection_abort(c);
			return;
		}
		c->head_len += (size_t)n;
	}
	if (wants == 0) {
		connection_abort(c);
		return;
	}
	header_ends(c->head, &c->ends);
	connection_known(c);
}

/* Each has two sockets and two pipes; none must be short of one later. */
static bool
has_room(void)
{
	static unsigned most;
	struct rlimit files;

	if (most == 0) {
		AZ(getrlimit(RLIMIT_NOFILE, &files));
		most = 1;
		if (files.rlim_cur > FDS_OURS + FDS_EACH)
			most = (unsigned)((files.rlim_cur - FDS_OURS) /
			    FDS_EACH);
	}
	return (number < most);
}

static void
side_begin(struct side *s, struct connection *c, int fd)
{

	s->watch.kind = s == &c->client ? WATCH_CLIENT : WATCH_SERVER;
	s->watch.fd = fd;
	s->c = c;
	s->pipe[0] = s->pipe[1] = -1;
}

static void
connection_begin(struct service *svc, int fd, const struct sockaddr_storage *ss)
{
	struct connection *c;

	c = calloc(1, sizeof *c);
	if (c == NULL)
		err(1, "calloc");
	side_begin(&c->client, c, fd);
	side_begin(&c->server, c, -1);
	c->svc = svc;
	c->start_us = monotonic_us();
	c->next = all;
	all = c;
	number++;
	svc->open++;
	if (svc->conf.listen == NAPROXY_LISTEN_EDGE) {
		watch_set(&c->client.watch, EPOLLIN);
		return;
	}
	socket_ends(fd, ss, &c->ends);
	connection_known(c);
}

void
connection_accept(struct service *svc)
{
	struct sockaddr_storage ss;
	socklen_t len;
	int fd, i;

	for (i = 0; i < ACCEPT_AT_ONCE; i++) {
		len = sizeof ss;
		memset(&ss, 0, sizeof ss);
		fd = accept4(svc->watch.fd, (struct sockaddr *)&ss, &len,
		    SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			/* No more of something: services_look() tries again. */
			if (!would_block() && errno != ECONNABORTED)
				watch_set(&svc->watch, 0);
			return;
		}
		if (has_room())
			connection_begin(svc, fd, &ss);
		else {
			SERVICE_ADD(svc, accepted, 1);
			SERVICE_ADD(svc, refused, 1);
			AZ(close(fd));
		}
	}
}

/*--------------------------------------------------------------------
 * What happens to it
 */

void
connection_event(struct watch *w)
{
	struct connection *c = ((struct side *)w)->c;

	switch (c->state) {
	case HEADER:
		connection_header(c);
		break;
	case HELD:
	case CONNECTING:
		if (w->kind == WATCH_SERVER)
			server_connected(c);
		else {
			SERVICE_ADD(c->svc, gone, 1);
			connection_abort(c);
		}
		break;
	case JOINED:
		/* Also after an error: bytes that came before it are still there. */
		connection_pump(c);
		break;
	case ENDED:
		break;
	}
}

static void
tick_waiting(struct connection *c)
{
	uint64_t now = monotonic_us();

	if (out_of_time(c) && c->patient && c->server.watch.fd < 0) {
		SERVICE_ADD(c->svc, limit, 1);
		connection_abort(c);
	} else if (c->state == HELD) {
		if (service_available(c->svc))
			connection_go(c);
		else if (service_state(c->svc) == NAPROXY_ASLEEP &&
		    service_spent(c->svc, &c->ends)) {
			/* Nobody wakes it for this client. */
			SERVICE_ADD(c->svc, refused, 1);
			connection_abort(c);
		} else if (now >= c->held_us + SETTLE_US &&
		    now >= c->svc->woken_us + WAKE_AGAIN_US)
			connection_wake(c);
	} else if (c->server.watch.fd < 0) {
		if (now >= c->try_us)
			connection_go(c);
	} else if (now >= c->try_us +
	    c->svc->server.connect_timeout_ms * UINT64_C(1000) ||
	    (now >= c->try_us + REACH_US && service_quiet(c->svc)))
		server_unanswered(c);
}

/* Has nobody acknowledged what was sent? The kernel probes only where nothing is. */
static bool
server_lost(const struct connection *c)
{
	struct tcp_info info;
	socklen_t len = sizeof info;

	memset(&info, 0, sizeof info);
	return (getsockopt(c->server.watch.fd, IPPROTO_TCP, TCP_INFO, &info,
	    &len) == 0 && info.tcpi_unacked > 0 &&
	    info.tcpi_last_ack_recv >= LOST_MS);
}

/*
 * A server that sleeps forgets nothing, but whoever goes on talking to it would
 * not wake it. Those who come anew do.
 */
static void
tick_joined(struct connection *c)
{
	uint64_t quiet_us = monotonic_us() - c->active_us;
	uint32_t state = service_state(c->svc);

	if (quiet_us >= IDLE_US)
		connection_end(c);
	else if (quiet_us >= LOST_MS * 1000 && quiet_us < QUIET_US &&
	    server_lost(c))
		connection_abort(c);
	else if (!service_trusted(c->svc))
		return;
	else if (state == NAPROXY_ASLEEP)
		connection_abort(c);
	else if (state == NAPROXY_FALLING_ASLEEP && quiet_us >= QUIET_US)
		connection_end(c);
}

int
connections_tick(void)
{
	static uint64_t last;
	struct connection *c;
	int wait_ms = NOTHING_MS;

	if (monotonic_us() < last + WAITING_MS * 1000)
		return (WAITING_MS);
	last = monotonic_us();
	for (c = all; c != NULL; c = c->next) {
		if (c->state == HEADER) {
			if (monotonic_us() >= c->start_us + HEADER_US)
				connection_abort(c);
		} else if (c->state == JOINED)
			tick_joined(c);
		else if (c->state != ENDED)
			tick_waiting(c);
		if (c->state == JOINED && wait_ms > JOINED_MS)
			wait_ms = JOINED_MS;
		else if (c->state != JOINED && c->state != ENDED)
			wait_ms = WAITING_MS;
	}
	return (wait_ms);
}
