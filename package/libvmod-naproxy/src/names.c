/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Which server serves a host name. Each request asks, of at most 384 names: by
 * a hash table with open addressing, which is never more than half full.
 */

#include <string.h>
#include <unistd.h>

#include "cache/cache.h"

#include "naproxy.h"

/*--------------------------------------------------------------------
 * The table
 */

/* Behind a name are NULs, up to the end of the word that its last byte is in. */
#define NAMES_BUF	(NAPROXY_NAME_LEN + sizeof (uint64_t))

/* A word at a time, mixed as Fibonacci hashing does (Knuth 6.4). */
static unsigned
names_hash(const char *name, size_t len, unsigned below)
{
	uint64_t hash = len << 1 | below, word;
	size_t u;

	for (u = 0; u < len; u += sizeof word) {
		memcpy(&word, name + u, sizeof word);
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	return ((unsigned)hash % NP_NAMES);
}

/* Where this one is, or would be. */
static unsigned
names_slot(const struct np_names *names, const char *name, size_t len,
    unsigned below)
{
	const struct naproxy_name *n;
	unsigned u;

	/* It is never full. */
	for (u = names_hash(name, len, below); names->slot[u] != 0;
	    u = (u + 1) % NP_NAMES) {
		n = &names->name[names->slot[u] - 1];
		if (names->len[names->slot[u] - 1] == len &&
		    n->flags == below && !memcmp(n->name, name, len))
			break;
	}
	return (u);
}

/* A copy without a problem. */
void
np_names_read(struct np_names *names, const struct naproxy_page *copy)
{
	char name[NAMES_BUF];
	unsigned u, slot;
	size_t len;

	memset(names, 0, sizeof *names);
	memcpy(names->name, copy->names, sizeof names->name);
	memcpy(names->challenge, copy->challenge, sizeof names->challenge);
	for (u = 0; u < NAPROXY_NAMES && names->name[u].name[0] != '\0'; u++) {
		len = strlen(names->name[u].name);
		names->len[u] = (uint8_t)len;
		memset(name, 0, sizeof name);
		memcpy(name, names->name[u].name, len);
		slot = names_slot(names, name, len, names->name[u].flags);
		if (names->slot[slot] == 0)
			names->slot[slot] = (uint16_t)(u + 1);
	}
	for (u = 0; u < NAPROXY_CHALLENGES; u++)
		if (names->challenge[u].token[0] != '\0')
			names->nchallenges++;
}

/*--------------------------------------------------------------------
 * Questions
 */

/* `WWW.example.org:8080` is www.example.org; 0 if it cannot be one of ours. */
static size_t
names_host(char dst[NAMES_BUF], const char *host)
{
	size_t len;
	char end, c;

	if (host == NULL)
		return (0);
	end = *host == '[' ? ']' : ':';
	for (len = 0; (c = host[len]) != '\0' && c != end; len++) {
		if (len == NAPROXY_NAME_LEN)
			return (0);
		dst[len] = c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
	}
	if (c == ']' && len < NAPROXY_NAME_LEN)
		dst[len++] = ']';
	if (len > 0 && dst[len - 1] == '.')
		len--;
	memset(dst + len, 0, sizeof (uint64_t));
	return (len);
}

static int
names_at(const struct np_names *names, const char *name, size_t len,
    unsigned below)
{
	unsigned n = names->slot[names_slot(names, name, len, below)];

	return (n == 0 ? -1 : names->name[n - 1].server);
}

/* The index of its server; -1: nobody's. */
int
np_names_find(const struct np_names *names, const char *host)
{
	char name[NAMES_BUF];
	const char *dot;
	size_t len, label;
	int server;

	len = names_host(name, host);
	if (len == 0)
		return (-1);
	server = names_at(names, name, len, 0);
	if (server >= 0)
		return (server);
	dot = memchr(name, '.', len);
	if (dot == NULL || dot == name)
		return (-1);
	label = (size_t)(dot - name) + 1;
	return (names_at(names, dot + 1, len - label, NAPROXY_N_BELOW));
}

/* The answer to a certificate issuer's challenge; NULL: none. */
const char *
np_names_answer(const struct np_names *names, const char *token)
{
	const struct naproxy_challenge *c;

	if (names->nchallenges == 0 || *token == '\0')
		return (NULL);
	for (c = names->challenge; c < names->challenge + NAPROXY_CHALLENGES;
	    c++)
		if (!strcmp(c->token, token))
			return (c->answer);
	return (NULL);
}

/* Is it a name of DNS that is neither an address nor the box's own? */
bool
np_names_proper(const char *host)
{
	char name[NAMES_BUF], own[NAPROXY_NAME_LEN + 1];
	size_t len, label;

	len = names_host(name, host);
	if (len == 0 || name[0] == '[')
		return (false);
	if (strspn(name, "0123456789.") == len || !strcmp(name, "localhost"))
		return (false);
	if (gethostname(own, sizeof own) != 0)
		return (false);
	own[sizeof own - 1] = '\0';
	/* Routers and mDNS know the box by its name with a suffix of theirs. */
	label = strcspn(name, ".");
	return (label != strcspn(own, ".") || strncasecmp(name, own, label));
}
