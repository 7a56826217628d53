/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Connections that last. A thread looks at them each second, as long as there
 * are requests at a server.
 *
 * A server that lost its network or its power says nothing, and Varnish would
 * wait as long as for a slow response. So each connection to a server gets the
 * kernel's keepalive, and one whose data nobody acknowledges is ended. Varnish
 * makes these connections itself and shows us none before it has a response:
 * they are found among the process's sockets by whom they lead to.
 *
 * A pipe that is silent for as long as the office says ends. Varnish knows one
 * time for all servers. Behind the listener `edge` haproxy does it, whose
 * connection to us has no clock.
 */

#include <sys/socket.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache.h"

#include "naproxy.h"

#define WATCH_S		1
/* 10 s without a sign: 4, and three probes. */
#define WATCH_IDLE_S	4
#define WATCH_PROBE_S	2
#define WATCH_PROBES	3
#define WATCH_LOST_MS	10000

static pthread_mutex_t watch_mtx = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t watch_end;
static pthread_t watch_thread;
static bool watch_runs;			/* under watch_mtx, as the next */
static VTAILQ_HEAD(, np_pipe) watch_pipes =
    VTAILQ_HEAD_INITIALIZER(watch_pipes);
static unsigned watch_n;		/* atomic: requests at servers */

/*--------------------------------------------------------------------
 * Servers' connections
 */

void
np_watch_begin(void)
{

	(void)NP_ADD(watch_n, 1);
}

void
np_watch_done(void)
{

	(void)__atomic_sub_fetch(&watch_n, 1, __ATOMIC_RELAXED);
}

static bool
watch_is(const struct sockaddr_storage *ss, const struct naproxy_server *conf)
{
	const struct sockaddr_in6 *sin6 = (const void *)ss;
	const struct sockaddr_in *sin = (const void *)ss;

	if (conf->flags & NAPROXY_F_TLS)
		return (false);
	if (ss->ss_family == AF_INET)
		return (conf->family == 4 && sin->sin_port == htons(conf->port) &&
		    !memcmp(&sin->sin_addr, conf->address,
		    sizeof sin->sin_addr));
	return (ss->ss_family == AF_INET6 && conf->family == 6 &&
	    sin6->sin6_port == htons(conf->port) &&
	    !memcmp(&sin6->sin6_addr, conf->address, sizeof sin6->sin6_addr));
}

static bool
watch_leads(int fd, const struct np_snap *snap)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	unsigned u;

	memset(&ss, 0, sizeof ss);
	if (getpeername(fd, (struct sockaddr *)&ss, &len) != 0)
		return (false);
	for (u = 0; u < NAPROXY_SERVERS; u++)
		if (snap->site[u].server != NULL &&
		    watch_is(&ss, &snap->site[u].conf))
			return (true);
	return (false);
}

static void
watch_set(int fd, int name, int value)
{

	(void)setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value);
}

static void
watch_server(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof info;
	int on = 1;

	watch_set(fd, TCP_KEEPIDLE, WATCH_IDLE_S);
	watch_set(fd, TCP_KEEPINTVL, WATCH_PROBE_S);
	watch_set(fd, TCP_KEEPCNT, WATCH_PROBES);
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	/* The kernel probes only where nothing is on its way. */
	memset(&info, 0, sizeof info);
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
	    info.tcpi_unacked > 0 && info.tcpi_last_ack_recv >= WATCH_LOST_MS)
		(void)shutdown(fd, SHUT_RDWR);
}

/* By a copy: its number may be another's the next moment. */
static void
watch_socket(int number, const struct np_snap *snap)
{
	int fd;

	if (!watch_leads(number, snap))
		return;
	fd = dup(number);
	if (fd < 0)
		return;
	if (watch_leads(fd, snap))
		watch_server(fd);
	closefd(&fd);
}

static void
watch_servers(void)
{
	const struct dirent *entry;
	struct np_ref ref;
	DIR *dir;

	dir = opendir("/proc/self/fd");
	if (dir == NULL)
		return;
	np_page_snap(&ref);
	while (ref.snap != NULL && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			watch_socket(atoi(entry->d_name), ref.snap);
	np_snap_release(&ref);
	AZ(closedir(dir));
}

/*--------------------------------------------------------------------
 * Pipes
 */

/* As long as its client's connection is open. */
void
np_pipe_begin(struct np_pipe *pipe, int fd, const struct np_site *site)
{

	INIT_OBJ(pipe, NP_PIPE_MAGIC);
	pipe->fd = fd;
	pipe->idle_us = np_silent_most_us(site == NULL ? 0 :
	    site->conf.pipe_idle_ms);
	np_watch_begin();
	np_silent_begin();
	AZ(pthread_mutex_lock(&watch_mtx));
	VTAILQ_INSERT_HEAD(&watch_pipes, pipe, list);
	AZ(pthread_mutex_unlock(&watch_mtx));
}

void
np_pipe_end(struct np_pipe *pipe)
{

	CHECK_OBJ_NOTNULL(pipe, NP_PIPE_MAGIC);
	AZ(pthread_mutex_lock(&watch_mtx));
	VTAILQ_REMOVE(&watch_pipes, pipe, list);
	AZ(pthread_mutex_unlock(&watch_mtx));
	if (!pipe->over)
		np_silent_end();
	np_watch_done();
}

static void
watch_pipe(struct np_pipe *pipe)
{
	struct tcp_info info;
	socklen_t len = sizeof info;
	uint64_t silent_us;

	memset(&info, 0, sizeof info);
	if (getsockopt(pipe->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
		return;
	silent_us = 1000 * (uint64_t)(info.tcpi_last_data_recv <
	    info.tcpi_last_data_sent ? info.tcpi_last_data_recv :
	    info.tcpi_last_data_sent);
	if (np_silent_over(silent_us))
		pipe->over = true;
	if (pipe->over || silent_us >= pipe->idle_us)
		(void)shutdown(pipe->fd, SHUT_RDWR);
}

/*--------------------------------------------------------------------
 * The thread
 */

static void *
watch_loop(void *priv)
{
	struct timespec ts;
	struct np_pipe *pipe;

	(void)priv;
	(void)pthread_setname_np(pthread_self(), "naproxy-watch");
	AZ(pthread_mutex_lock(&watch_mtx));
	while (watch_runs) {
		AZ(clock_gettime(CLOCK_MONOTONIC, &ts));
		ts.tv_sec += WATCH_S;
		(void)pthread_cond_timedwait(&watch_end, &watch_mtx, &ts);
		VTAILQ_FOREACH(pipe, &watch_pipes, list)
			if (!pipe->over)
				watch_pipe(pipe);
		AZ(pthread_mutex_unlock(&watch_mtx));
		if (NP_LOAD(watch_n) > 0)
			watch_servers();
		AZ(pthread_mutex_lock(&watch_mtx));
	}
	AZ(pthread_mutex_unlock(&watch_mtx));
	return (NULL);
}

void
np_watch_start(void)
{
	pthread_condattr_t attr;

	AZ(pthread_condattr_init(&attr));
	AZ(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	AZ(pthread_cond_init(&watch_end, &attr));
	AZ(pthread_condattr_destroy(&attr));
	watch_runs = true;
	AZ(pthread_create(&watch_thread, NULL, watch_loop, NULL));
}

void
np_watch_stop(void)
{

	AZ(pthread_mutex_lock(&watch_mtx));
	watch_runs = false;
	AZ(pthread_cond_signal(&watch_end));
	AZ(pthread_mutex_unlock(&watch_mtx));
	AZ(pthread_join(watch_thread, NULL));
	AZ(pthread_cond_destroy(&watch_end));
}
