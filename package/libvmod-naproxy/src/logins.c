/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Which cookies and passwords the server has accepted: requests that bring one are
 * of somebody who has logged in, so no share limits them. Anybody can write a Cookie
 * or an Authorization header. So only what the server itself did counts:
 *
 *   - A cookie that it set in its answer to a POST. If that answer leads on to
 *     another path, or is no HTML, the cookie counts once a request that brings it
 *     is answered. Else the POST may have been a login that failed, and the cookie
 *     counts once it opens a page that is closed to others.
 *   - Basic or Bearer, if it opens a URL for which the server answered 401 before,
 *     or has WebDAV do something.
 *
 * Kept are hashes, in memory only, with a seed of this process.
 */

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "cache/cache.h"

#include "naproxy.h"

#define SETS		512
#define WAYS		4
#define CLOSED		1024
#define LEAST_VALUE	16	/* characters: shorter values can be guessed */
#define UNUSED_US	(UINT64_C(30) * 86400 * 1000000)

/* In the order in which they give their places to others. */
enum login_state {
	LOGIN_NONE = 0,
	LOGIN_DOUBTFUL,		/* counts if it opens what is closed */
	LOGIN_OFFERED,		/* counts if a request that brings it is answered */
	LOGIN_SHARED,		/* was set for two: not a secret */
	LOGIN_KNOWN,
};

struct login {
	uint64_t	key;
	uint64_t	address;	/* it was set for this one */
	uint64_t	used_us;
	enum login_state	state;
};

/* A cookie in a header, or the value of Authorization. */
struct pair {
	const char	*name;
	size_t		name_len;
	const char	*value;
	size_t		value_len;
};

static pthread_mutex_t logins_mtx = PTHREAD_MUTEX_INITIALIZER;
static struct login logins[SETS][WAYS];		/* under logins_mtx */
static uint64_t closed[2][CLOSED];		/* atomic: 401; a redirect */
static uint64_t logins_seed;			/* atomic */
static bool logins_any;				/* atomic */

/*--------------------------------------------------------------------
 * The table
 */

static uint64_t
logins_begin(const struct np_record *rec)
{
	uint64_t seed, none = 0;

	if (NP_LOAD(logins_seed) == 0) {
		if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
			seed = np_now_us();
		seed |= 1;
		(void)__atomic_compare_exchange_n(&logins_seed, &none, seed,
		    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	return (np_hash(NP_LOAD(logins_seed), rec->site->server->id,
	    strlen(rec->site->server->id)));
}

static uint64_t
login_key(const struct np_record *rec, const struct pair *p)
{
	uint64_t hash;

	hash = np_hash(logins_begin(rec), p->name, p->name_len);
	hash = np_hash(np_hash(hash, "=", 1), p->value, p->value_len);
	return (hash == 0 ? 1 : hash);
}

static struct login *
login_find(uint64_t key)
{
	struct login *l, *set = logins[key % SETS];

	for (l = set; l < set + WAYS; l++)
		if (l->state != LOGIN_NONE && l->key == key)
			return (l);
	return (NULL);
}

static bool
login_before(const struct login *a, const struct login *b)
{

	return (a->state != b->state ? a->state < b->state :
	    a->used_us < b->used_us);
}

/* A place for a new one; NULL: only such that are worth more. */
static struct login *
login_place(uint64_t key, enum login_state state, uint64_t now_us)
{
	struct login *l, *set = logins[key % SETS], *least = set;

	for (l = set; l < set + WAYS; l++) {
		if (l->used_us + UNUSED_US < now_us)
			l->state = LOGIN_NONE;
		if (login_before(l, least))
			least = l;
	}
	return (least->state > state ? NULL : least);
}

static void
login_put(uint64_t key, uint64_t address, enum login_state state)
{
	struct login *l;
	uint64_t now_us = np_coarse_us();

	l = login_find(key);
	if (l == NULL) {
		l = login_place(key, state, now_us);
		if (l == NULL)
			return;
		l->key = key;
		l->address = address;
		l->state = state;
	}
	if (l->state < state && l->state != LOGIN_SHARED)
		l->state = state;
	l->used_us = now_us;
	NP_STORE(logins_any, true);
}

/*--------------------------------------------------------------------
 * What is closed to those who have not logged in
 */

static uint64_t *
closed_at(const struct np_record *rec, bool redirect)
{

	return (&closed[redirect][rec->path % CLOSED]);
}

static bool
closed_is(const struct np_record *rec, bool redirect)
{

	return (NP_LOAD(*closed_at(rec, redirect)) ==
	    (rec->path ^ logins_begin(rec)));
}

static void
closed_note(const struct np_record *rec, bool redirect)
{

	NP_STORE(*closed_at(rec, redirect), rec->path ^ logins_begin(rec));
}

/*--------------------------------------------------------------------
 * Headers
 */

static const char *
header_value(const struct http *hp, unsigned u, const char *name)
{
	size_t len = strlen(name);
	const char *b = hp->hd[u].b;

	if ((size_t)(hp->hd[u].e - b) < len || strncasecmp(b, name, len))
		return (NULL);
	for (b += len; *b == ' ' || *b == '\t'; b++)
		continue;
	return (b);
}

static const char *
header_of(const struct http *hp, const char *name)
{
	const char *value;
	unsigned u;

	for (u = HTTP_HDR_FIRST; u < hp->nhd; u++) {
		value = header_value(hp, u, name);
		if (value != NULL)
			return (value);
	}
	return (NULL);
}

/* The cookie that begins here; returns where it ends. */
static const char *
pair_read(struct pair *p, const char *b)
{
	const char *end, *e;

	while (*b == ' ' || *b == '\t')
		b++;
	end = e = b + strcspn(b, ";");
	while (e > b && (e[-1] == ' ' || e[-1] == '\t'))
		e--;
	p->name = b;
	p->name_len = strcspn(b, "=");
	if (b + p->name_len >= e) {
		p->name_len = 0;
		p->value = e;
	} else {
		p->value = b + p->name_len + 1;
	}
	p->value_len = (size_t)(e - p->value);
	return (end);
}

static bool
pair_next(struct pair *p, const char **bp)
{

	if (**bp == '\0')
		return (false);
	*bp = pair_read(p, *bp);
	if (**bp == ';')
		++*bp;
	return (true);
}

static bool
pair_secret(const struct pair *p)
{

	return (p->name_len > 0 && p->value_len >= LEAST_VALUE);
}

/* Those whose every request says something else are not found again. */
static bool
pair_authorization(struct pair *p, const struct http *hp)
{
	const char *value = header_of(hp, "Authorization:");

	if (value == NULL ||
	    (strncasecmp(value, "Basic ", 6) && strncasecmp(value, "Bearer ", 7)))
		return (false);
	p->name = "";
	p->name_len = 0;
	p->value = value;
	p->value_len = strlen(value);
	return (true);
}

/* The request's cookie of this name, or of this name and value. */
static bool
cookie_of(const struct http *hp, const struct pair *like, bool value,
    struct pair *p)
{
	const char *b;
	unsigned u;

	for (u = HTTP_HDR_FIRST; u < hp->nhd; u++) {
		b = header_value(hp, u, "Cookie:");
		while (b != NULL && pair_next(p, &b))
			if (p->name_len == like->name_len &&
			    !memcmp(p->name, like->name, p->name_len) &&
			    (!value || (p->value_len == like->value_len &&
			    !memcmp(p->value, like->value, p->value_len))))
				return (true);
	}
	return (false);
}

/*--------------------------------------------------------------------
 * A request
 */

static bool
login_known(const struct np_record *rec, const struct pair *p)
{
	struct login *l;

	l = login_find(login_key(rec, p));
	if (l == NULL || l->state != LOGIN_KNOWN ||
	    l->used_us + UNUSED_US < np_coarse_us())
		return (false);
	l->used_us = np_coarse_us();
	return (true);
}

/* Does this request bring what the server has accepted? */
bool
np_login_known(const struct np_record *rec, const struct http *hp)
{
	const char *b;
	struct pair p;
	unsigned u;
	bool is;

	CHECK_OBJ_NOTNULL(hp, HTTP_MAGIC);
	if (!NP_LOAD(logins_any) || rec->site == NULL || !rec->headers.special)
		return (false);
	AZ(pthread_mutex_lock(&logins_mtx));
	is = pair_authorization(&p, hp) && login_known(rec, &p);
	for (u = HTTP_HDR_FIRST; !is && u < hp->nhd; u++) {
		b = header_value(hp, u, "Cookie:");
		while (!is && b != NULL && pair_next(&p, &b))
			is = pair_secret(&p) && login_known(rec, &p);
	}
	AZ(pthread_mutex_unlock(&logins_mtx));
	return (is);
}

/*--------------------------------------------------------------------
 * An answer
 */

static bool
method_is(const struct np_record *rec, const char *name)
{

	return (np_method_name[rec->method] != NULL &&
	    !strcmp(np_method_name[rec->method], name));
}

static bool
method_reads(const struct np_record *rec)
{

	return (method_is(rec, "GET") || method_is(rec, "HEAD"));
}

/*
 * WebDAV's answers. A program that answers whatever is asked with its front page
 * says 200.
 */
static bool
answer_dav(const struct np_record *rec, unsigned status)
{

	return ((status == 201 || status == 204 || status == 207) &&
	    !method_reads(rec) && !method_is(rec, "POST") &&
	    !method_is(rec, "OPTIONS"));
}

/* It was answered with this. Not: sent elsewhere. */
static bool
answer_opens(const struct np_record *rec, unsigned status)
{

	return (status / 100 == 2 ||
	    (status == 304 && method_reads(rec)));
}

/* Does the answer to a POST look as after a login, and not as after a failed one? */
static bool
answer_leads_on(const struct http *req, const struct http *resp,
    unsigned status)
{
	const char *to, *url = req->hd[HTTP_HDR_URL].b;
	size_t len;

	if (status != 302 && status != 303) {
		to = header_of(resp, "Content-Type:");
		return (to == NULL || (strncasecmp(to, "text/html", 9) &&
		    strncasecmp(to, "application/xhtml", 17)));
	}
	to = header_of(resp, "Location:");
	if (to == NULL || url == NULL)
		return (false);
	if (strstr(to, "://") != NULL) {
		to = strchr(strstr(to, "://") + 3, '/');
		if (to == NULL)
			to = "/";
	}
	/* A relative one may be the same path: it is not known. */
	len = strcspn(url, "?#");
	return (*to == '/' && (strcspn(to, "?#") != len ||
	    strncmp(to, url, len) != 0));
}

static void
answer_brought(const struct np_record *rec, const struct pair *p, unsigned status)
{
	struct login *l;

	l = login_find(login_key(rec, p));
	if (l == NULL)
		return;
	if (status == 401)
		l->state = LOGIN_NONE;
	else if (l->state == LOGIN_OFFERED || (l->state == LOGIN_DOUBTFUL &&
	    method_reads(rec) && answer_opens(rec, status) &&
	    (closed_is(rec, false) || closed_is(rec, true))))
		l->state = LOGIN_KNOWN;
}

static void
answer_cookies(const struct np_record *rec, const struct http *req,
    unsigned status)
{
	const char *b;
	struct pair p;
	unsigned u;

	for (u = HTTP_HDR_FIRST; u < req->nhd; u++) {
		b = header_value(req, u, "Cookie:");
		while (b != NULL && pair_next(&p, &b))
			if (pair_secret(&p))
				answer_brought(rec, &p, status);
	}
}

static void
answer_authorization(const struct np_record *rec, const struct http *req,
    unsigned status)
{
	struct pair p;

	if (!pair_authorization(&p, req))
		return;
	if (status == 401)
		answer_brought(rec, &p, status);
	else if (answer_opens(rec, status) &&
	    (closed_is(rec, false) || answer_dav(rec, status)))
		login_put(login_key(rec, &p), rec->address, LOGIN_KNOWN);
}

static void
answer_sets(const struct np_record *rec, const struct http *req,
    const struct pair *p, enum login_state state)
{
	struct pair had;
	struct login *l;
	uint64_t key = login_key(rec, p);

	if (cookie_of(req, p, true, &had))
		return;
	l = login_find(key);
	if (l != NULL && l->address != rec->address)
		l->state = LOGIN_SHARED;
	else if (cookie_of(req, p, false, &had) && pair_secret(&had) &&
	    login_known(rec, &had))
		/* The same session under another number. */
		login_put(key, rec->address, LOGIN_KNOWN);
	else if (state != LOGIN_NONE)
		login_put(key, rec->address, state);
}

static void
answer_set_cookies(const struct np_record *rec, const struct http *req,
    const struct http *resp, unsigned status)
{
	enum login_state state = LOGIN_NONE;
	const char *b;
	struct pair p;
	unsigned u;

	if (method_is(rec, "POST") && (status / 100 == 2 || status == 302 ||
	    status == 303))
		state = answer_leads_on(req, resp, status) ? LOGIN_OFFERED :
		    LOGIN_DOUBTFUL;
	for (u = HTTP_HDR_FIRST; u < resp->nhd; u++) {
		b = header_value(resp, u, "Set-Cookie:");
		if (b == NULL)
			continue;
		(void)pair_read(&p, b);
		if (pair_secret(&p))
			answer_sets(rec, req, &p, state);
	}
}

/* The server, and not the cache, has answered this. */
void
np_login_answered(const struct np_record *rec, const struct http *req,
    const struct http *resp)
{
	unsigned status;

	CHECK_OBJ_NOTNULL(req, HTTP_MAGIC);
	CHECK_OBJ_NOTNULL(resp, HTTP_MAGIC);
	if (rec->site == NULL)
		return;
	status = http_GetStatus(resp);
	if (method_reads(rec) && (status == 401 || status == 302 ||
	    status == 303))
		closed_note(rec, status != 401);
	if (status != 401 && (status < 200 || status >= 400))
		return;
	AZ(pthread_mutex_lock(&logins_mtx));
	answer_authorization(rec, req, status);
	answer_cookies(rec, req, status);
	if (status != 401)
		answer_set_cookies(rec, req, resp, status);
	AZ(pthread_mutex_unlock(&logins_mtx));
}
