/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A test tool: plays the controller's part towards the page.
 */

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <linux/futex.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "naproxy_page.h"

static const char usage[] =
    "usage: pagetool DIR create\n"
    "       pagetool DIR set SERVER KEY=VALUE...\n"
    "       pagetool DIR rule path|address|agent|work CLASS TEXT [SERVER]\n"
    "       pagetool DIR rule keep|asleep|browser SECONDS TEXT [SERVER]\n"
    "       pagetool DIR learned CLIENT_HASH CLASS [SERVERS_MASK]\n"
    "       pagetool DIR spent ADDRESS_OR_NETWORK_HASH SERVERS_MASK [PROGRAMS_MASK]\n"
    "       pagetool DIR verified SERVER HOST URL...\n"
    "       pagetool DIR challenge TOKEN ANSWER\n"
    "       pagetool DIR notice TEXT\n"
    "       pagetool DIR heartbeat [MAX_MS]\n"
    "       pagetool DIR get SERVER KEY\n"
    "       pagetool DIR wait SERVER KEY=VALUE...\n"
    "       pagetool DIR ask|together ADDRESS PORT [EXPECTED [HEADERS]] <CASES\n"
    "       pagetool DIR events\n"
    "       pagetool DIR stored\n"
    "       pagetool DIR clients\n"
    "       pagetool DIR listen [N]\n"
    "       pagetool DIR magic PORT [N]\n";

#define COUNT(a)	(sizeof (a) / sizeof (a)[0])

static const char * const states[] = {
	"unknown", "awake", "falling_asleep", "asleep", "waking", "trouble"
};
static const char * const classes[] = {
	"person", "crawler", "monitor", "feed", "api", "scanner"
};
static const char * const outcomes[] = {
#define O(number, name, word, end, marks)	[number] = #word,
	NAPROXY_OUTCOME_LIST(O)
#undef O
};
static const char * const reasons[] = { "page", "miss", "pass", "pipe" };
static const char * const flags[] = {
	"aggressive", "waiting_page", "wol", "defer", "default", "https_only",
	"tls", "proxy", "through", "frozen", "restarts"
};
static const char * const rule_kinds[] = { "none", "path", "address", "agent",
    "work", "keep", "asleep", "browser" };
static const char * const methods[] = {
	"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT",
	"TRACE", "other"
};

/* Numbers of a server by name. All of these can be read, and the first ones set. */
#define U32(n)	{ #n, offsetof(struct naproxy_server, n), 4 }
#define U64(n)	{ #n, offsetof(struct naproxy_server, n), 8 }
static const struct field {
	const char	*name;
	size_t		offset;
	size_t		size;
} config[] = {
	U32(wol_port), U32(wakes_mask), U32(wake_expect_ms), U32(hold_cap),
	U32(hold_limit_ms), U32(crawler_retry_s), U32(delta_ms), U32(grace_s),
	U32(connect_timeout_ms), U32(first_byte_timeout_ms),
	U32(release_batch), U32(release_ms), U32(spent_mask), U32(hsts_s),
	U32(reach_ms), U32(crawl_ms), U32(settle_ms), U32(uncached_ms),
	U32(stream_idle_ms), U32(pipe_idle_ms),
}, readings[] = {
	U32(held_now), U32(fetching_now), U32(piping_now),
	U64(spent), U64(delayed), U64(magic_packets), U64(last_request_us), U64(window_n),
	U64(since_us), U64(froze_us), U64(visited_us), U64(visited_tls_us), U32(seq),
};

/*--------------------------------------------------------------------*/

static uint64_t
monotonic_us(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_MONOTONIC, &ts) != 0)
		err(1, "clock_gettime");
	return ((uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000);
}

static int
index_of(const char *name, const char * const *list, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(list[i], name))
			return ((int)i);
	errx(1, "unknown name: %s", name);
}

#define INDEX(name, list)	index_of(name, list, COUNT(list))

static uint64_t
number(const char *text, uint64_t most)
{
	uint64_t n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 0);
	if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' ||
	    n > most)
		errx(1, "not a number up to %" PRIu64 ": %s", most, text);
	return (n);
}

static void
text(char *dst, size_t size, const char *src)
{

	if (strlen(src) >= size)
		errx(1, "too long: %s", src);
	memset(dst, 0, size);
	memcpy(dst, src, strlen(src));
}

/*--------------------------------------------------------------------
 * Files
 */

static void *
map_file(const char *dir, const char *name, size_t size)
{
	char path[PATH_MAX];
	struct stat st;
	void *p;
	int fd;

	(void)snprintf(path, sizeof path, "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		err(1, "%s", path);
	if (fstat(fd, &st) != 0 || st.st_size != (off_t)size)
		errx(1, "%s: wrong size", path);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		err(1, "%s", path);
	(void)close(fd);
	return (p);
}

/* By rename, so that nobody ever sees half a file. */
static void
make_file(const char *dir, const char *name, const void *head, size_t headlen,
    size_t size)
{
	char path[PATH_MAX], temp[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof path, "%s/%s", dir, name);
	(void)snprintf(temp, sizeof temp, "%s/.%s.%ld", dir, name,
	    (long)getpid());
	fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		err(1, "%s", temp);
	/* Varnish's child runs as somebody else; this is a test tool. */
	if (fchmod(fd, 0666) != 0 || ftruncate(fd, (off_t)size) != 0 ||
	    write(fd, head, headlen) != (ssize_t)headlen || close(fd) != 0)
		err(1, "%s", temp);
	if (rename(temp, path) != 0)
		err(1, "%s", path);
}

static bool
exists(const char *dir, const char *name)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof path, "%s/%s", dir, name);
	return (access(path, F_OK) == 0);
}

static void
create(const char *dir)
{
	struct naproxy_page page;
	struct naproxy_events events;
	struct naproxy_stores stores;

	memset(&stores, 0, sizeof stores);
	stores.magic = NAPROXY_STORES_MAGIC;
	stores.version = NAPROXY_PAGE_VERSION;
	stores.size = sizeof stores;
	stores.count = NAPROXY_STORES;
	make_file(dir, "stored", &stores,
	    offsetof(struct naproxy_stores, stored), sizeof stores);
	memset(&events, 0, sizeof events);
	events.magic = NAPROXY_EVENTS_MAGIC;
	events.version = NAPROXY_PAGE_VERSION;
	events.size = sizeof events;
	events.count = NAPROXY_EVENTS;
	make_file(dir, "events", &events,
	    offsetof(struct naproxy_events, event), sizeof events);
	memset(&page, 0, sizeof page);
	page.magic = NAPROXY_PAGE_MAGIC;
	page.version = NAPROXY_PAGE_VERSION;
	page.size = sizeof page;
	page.heartbeat_us = monotonic_us();
	page.heartbeat_max_ms = 3600000;
	page.controller_pid = (uint32_t)getpid();
	make_file(dir, "page", &page, sizeof page, sizeof page);
}

/*--------------------------------------------------------------------
 * Writing
 */

/* Odd while it is written; a writer that died may have left it odd. */
static void
seq_begin(uint32_t *seq)
{

	__atomic_store_n(seq, (*seq | 1) + (*seq & 1) * 2, __ATOMIC_SEQ_CST);
}

static void
seq_end(uint32_t *seq)
{

	(void)__atomic_add_fetch(seq, 1, __ATOMIC_SEQ_CST);
}

/* All of the configuration at once, checked before it is touched. */
static void
write_config(struct naproxy_server *s, const struct naproxy_server *conf)
{
	const size_t from = offsetof(struct naproxy_server, id);
	const size_t to = offsetof(struct naproxy_server, held_now);

	seq_begin(&s->seq);
	memcpy((char *)s + from, (const char *)conf + from, to - from);
	memcpy(s->cookie, conf->cookie, sizeof s->cookie);
	seq_end(&s->seq);
}

static struct naproxy_server *
find_server(struct naproxy_page *page, const char *id)
{
	uint32_t i;

	for (i = 0; i < page->nservers && i < NAPROXY_SERVERS; i++)
		if (!strcmp(page->server[i].id, id))
			return (&page->server[i]);
	return (NULL);
}

static struct naproxy_server *
new_server(struct naproxy_page *page, const char *id)
{
	struct naproxy_server conf, *s;

	if (page->nservers >= NAPROXY_SERVERS)
		errx(1, "no room for server %s", id);
	memset(&conf, 0, sizeof conf);
	text(conf.id, sizeof conf.id, id);
	conf.flags = NAPROXY_F_DEFAULT | NAPROXY_F_WAITING_PAGE |
	    NAPROXY_F_DEFER;
	conf.wakes_mask = 1U << NAPROXY_PERSON | 1U << NAPROXY_API;
	conf.hold_cap = 250;
	conf.hold_limit_ms = 60000;
	conf.wake_expect_ms = 4000;
	conf.crawler_retry_s = 3600;
	conf.delta_ms = 50;
	conf.connect_timeout_ms = 10000;
	conf.first_byte_timeout_ms = 60000;
	conf.release_batch = 32;
	conf.release_ms = 10;
	conf.grace_s = 3600;
	s = &page->server[page->nservers];
	write_config(s, &conf);
	__atomic_store_n(&page->nservers, page->nservers + 1,
	    __ATOMIC_RELEASE);
	return (s);
}

static void
set_state(struct naproxy_server *s, const char *value)
{

	uint32_t state = (uint32_t)INDEX(value, states);

	__atomic_store_n(&s->since_us, monotonic_us(), __ATOMIC_RELEASE);
	if (state == NAPROXY_AWAKE || state == NAPROXY_TROUBLE)
		__atomic_store_n(&s->froze_us, 0, __ATOMIC_RELEASE);
	else if (state != NAPROXY_UNKNOWN && s->froze_us == 0)
		__atomic_store_n(&s->froze_us, monotonic_us(), __ATOMIC_RELEASE);
	__atomic_store_n(&s->state, state, __ATOMIC_RELEASE);
	if (syscall(SYS_futex, &s->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0)
	    < 0)
		err(1, "futex");
}

static uint16_t
set_address(uint8_t *dst, uint16_t *family, const char *value)
{
	char host[64];
	const char *colon;
	int af = AF_INET;

	colon = strrchr(value, ':');
	if (colon == NULL || colon - value >= (int)sizeof host)
		errx(1, "not ADDRESS:PORT: %s", value);
	memcpy(host, value, (size_t)(colon - value));
	host[colon - value] = '\0';
	if (host[0] == '[' && host[strlen(host) - 1] == ']') {
		host[strlen(host) - 1] = '\0';
		memmove(host, host + 1, strlen(host));
		af = AF_INET6;
	}
	memset(dst, 0, 16);
	if (inet_pton(af, host, dst) != 1)
		errx(1, "not an address: %s", host);
	if (family != NULL)
		*family = af == AF_INET ? 4 : 6;
	return ((uint16_t)number(colon + 1, 65535));
}

/* Names of this server instead of those it has; `*.NAME` is any one below. */
static void
set_hosts(struct naproxy_page *page, const struct naproxy_server *s, char *value)
{
	struct naproxy_name *names;
	size_t i, n = 0;
	char *name;

	names = calloc(NAPROXY_NAMES, sizeof *names);
	if (names == NULL)
		err(1, "names");
	for (i = 0; i < NAPROXY_NAMES && page->names[i].name[0] != '\0'; i++)
		if (page->names[i].server != s - page->server)
			names[n++] = page->names[i];
	while ((name = strsep(&value, ",")) != NULL) {
		if (n >= NAPROXY_NAMES)
			errx(1, "too many names");
		names[n].server = (uint8_t)(s - page->server);
		if (!strncmp(name, "*.", 2)) {
			names[n].flags = NAPROXY_N_BELOW;
			name += 2;
		}
		text(names[n++].name, NAPROXY_NAME_LEN, name);
	}
	seq_begin(&page->names_seq);
	memcpy(page->names, names, sizeof page->names);
	seq_end(&page->names_seq);
	free(names);
}

static void
set_mac(struct naproxy_server *s, const char *value)
{
	unsigned b[6];
	size_t i;
	char end;

	if (sscanf(value, "%2x:%2x:%2x:%2x:%2x:%2x%c", &b[0], &b[1], &b[2],
	    &b[3], &b[4], &b[5], &end) != 6)
		errx(1, "not a MAC: %s", value);
	for (i = 0; i < 6; i++)
		s->mac[i] = (uint8_t)b[i];
}

static void
set_flags(struct naproxy_server *s, char *value)
{
	char *name;

	s->flags = 0;
	while ((name = strsep(&value, ",")) != NULL)
		if (*name != '\0')
			s->flags |= 1U << INDEX(name, flags);
}

static void
set_cookies(struct naproxy_server *s, char *value)
{
	uint64_t hash;
	size_t n = 0;
	char *name;

	memset(s->cookie, 0, sizeof s->cookie);
	while ((name = strsep(&value, ",")) != NULL) {
		if (n >= NAPROXY_COOKIES)
			errx(1, "too many cookies");
		hash = UINT64_C(0xcbf29ce484222325);
		for (; *name != '\0'; name++)
			hash = (hash ^ (uint8_t)*name) *
			    UINT64_C(0x100000001b3);
		s->cookie[n++] = hash;
	}
}

static void
set_field(struct naproxy_server *s, const char *key, const char *value)
{
	uint32_t n;
	size_t i;

	for (i = 0; i < COUNT(config); i++) {
		if (strcmp(config[i].name, key))
			continue;
		n = (uint32_t)number(value, UINT32_MAX);
		memcpy((char *)s + config[i].offset, &n, sizeof n);
		return;
	}
	errx(1, "unknown key: %s", key);
}

static void
set_key(struct naproxy_server *s, char *key)
{
	char *value;

	value = strchr(key, '=');
	if (value == NULL)
		errx(1, "not KEY=VALUE: %s", key);
	*value++ = '\0';
	if (!strcmp(key, "address")) {
		s->port = set_address(s->address, &s->family, value);
	} else if (!strcmp(key, "wol")) {
		s->wol_port = set_address(s->wol_address, NULL, value);
	} else if (!strcmp(key, "mac")) {
		set_mac(s, value);
	} else if (!strcmp(key, "flags")) {
		set_flags(s, value);
	} else if (!strcmp(key, "cookies")) {
		set_cookies(s, value);
	} else if (!strcmp(key, "webhook")) {
		s->webhook[0] = number(value, UINT64_MAX);
	} else if (!strcmp(key, "retry_at_us")) {
		s->retry_at_us = number(value, UINT64_MAX);
	} else {
		set_field(s, key, value);
	}
}

static void
set_fields(struct naproxy_page *page, struct naproxy_server *s, int argc, char **argv)
{
	struct naproxy_server conf = *s;
	const char *state = NULL;
	int i;

	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "state=", 6))
			state = argv[i] + 6;
		else if (!strncmp(argv[i], "hosts=", 6))
			set_hosts(page, s, argv[i] + 6);
		else
			set_key(&conf, argv[i]);
	}
	if (state == NULL || argc > 1)
		write_config(s, &conf);
	if (state != NULL)
		set_state(s, state);
}

static void
add_rule(struct naproxy_page *page, int argc, char **argv)
{
	struct naproxy_rule r;
	size_t i;

	if (argc < 3)
		errx(1, "%s", usage);
	for (i = 0; i < NAPROXY_RULES && page->rules[i].kind != 0; i++)
		continue;
	if (i == NAPROXY_RULES)
		errx(1, "no room for a rule");
	memset(&r, 0, sizeof r);
	text(r.text, sizeof r.text, argv[2]);
	r.server = argc > 3 ? (uint8_t)number(argv[3], 255) : 255;
	r.kind = (uint8_t)INDEX(argv[0], rule_kinds);
	if (r.kind >= NAPROXY_RULE_KEEP)
		r.keep_s = (uint32_t)number(argv[1], UINT32_MAX);
	else
		r.klass = (uint8_t)INDEX(argv[1], classes);
	seq_begin(&page->seq);
	page->rules[i] = r;
	seq_end(&page->seq);
}

static void
add_learned(struct naproxy_page *page, const char *client, const char *klass,
    const char *servers)
{
	struct naproxy_learned l;
	size_t i;

	for (i = 0; i < NAPROXY_LEARNED && page->learned[i].client != 0; i++)
		continue;
	if (i == NAPROXY_LEARNED)
		errx(1, "no room for a client");
	memset(&l, 0, sizeof l);
	l.client = number(client, UINT64_MAX);
	l.klass = (uint32_t)INDEX(klass, classes);
	if (servers != NULL)
		l.wakes = (uint32_t)number(servers, UINT32_MAX);
	seq_begin(&page->seq);
	page->learned[i] = l;
	seq_end(&page->seq);
}

static void
add_challenge(struct naproxy_page *page, const char *token, const char *answer)
{
	struct naproxy_challenge c;
	size_t i;

	for (i = 0; i < NAPROXY_CHALLENGES && page->challenge[i].token[0] != 0;
	    i++)
		continue;
	if (i == NAPROXY_CHALLENGES)
		errx(1, "no room for a challenge");
	text(c.token, sizeof c.token, token);
	text(c.answer, sizeof c.answer, answer);
	seq_begin(&page->names_seq);
	page->challenge[i] = c;
	seq_end(&page->names_seq);
}

static void
add_spent(struct naproxy_page *page, const char *who, const char *servers,
    const char *programs)
{
	struct naproxy_spent s;
	size_t i;

	for (i = 0; i < NAPROXY_MOST_SPENT && page->spent[i].who != 0; i++)
		continue;
	if (i == NAPROXY_MOST_SPENT)
		errx(1, "no room for another");
	memset(&s, 0, sizeof s);
	s.who = number(who, UINT64_MAX);
	s.servers = (uint32_t)number(servers, UINT32_MAX);
	if (programs != NULL)
		s.programs = (uint32_t)number(programs, UINT32_MAX);
	seq_begin(&page->seq);
	page->spent[i] = s;
	seq_end(&page->seq);
}

static int
compare_hashes(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return ((*one > *other) - (*one < *other));
}

/* These, and no other pages. */
static void
set_verified(struct naproxy_page *page, int argc, char **argv)
{
	uint64_t table[NAPROXY_VERIFIED];
	struct naproxy_server *s;
	uint64_t hash;
	const char *p;
	int i;

	s = find_server(page, argv[0]);
	if (s == NULL || argc - 2 > NAPROXY_VERIFIED)
		errx(1, "no such server, or no room for so many");
	memset(table, 0, sizeof table);
	for (i = 2; i < argc; i++) {
		hash = UINT64_C(0xcbf29ce484222325);
		for (p = argv[1]; *p != '\0'; p++)
			hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
		hash *= UINT64_C(0x100000001b3);
		for (p = argv[i]; *p != '\0'; p++)
			hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
		table[i - 2] = hash;
	}
	qsort(table, (size_t)argc - 2, sizeof *table, compare_hashes);
	seq_begin(&page->seq);
	memcpy(page->verified[s - page->server], table, sizeof table);
	seq_end(&page->seq);
}

/*--------------------------------------------------------------------
 * Reading
 */

/* Of all clients: requests in flight, or those of a kind, here. */
static uint64_t
get_clients(const struct naproxy_page *page, const struct naproxy_server *s,
    const char *key)
{
	const struct naproxy_client *c;
	uint64_t sum = 0;

	for (c = page->client; c < page->client + NAPROXY_CLIENTS; c++)
		sum += !strcmp(key, "in_flight") ? c->in_flight :
		    !strcmp(key, "people") ? c->people[s - page->server] :
		    !strcmp(key, "programs") ? c->programs[s - page->server] :
		    c->robots[s - page->server];
	return (sum);
}

static uint64_t
field(const void *base, const struct field *f)
{
	uint32_t small;
	uint64_t big;

	if (f->size == 4) {
		memcpy(&small, (const char *)base + f->offset, 4);
		return (small);
	}
	memcpy(&big, (const char *)base + f->offset, 8);
	return (big);
}

static uint64_t
get_requests(const struct naproxy_server *s, char *key)
{
	uint64_t sum = 0;
	char *klass, *outcome;
	size_t k, o;

	(void)strsep(&key, ".");
	klass = strsep(&key, ".");
	outcome = strsep(&key, ".");
	for (k = 0; k < NAPROXY_CLASSES; k++)
		for (o = 0; o < NAPROXY_OUTCOMES; o++)
			if ((klass == NULL || !strcmp(klass, "*") ||
			    (int)k == INDEX(klass, classes)) &&
			    (outcome == NULL ||
			    (int)o == INDEX(outcome, outcomes)))
				sum += s->requests[k][o];
	return (sum);
}

static uint64_t
get_number(const struct naproxy_page *page, const struct naproxy_server *s,
    char *key)
{
	size_t i;

	if (!strcmp(key, "in_flight") || !strcmp(key, "people") ||
	    !strcmp(key, "programs") || !strcmp(key, "robots"))
		return (get_clients(page, s, key));
	if (!strcmp(key, "wake_errors"))
		return (page->wake_errors);
	if (!strcmp(key, "child_start_us"))
		return (page->child_start_us);
	if (!strcmp(key, "total"))
		return (naproxy_total(s));
	if (!strcmp(key, "delays.0"))
		return (naproxy_prompt(s));
	if (!strncmp(key, "requests", 8))
		return (get_requests(s, key));
	if (!strncmp(key, "wakes.", 6))
		return (s->wakes[INDEX(key + 6, reasons)]);
	if (!strncmp(key, "delays.", 7))
		return (s->delays[number(key + 7, NAPROXY_DELAYS - 1)]);
	if (!strncmp(key, "window.", 7))
		return (s->window_us[number(key + 7, NAPROXY_WINDOW - 1)]);
	for (i = 0; i < COUNT(config); i++)
		if (!strcmp(config[i].name, key))
			return (field(s, &config[i]));
	for (i = 0; i < COUNT(readings); i++)
		if (!strcmp(readings[i].name, key))
			return (field(s, &readings[i]));
	errx(1, "unknown key: %s", key);
}

static void
get(const struct naproxy_page *page, const struct naproxy_server *s, char *key)
{

	if (!strcmp(key, "state"))
		(void)puts(s->state < COUNT(states) ? states[s->state] : "?");
	else
		(void)printf("%" PRIu64 "\n", get_number(page, s, key));
}

/* Until each KEY has been VALUE. */
static void
await(const struct naproxy_page *page, const struct naproxy_server *s,
    int argc, char **argv)
{
	const struct timespec pause = { 0, 5000000 };
	uint64_t until, value, now;
	char key[64], *said;
	int i;

	until = monotonic_us() + 20000000;
	for (i = 0; i < argc; i++) {
		said = strchr(argv[i], '=');
		if (said == NULL)
			errx(1, "not KEY=VALUE: %s", argv[i]);
		*said++ = '\0';
		value = number(said, UINT64_MAX);
		for (;;) {
			text(key, sizeof key, argv[i]);
			now = get_number(page, s, key);
			if (now == value)
				break;
			if (monotonic_us() > until)
				errx(1, "%s stays %" PRIu64 ", not %s",
				    argv[i], now, said);
			(void)nanosleep(&pause, NULL);
		}
	}
}

static const char *
named(const char * const *list, size_t n, size_t i)
{

	return (i < n ? list[i] : "?");
}

#define NAMED(list, i)	named(list, COUNT(list), i)

static void
print_stored(const struct naproxy_stores *ring)
{
	const struct naproxy_stored *s;
	uint64_t n, head;

	head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	n = head > NAPROXY_STORES ? head - NAPROXY_STORES + 1 : 1;
	for (; n <= head; n++) {
		s = &ring->stored[(n - 1) % NAPROXY_STORES];
		if (__atomic_load_n(&s->seq, __ATOMIC_ACQUIRE) != n)
			continue;
		(void)printf("%" PRIu64 " path=%#" PRIx64 " bytes=%" PRIu64
		    " ttl_s=%u status=%u server=%u flags=%s%s%s%s%s accept=%s"
		    " %s %s\n", n, s->path, s->bytes, s->ttl_s, s->status,
		    s->server,
		    s->flags & NAPROXY_S_FREEZES ? "freezes," : "",
		    s->flags & NAPROXY_S_HTTPS ? "https," : "",
		    s->flags & NAPROXY_S_SAID ? "said," : "",
		    s->flags & NAPROXY_S_SAME ? "same," : "",
		    s->flags & NAPROXY_S_VARIES ? "varies," : "",
		    s->accept, s->host, s->url);
	}
}

static void
print_events(const struct naproxy_events *ring)
{
	const struct naproxy_event *e;
	uint64_t n, head;

	head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	n = head > NAPROXY_EVENTS ? head - NAPROXY_EVENTS + 1 : 1;
	for (; n <= head; n++) {
		e = &ring->event[(n - 1) % NAPROXY_EVENTS];
		if (__atomic_load_n(&e->seq, __ATOMIC_ACQUIRE) != n)
			continue;
		(void)printf("%" PRIu64 " t_us=%" PRIu64 " client=%#" PRIx64
		    " path=%#" PRIx64 " delay_ms=%u agent=%d server=%u"
		    " class=%s outcome=%s status=%u method=%s flags=%s%s%s%s%s%s%s%s"
		    " address=%#" PRIx64 " network=%#" PRIx64 " rule=%u\n", n, e->t_us, e->client, e->path, e->delay_ms,
		    (int32_t)e->agent, e->server, NAMED(classes, e->klass),
		    NAMED(outcomes, e->outcome), e->status,
		    NAMED(methods, e->method),
		    e->flags & NAPROXY_E_PAGE_LOAD ? "page_load," : "",
		    e->flags & NAPROXY_E_NEEDED ? "needed," : "",
		    e->flags & NAPROXY_E_DELAYED ? "delayed," : "",
		    e->flags & NAPROXY_E_RULE ? "rule," : "",
		    e->flags & NAPROXY_E_LEARNED ? "learned," : "",
		    e->flags & NAPROXY_E_WORK ? "work," : "",
		    e->flags & NAPROXY_E_OWN ? "own," : "",
		    e->flags & NAPROXY_E_SPENT ? "spent," : "",
		    e->address, e->network, e->rule);
	}
}

static void
print_clients(const struct naproxy_page *page)
{
	const struct naproxy_client *c;
	size_t s;

	for (c = page->client; c < page->client + NAPROXY_CLIENTS; c++) {
		if (c->in_flight == 0)
			continue;
		(void)printf("address=%#" PRIx64 " network=%#" PRIx64
		    " in_flight=%u own=%u exempt=%u", c->address, c->network,
		    c->in_flight, c->own, c->exempt);
		for (s = 0; s < NAPROXY_SERVERS; s++)
			if (c->people[s] + c->programs[s] + c->robots[s] > 0)
				(void)printf(" %zu=%u,%u,%u", s, c->people[s],
				    c->programs[s], c->robots[s]);
		(void)puts("");
	}
}

/*--------------------------------------------------------------------
 * Listening. Says `ready` first, so that a test knows when to start.
 */

static void
print_datagrams(int fd, uint64_t count)
{
	char buf[2048];
	ssize_t len;

	(void)puts("ready");
	(void)fflush(stdout);
	while (count-- > 0) {
		len = recv(fd, buf, sizeof buf, 0);
		if (len < 0)
			err(1, "recv");
		(void)printf("-- %zd bytes\n", len);
		(void)fwrite(buf, 1, (size_t)len, stdout);
		(void)fflush(stdout);
	}
}

static void
listen_unix(const char *dir, uint64_t count)
{
	struct sockaddr_un sun;
	int fd;

	memset(&sun, 0, sizeof sun);
	sun.sun_family = AF_UNIX;
	if (snprintf(sun.sun_path, sizeof sun.sun_path, "%s/wake.sock", dir)
	    >= (int)sizeof sun.sun_path)
		errx(1, "path too long");
	(void)unlink(sun.sun_path);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sun, sizeof sun) != 0 ||
	    chmod(sun.sun_path, 0666) != 0)
		err(1, "%s", sun.sun_path);
	print_datagrams(fd, count);
}

/*
 * Magic packets, in the words that a network card understands. With port 0 it is
 * one that nobody else has, and `ready` says which.
 */
static void
listen_magic(uint16_t port, uint64_t count)
{
	struct sockaddr_in sin;
	socklen_t sinlen = sizeof sin;
	uint8_t b[2048];
	ssize_t len;
	size_t i;
	bool good;
	int fd;

	memset(&sin, 0, sizeof sin);
	sin.sin_family = AF_INET;
	sin.sin_port = htons(port);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sin, sizeof sin) != 0 ||
	    getsockname(fd, (struct sockaddr *)&sin, &sinlen) != 0)
		err(1, "port %u", port);
	(void)printf("ready %u\n", ntohs(sin.sin_port));
	(void)fflush(stdout);
	while (count-- > 0) {
		len = recv(fd, b, sizeof b, 0);
		good = len == 6 + 16 * 6 &&
		    !memcmp(b, "\xff\xff\xff\xff\xff\xff", 6);
		for (i = 1; good && i < 16; i++)
			good = !memcmp(b + 6, b + 6 + i * 6, 6);
		(void)printf(good ? "magic %02x:%02x:%02x:%02x:%02x:%02x\n" :
		    "rubbish\n", b[6], b[7], b[8], b[9], b[10], b[11]);
		(void)fflush(stdout);
	}
}

/*--------------------------------------------------------------------
 * Asking. Each line is a case: a request and the expected parts of its answer:
 *
 *	METHOD URL [ | HEADER: VALUE]... => STATUS [ | HEADER: VALUE]...
 *
 * `!HEADER` means that the answer has no such header, `~TEXT` that its body
 * has this text, `*` any status. Without `=>` the EXPECTED of the command line
 * counts. Each request has its HEADERS, too, and a Host if none is said, on a
 * connection of its own. ADDRESS may be a socket's path. `#` begins a comment.
 */

static char *
ask_next(char **list)
{
	char *item = *list, *end;

	if (item == NULL)
		return (NULL);
	end = strstr(item, " | ");
	*list = end == NULL ? NULL : end + 3;
	if (end != NULL)
		*end = '\0';
	return (item);
}

static FILE *
ask_connect(const char *address, const char *port)
{
	struct sockaddr_in sin;
	struct sockaddr_un sun;
	FILE *f;
	int fd, bad;

	memset(&sin, 0, sizeof sin);
	sin.sin_family = AF_INET;
	sin.sin_port = htons((uint16_t)number(port, 65535));
	memset(&sun, 0, sizeof sun);
	sun.sun_family = AF_UNIX;
	fd = socket(*address == '/' ? AF_UNIX : AF_INET,
	    SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*address == '/') {
		text(sun.sun_path, sizeof sun.sun_path, address);
		bad = connect(fd, (struct sockaddr *)&sun, sizeof sun);
	} else {
		bad = inet_pton(AF_INET, address, &sin.sin_addr) != 1 ||
		    connect(fd, (struct sockaddr *)&sin, sizeof sin);
	}
	f = fdopen(fd, "r+");
	if (bad || f == NULL)
		err(1, "%s:%s", address, port);
	return (f);
}

static void
ask(FILE *f, char *request, char *answer, size_t size)
{
	bool host = false;
	char *item;
	size_t len;

	item = ask_next(&request);
	if (item == NULL)
		errx(1, "no request");
	(void)fprintf(f, "%s HTTP/1.1\r\n", item);
	while ((item = ask_next(&request)) != NULL) {
		host = host || !strncasecmp(item, "Host:", 5);
		(void)fprintf(f, "%s\r\n", item);
	}
	(void)fprintf(f, "%sConnection: close\r\n\r\n",
	    host ? "" : "Host: 127.0.0.1\r\n");
	(void)fflush(f);
	len = fread(answer, 1, size - 1, f);
	answer[len] = '\0';
	(void)fclose(f);
}

/* Does the head have a line that begins, or is, like this? */
static bool
ask_line(const char *head, const char *text, bool whole)
{
	const size_t len = strlen(text);
	const char *p;

	for (p = head; (p = strstr(p, "\r\n")) != NULL; ) {
		p += 2;
		if (!strncasecmp(p, text, len) && (!whole ||
		    p[len + strspn(p + len, " ")] == '\r'))
			return (true);
	}
	return (false);
}

static bool
ask_has(char *head, const char *body, const char *item)
{
	char name[64];

	if (*item == '~')
		return (strstr(body, item + 1) != NULL);
	if (*item == '!') {
		(void)snprintf(name, sizeof name, "%s:", item + 1);
		return (!ask_line(head, name, false));
	}
	if (strchr(item, ':') != NULL)
		return (ask_line(head, item, true));
	return (*item == '*' || !strncmp(head + strcspn(head, " ") + 1, item,
	    strlen(item)));
}

static void
ask_case(const char *address, const char *port, const char *expected,
    const char *headers, char *line)
{
	static char answer[65536];
	char *request, *list, *item, *body;

	list = strstr(line, " => ");
	if (list != NULL)
		*list = '\0';
	list = strdup(list == NULL ? expected : list + 4);
	if (asprintf(&request, "%s%s%s", line, *headers == '\0' ? "" : " | ",
	    headers) < 0)
		err(1, "asprintf");
	ask(ask_connect(address, port), request, answer, sizeof answer);
	body = strstr(answer, "\r\n\r\n");
	if (body == NULL)
		errx(1, "%s: no answer", line);
	body[2] = '\0';
	while ((item = ask_next(&list)) != NULL)
		if (!ask_has(answer, body + 3, item))
			errx(1, "%s: not %s, but\n%s", line, item, answer);
}

/* One case after the other, or all at the same time. */
static void
ask_all(const char *address, const char *port, const char *expected,
    const char *headers, bool together)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int status;
	pid_t pid;

	while ((len = getline(&line, &size, stdin)) > 0) {
		line[len - 1] = '\0';
		if (*line == '#')
			continue;
		pid = together ? fork() : 0;
		if (pid > 0)
			continue;
		ask_case(address, port, expected, headers, line);
		if (together)
			_exit(0);
	}
	while (wait(&status) > 0)
		if (status != 0)
			exit(1);
}

/*--------------------------------------------------------------------*/

int
main(int argc, char **argv)
{
	struct naproxy_page *page;
	struct naproxy_server *s;
	const char *dir, *what;

	if (argc < 3)
		errx(1, "%s", usage);
	dir = argv[1];
	what = argv[2];
	argc -= 3;
	argv += 3;
	if (!strcmp(what, "create")) {
		create(dir);
		return (0);
	}
	if (!strcmp(what, "listen")) {
		listen_unix(dir, argc > 0 ? number(argv[0], 1000000) : 1);
		return (0);
	}
	if (!strcmp(what, "magic") && argc > 0) {
		listen_magic((uint16_t)number(argv[0], 65535),
		    argc > 1 ? number(argv[1], 1000000) : 1);
		return (0);
	}
	if (!strcmp(what, "events")) {
		print_events(map_file(dir, "events",
		    sizeof (struct naproxy_events)));
		return (0);
	}
	if (!strcmp(what, "stored")) {
		print_stored(map_file(dir, "stored",
		    sizeof (struct naproxy_stores)));
		return (0);
	}
	if ((!strcmp(what, "ask") || !strcmp(what, "together")) && argc >= 2 &&
	    argc <= 4) {
		ask_all(argv[0], argv[1], argc > 2 ? argv[2] : "",
		    argc > 3 ? argv[3] : "", *what == 't');
		return (0);
	}
	if (!strcmp(what, "set") && !exists(dir, "page"))
		create(dir);
	page = map_file(dir, "page", sizeof *page);
	if (!strcmp(what, "heartbeat")) {
		if (argc > 0)
			page->heartbeat_max_ms =
			    (uint32_t)number(argv[0], UINT32_MAX);
		__atomic_store_n(&page->heartbeat_us, monotonic_us(),
		    __ATOMIC_RELEASE);
	} else if (!strcmp(what, "notice") && argc == 1) {
		if (strlen(argv[0]) >= sizeof page->notice)
			errx(1, "too long: %s", argv[0]);
		seq_begin(&page->seq);
		text(page->notice, sizeof page->notice, argv[0]);
		seq_end(&page->seq);
	} else if (!strcmp(what, "rule")) {
		add_rule(page, argc, argv);
	} else if (!strcmp(what, "learned") && (argc == 2 || argc == 3)) {
		add_learned(page, argv[0], argv[1], argc == 3 ? argv[2] : NULL);
	} else if (!strcmp(what, "spent") && (argc == 2 || argc == 3)) {
		add_spent(page, argv[0], argv[1], argc == 3 ? argv[2] : NULL);
	} else if (!strcmp(what, "verified") && argc >= 2) {
		set_verified(page, argc, argv);
	} else if (!strcmp(what, "challenge") && argc == 2) {
		add_challenge(page, argv[0], argv[1]);
	} else if (!strcmp(what, "clients")) {
		print_clients(page);
	} else if (!strcmp(what, "set") && argc > 0) {
		s = find_server(page, argv[0]);
		if (s == NULL)
			s = new_server(page, argv[0]);
		set_fields(page, s, argc - 1, argv + 1);
	} else if ((!strcmp(what, "get") && argc == 2) ||
	    (!strcmp(what, "wait") && argc > 1)) {
		s = find_server(page, argv[0]);
		if (s == NULL)
			errx(1, "no such server: %s", argv[0]);
		if (*what == 'g')
			get(page, s, argv[1]);
		else
			await(page, s, argc - 1, argv + 1);
	} else {
		errx(1, "%s", usage);
	}
	return (0);
}
