/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * When requests changed what the cache may have: a copy that is older than its
 * URL's mark is of no use (RFC 9111, 4.4). A ban for each POST would do it too,
 * but anybody could pile them up, for each hit to walk through.
 *
 * Nobody empties the cache by marks: each server has its own table, only URLs are
 * marked that were fetched for the cache, a mark is for one URL alone, and a client
 * from outside makes few. A URL is known by a hash of 64 bits with a key that nobody
 * outside has, so nobody finds two with the same.
 *
 * Hits read without a lock. A full set of marks loses its oldest: a copy that nobody
 * has asked for since may then be served until its time is over.
 */

#include <sys/random.h>

#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "vsha256.h"
#include "vtim.h"

#include "naproxy.h"

/* Powers of two. */
#define FETCHED_SETS	4096
#define MARK_SETS	512
#define CLIENT_SETS	64
#define WAYS		8

/*
 * So many URLs a client from outside may mark in this time; so many more if it has
 * logged in, for many sites let anybody do that.
 */
#define CLIENT_MARKS	10
#define CLIENT_LOGGED_IN	100
#define CLIENT_US	UINT64_C(3600000000)

struct mark {
	uint64_t		url;	/* atomic, as the next; 0: unused */
	uint64_t		us;	/* of the clock that copies' times are of */
};

/* Of a server. */
struct np_changes {
	uint64_t		newest_us;	/* of all marks; atomic */
	struct mark		mark[MARK_SETS][WAYS];

	/* Under changed_mtx: the URLs that may be in the cache. */
	uint64_t		fetched[FETCHED_SETS][WAYS];
	uint8_t			next[FETCHED_SETS];
	bool			lost[FETCHED_SETS];	/* there were more */
};

struct marker {
	uint64_t		address;
	uint64_t		since_us;	/* of the page's clock */
	unsigned		n;
};

static pthread_mutex_t changed_mtx = PTHREAD_MUTEX_INITIALIZER;
static struct marker markers[CLIENT_SETS][WAYS];	/* under changed_mtx */
static pthread_once_t changed_once = PTHREAD_ONCE_INIT;
static uint8_t changed_key[VSHA256_LEN];

static void
changed_begin(void)
{

	/* Nobody's requests arrive before the kernel has numbers. */
	assert(getrandom(changed_key, sizeof changed_key, 0) ==
	    sizeof changed_key);
}

/* Never 0. */
static uint64_t
changed_url(const struct http *hp)
{
	unsigned char digest[VSHA256_LEN];
	struct VSHA256Context sha[1];
	const char *host, *url;
	uint64_t hash;

	AZ(pthread_once(&changed_once, changed_begin));
	host = np_header(hp, H_Host);
	if (host == NULL)
		host = "";
	url = hp->hd[HTTP_HDR_URL].b;
	VSHA256_Init(sha);
	VSHA256_Update(sha, changed_key, sizeof changed_key);
	VSHA256_Update(sha, host, strlen(host) + 1);
	VSHA256_Update(sha, url, strlen(url));
	VSHA256_Final(digest, sha);
	memcpy(&hash, digest, sizeof hash);
	return (np_hash_end(hash));
}

/*--------------------------------------------------------------------
 * What the cache may have
 */

/* Under changed_mtx. */
static bool
fetched_known(const struct np_changes *c, uint64_t url)
{
	const uint64_t *set = c->fetched[url % FETCHED_SETS];
	unsigned u;

	for (u = 0; u < WAYS; u++)
		if (set[u] == url)
			return (true);
	return (false);
}

/* A fetch for the cache begins: a change may overtake it. */
void
np_changed_fetch(struct np_server *srv, const struct http *bereq)
{
	struct np_changes *c;
	uint64_t url, *slot;
	unsigned set;

	url = changed_url(bereq);
	set = url % FETCHED_SETS;
	AZ(pthread_mutex_lock(&changed_mtx));
	c = srv->changes;
	if (c == NULL) {
		c = calloc(1, sizeof *c);
		AN(c);
		NP_STORE(srv->changes, c);
	}
	if (!fetched_known(c, url)) {
		slot = &c->fetched[set][c->next[set]++ % WAYS];
		if (*slot != 0)
			c->lost[set] = true;
		*slot = url;
	}
	AZ(pthread_mutex_unlock(&changed_mtx));
}

/*--------------------------------------------------------------------
 * Marks, all under changed_mtx
 */

/* Its count in this hour. */
static struct marker *
marker_find(const struct np_record *rec)
{
	struct marker *m, *set = markers[rec->address % CLIENT_SETS];
	uint64_t now_us = np_now_us();
	struct marker *oldest = set;

	for (m = set; m < set + WAYS && m->address != rec->address; m++)
		if (m->since_us < oldest->since_us)
			oldest = m;
	if (m == set + WAYS)
		m = oldest;
	if (m->address != rec->address || now_us >= m->since_us + CLIENT_US) {
		m->address = rec->address;
		m->since_us = now_us;
		m->n = 0;
	}
	return (m);
}

/* Has this client a mark left? One in the office, or named by a rule, always. */
static bool
marker_may(const struct np_record *rec)
{
	struct marker *m;

	if (rec->inside || (rec->flags & NAPROXY_E_RULE &&
	    rec->flags & NAPROXY_E_OWN))
		return (true);
	m = marker_find(rec);
	if (m->n >= (rec->flags & NAPROXY_E_OWN ? CLIENT_LOGGED_IN : CLIENT_MARKS))
		return (false);
	m->n++;
	return (true);
}

static struct mark *
mark_find(struct np_changes *c, uint64_t url)
{
	struct mark *m, *set = c->mark[url % MARK_SETS];

	for (m = set; m < set + WAYS; m++)
		if (NP_LOAD(m->url) == url)
			return (m);
	return (NULL);
}

static struct mark *
mark_oldest(struct np_changes *c, uint64_t url)
{
	struct mark *m, *set = c->mark[url % MARK_SETS];
	struct mark *oldest = set;

	for (m = set; m < set + WAYS; m++)
		if (NP_LOAD(m->us) < NP_LOAD(oldest->us))
			oldest = m;
	return (oldest);
}

void
np_changed(const struct np_record *rec, const struct http *req)
{
	struct np_changes *c;
	struct mark *m;
	uint64_t now_us, url;

	if (rec->site == NULL || NP_LOAD(rec->site->server->changes) == NULL)
		return;
	url = changed_url(req);
	AZ(pthread_mutex_lock(&changed_mtx));
	c = rec->site->server->changes;
	m = mark_find(c, url);
	if (m == NULL && (c->lost[url % FETCHED_SETS] || fetched_known(c, url)) &&
	    marker_may(rec)) {
		m = mark_oldest(c, url);
		/* A reader sees no other URL's time. */
		NP_STORE(m->url, 0);
	}
	if (m != NULL) {
		now_us = (uint64_t)(VTIM_real() * 1e6);
		NP_STORE(m->us, now_us);
		NP_STORE(m->url, url);
		NP_STORE(c->newest_us, now_us);
	}
	AZ(pthread_mutex_unlock(&changed_mtx));
}

/*--------------------------------------------------------------------*/

/* The time may predate a backward clock step: all later fetches are newer. */
static uint64_t
changed_time(uint64_t *word)
{
	uint64_t now_us, us;

	us = NP_LOAD(*word);
	now_us = (uint64_t)(VTIM_real() * 1e6);
	if (us > now_us) {
		us = now_us;
		NP_STORE(*word, us);
	}
	return (us);
}

bool
np_changed_since(const struct np_record *rec, const struct http *req, double t)
{
	uint64_t t_us = (uint64_t)(t * 1e6), us, url;
	struct np_changes *c;
	struct mark *m;

	c = rec->site == NULL ? NULL : NP_LOAD(rec->site->server->changes);
	/* Most hits end here, without a look at the clock. */
	if (c == NULL || NP_LOAD(c->newest_us) <= t_us ||
	    changed_time(&c->newest_us) <= t_us)
		return (false);
	url = changed_url(req);
	m = mark_find(c, url);
	if (m == NULL)
		return (false);
	us = changed_time(&m->us);
	return (NP_LOAD(m->url) == url && t_us < us);
}

void
np_changed_end(struct np_server *srv)
{

	free(srv->changes);
	srv->changes = NULL;
}
