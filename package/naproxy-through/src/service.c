/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The page, and the services that it names. What is wrong with a page is said,
 * and we go on by the last good one: its heartbeat ages, so nobody is held.
 */

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "through.h"

#define BACKLOG		1024
#define SILENT_AGAIN_US	UINT64_C(60000000)
#define SOCKETS		"edge/jail/through"

static struct service *all;
static struct naproxy_page *page;
static struct stat page_stat;
static char complaint[128];		/* the last, not to repeat it */

struct service *
services(void)
{

	return (all);
}

/* It is looked at every second. */
static void
complain(const char *problem)
{

	if (!strcmp(problem, complaint))
		return;
	(void)snprintf(complaint, sizeof complaint, "%s", problem);
	warnx("page: %s", problem);
}

/*--------------------------------------------------------------------
 * The page
 */

static struct naproxy_page *
page_open(void)
{
	struct naproxy_page *p = NULL;
	const char *problem = NULL;
	struct stat st;
	void *map;
	int fd;

	fd = open("page", O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) != 0) {
		problem = strerror(errno);
	} else if (!S_ISREG(st.st_mode) || st.st_size != sizeof *p) {
		problem = "wrong size";
	} else {
		map = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED,
		    fd, 0);
		if (map == MAP_FAILED)
			problem = strerror(errno);
		else
			p = map;
	}
	if (fd >= 0)
		(void)close(fd);
	if (p != NULL) {
		problem = page_header_problem(p);
		if (problem != NULL) {
			AZ(munmap(p, sizeof *p));
			p = NULL;
		}
	}
	if (problem != NULL)
		complain(problem);
	else
		page_stat = st;
	return (p);
}

/* Nobody keeps what points into the old one: see services_look(). */
static void
page_look(void)
{
	struct naproxy_page *p;
	struct stat st;
	unsigned u;

	if (page != NULL && (stat("page", &st) != 0 ||
	    (st.st_ino == page_stat.st_ino && st.st_dev == page_stat.st_dev)))
		return;
	p = page_open();
	if (p == NULL)
		return;
	if (page != NULL)
		AZ(munmap(page, sizeof *page));
	page = p;
	complaint[0] = '\0';
	for (u = 0; u < NAPROXY_SERVICES; u++) {
		NP_STORE(page->service[u].open_now, 0);
		NP_STORE(page->service[u].held_now, 0);
	}
}

/*--------------------------------------------------------------------
 * Listening
 */

static socklen_t
address_of(struct sockaddr_storage *ss, unsigned family, const uint8_t *bytes,
    unsigned port)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)ss;

	memset(ss, 0, sizeof *ss);
	if (family == 6) {
		sin6->sin6_family = AF_INET6;
		sin6->sin6_port = htons((uint16_t)port);
		memcpy(&sin6->sin6_addr, bytes, sizeof sin6->sin6_addr);
		return (sizeof *sin6);
	}
	sin->sin_family = AF_INET;
	sin->sin_port = htons((uint16_t)port);
	memcpy(&sin->sin_addr, bytes, sizeof sin->sin_addr);
	return (sizeof *sin);
}

static socklen_t
listen_address(const struct naproxy_service *conf, struct sockaddr_storage *ss)
{
	struct sockaddr_un *sun = (struct sockaddr_un *)ss;

	if (conf->listen == NAPROXY_LISTEN_TCP)
		return (address_of(ss, conf->listen_family,
		    conf->listen_address, conf->listen_port));
	memset(ss, 0, sizeof *ss);
	sun->sun_family = AF_UNIX;
	(void)snprintf(sun->sun_path, sizeof sun->sun_path, SOCKETS "/%s.sock",
	    conf->id);
	(void)unlink(sun->sun_path);
	return (sizeof *sun);
}

static bool
listen_on(const struct naproxy_service *conf, int fd)
{
	struct sockaddr_storage ss;
	struct sockaddr_un *sun = (struct sockaddr_un *)&ss;
	socklen_t len;
	int one = 1;

	len = listen_address(conf, &ss);
	if (conf->listen == NAPROXY_LISTEN_TCP)
		AZ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
	if (bind(fd, (struct sockaddr *)&ss, len) != 0)
		return (false);
	/* The edge's workers have our group. */
	if (ss.ss_family == AF_UNIX && chmod(sun->sun_path, 0660) != 0)
		return (false);
	return (listen(fd, BACKLOG) == 0);
}

static void
service_listen(struct service *svc)
{
	int family = AF_UNIX;

	if (svc->watch.fd >= 0)
		return;
	if (svc->conf.listen == NAPROXY_LISTEN_TCP)
		family = svc->conf.listen_family == 6 ? AF_INET6 : AF_INET;
	svc->watch.fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC |
	    SOCK_NONBLOCK, 0);
	if (svc->watch.fd >= 0 && listen_on(&svc->conf, svc->watch.fd)) {
		svc->deaf = false;
		return;
	}
	/* It is tried again each second. */
	if (!svc->deaf)
		warn("%s", svc->conf.id);
	svc->deaf = true;
	watch_close(&svc->watch);
}

/*--------------------------------------------------------------------
 * What the page says
 */

static const char *
conf_problem(const struct naproxy_service *conf)
{
	const char *problem;

	problem = page_id_problem(conf->id);
	if (problem != NULL)
		return (problem);
	if (conf->id[0] == '\0')
		return ("a service without an id");
	if (conf->listen > NAPROXY_LISTEN_TCP)
		return ("a service that listens nobody knows where");
	if (conf->listen == NAPROXY_LISTEN_TCP && conf->listen_family != 4 &&
	    conf->listen_family != 6)
		return ("an unknown address family");
	if (conf->server >= NP_LOAD(page->nservers))
		return ("a service of no server");
	if (conf->port == 0)
		return ("a service without a port");
	return (NULL);
}

static const char *
server_problem(const struct naproxy_server *server)
{

	if (server->family != 4 && server->family != 6)
		return ("an unknown address family");
	return (page_id_problem(server->id));
}

static struct service *
service_get(const struct naproxy_service *conf)
{
	struct service *svc;

	for (svc = all; svc != NULL; svc = svc->next)
		if (!strcmp(svc->conf.id, conf->id))
			return (svc);
	svc = calloc(1, sizeof *svc);
	if (svc == NULL)
		err(1, "calloc");
	svc->watch.kind = WATCH_SERVICE;
	svc->watch.fd = -1;
	svc->next = all;
	all = svc;
	return (svc);
}

static bool
same_place(const struct naproxy_service *a, const struct naproxy_service *b)
{

	return (a->listen == b->listen &&
	    a->listen_family == b->listen_family &&
	    a->listen_port == b->listen_port &&
	    !memcmp(a->listen_address, b->listen_address,
	    sizeof a->listen_address));
}

static void
service_take(struct naproxy_service *live)
{
	struct naproxy_service conf;
	struct naproxy_server server;
	const struct naproxy_server *live_server;
	struct service *svc;
	const char *problem;

	memset(&conf, 0, sizeof conf);
	if (page_copy(&live->seq, &conf, live,
	    offsetof(struct naproxy_service, listen),
	    offsetof(struct naproxy_service, open_now)) & 1)
		problem = "locked";
	else if (conf.listen == NAPROXY_LISTEN_NONE)
		return;
	else
		problem = conf_problem(&conf);
	if (problem == NULL) {
		live_server = &page->server[conf.server];
		memset(&server, 0, sizeof server);
		if (page_copy_server(&server, live_server) & 1)
			problem = "locked";
		else
			problem = server_problem(&server);
	}
	if (problem != NULL) {
		complain(problem);
		return;
	}
	svc = service_get(&conf);
	if (!same_place(&svc->conf, &conf))
		watch_close(&svc->watch);
	svc->conf = conf;
	svc->server = server;
	svc->live = live;
	svc->live_server = live_server;
}

void
services_look(void)
{
	struct service *svc, **prev = &all;
	unsigned u;

	page_look();
	if (page == NULL || page_header_problem(page) != NULL)
		return;
	for (svc = all; svc != NULL; svc = svc->next)
		svc->live = NULL;
	for (u = 0; u < NAPROXY_SERVICES; u++)
		service_take(&page->service[u]);
	while ((svc = *prev) != NULL) {
		if (svc->live == NULL)
			watch_close(&svc->watch);
		else
			service_listen(svc);
		/* Those that were accepted already go on. */
		if (svc->watch.fd >= 0)
			watch_set(&svc->watch, EPOLLIN);
		if (svc->live == NULL && svc->open == 0) {
			*prev = svc->next;
			free(svc);
		} else
			prev = &svc->next;
	}
}

void
services_tell(void)
{
	struct service *svc;

	for (svc = all; svc != NULL; svc = svc->next) {
		if (svc->live == NULL)
			continue;
		NP_STORE(svc->live->open_now, svc->open);
		NP_STORE(svc->live->held_now, svc->held);
	}
}

/*--------------------------------------------------------------------
 * Its server
 */

bool
service_trusted(const struct service *svc)
{

	return (svc->live != NULL && page_header_problem(page) == NULL &&
	    page_fresh(page, monotonic_us()));
}

uint32_t
service_state(const struct service *svc)
{
	uint32_t state;

	if (svc->live == NULL)
		return (NAPROXY_UNKNOWN);
	state = NP_LOAD(svc->live_server->state);
	return (state > NAPROXY_TROUBLE ? NAPROXY_UNKNOWN : state);
}

uint64_t
service_since(const struct service *svc)
{

	return (svc->live == NULL ? 0 : NP_LOAD(svc->live_server->since_us));
}

bool
service_awake(const struct service *svc)
{

	return (service_trusted(svc) && service_state(svc) == NAPROXY_AWAKE);
}

bool
service_quiet(const struct service *svc)
{
	uint64_t last_us = service_since(svc);

	if (last_us < svc->answered_us)
		last_us = svc->answered_us;
	return (service_awake(svc) && svc->server.reach_ms != 0 &&
	    monotonic_us() >= last_us + svc->server.reach_ms * UINT64_C(1000));
}

void
service_answered(struct service *svc)
{

	svc->answered_us = monotonic_us();
	svc->silent_us = 0;
}

/*
 * The controller looks at another port, and may find the server awake all the
 * same. To say so again at once would not help.
 */
void
service_unanswered(struct service *svc)
{

	if (service_quiet(svc) && (svc->silent_us == 0 ||
	    monotonic_us() >= svc->silent_us + SILENT_AGAIN_US))
		svc->silent_us = monotonic_us();
}

bool
service_silent(const struct service *svc)
{

	return (svc->silent_us > service_since(svc) && service_awake(svc));
}

bool
service_available(const struct service *svc)
{

	if (!service_trusted(svc))
		return (true);
	switch (service_state(svc)) {
	case NAPROXY_FALLING_ASLEEP:
	case NAPROXY_ASLEEP:
	case NAPROXY_WAKING:
		return (false);
	default:
		return (true);
	}
}

/* What is written just now is read whole at the next look. */
bool
service_spent(const struct service *svc, const struct ends *ends)
{
	struct naproxy_spent *s;
	uint64_t who;

	if (!service_trusted(svc) || ends->address == 0)
		return (false);
	for (s = page->spent; s < page->spent + NAPROXY_MOST_SPENT; s++) {
		who = NP_LOAD(s->who);
		if ((who == ends->address || who == ends->network) &&
		    NP_LOAD(s->servers) >> svc->conf.server & 1)
			return (true);
	}
	return (false);
}

socklen_t
service_target(const struct service *svc, struct sockaddr_storage *ss)
{

	return (address_of(ss, svc->server.family, svc->server.address,
	    svc->conf.port));
}
