/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The page's configuration, read as a whole into a snapshot, checked once, and
 * shared by all requests until a seq moves. What cannot be read (a controller
 * that died while writing) or is malformed leaves the previous reading in
 * force.
 */

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"

#include "naproxy.h"

#define TICK_US		1000000

static struct np_snap *snap_newest;	/* atomic, written under np_page_mtx */
static uint64_t snap_tick_us;		/* atomic */

/*--------------------------------------------------------------------
 * Snapshots. Every request takes one, so taking the newest needs no lock, and each
 * processor has its own count. A snapshot's memory is not reused for anything else
 * until we close. A thread that takes a snapshot which was just replaced sees that and
 * tries again. A taken snapshot has a count above zero from before its replacement
 * until its release.
 */

static struct np_snap *snap_old;	/* replaced; under np_page_mtx */

static bool
snap_unused(const struct np_snap *snap)
{
	unsigned u;

	for (u = 0; u < NP_STRIPES; u++)
		if (__atomic_load_n(&snap->refs[u].n, __ATOMIC_SEQ_CST) > 0)
			return (false);
	return (true);
}

static struct np_snap *
snap_new(void)
{
	struct np_snap **pp, *snap;

	for (pp = &snap_old; (snap = *pp) != NULL; pp = &snap->next) {
		CHECK_OBJ(snap, NP_SNAP_MAGIC);
		if (!snap_unused(snap))
			continue;
		*pp = snap->next;
		memset(&snap->next, 0, offsetof(struct np_snap, refs) -
		    offsetof(struct np_snap, next));
		return (snap);
	}
	snap = aligned_alloc(__alignof__(*snap), sizeof *snap);
	AN(snap);
	INIT_OBJ(snap, NP_SNAP_MAGIC);
	return (snap);
}

static void
snap_replace(struct np_snap *snap)
{
	struct np_snap *old = snap_newest;

	__atomic_store_n(&snap_newest, snap, __ATOMIC_SEQ_CST);
	if (old == NULL)
		return;
	old->next = snap_old;
	snap_old = old;
}

static void
snap_free_all(void)
{
	struct np_snap *snap;

	snap_replace(NULL);
	while ((snap = snap_old) != NULL) {
		snap_old = snap->next;
		FREE_OBJ(snap);
	}
}

/* The newest with a reference to it; of NULL if there is none yet. */
static void
snap_take(struct np_ref *ref)
{
	unsigned stripe;

	stripe = (unsigned)sched_getcpu() % NP_STRIPES;
	while ((ref->snap = NP_LOAD(snap_newest)) != NULL) {
		ref->count = &ref->snap->refs[stripe].n;
		(void)__atomic_add_fetch(ref->count, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&snap_newest, __ATOMIC_SEQ_CST) ==
		    ref->snap)
			break;
		np_snap_release(ref);
	}
}

void
np_snap_release(struct np_ref *ref)
{

	if (ref->snap == NULL)
		return;
	CHECK_OBJ(ref->snap, NP_SNAP_MAGIC);
	ref->snap = NULL;
	(void)__atomic_sub_fetch(ref->count, 1, __ATOMIC_SEQ_CST);
}

static bool
snap_current(const struct np_snap *snap)
{
	const struct naproxy_page *p = snap->map->page;
	unsigned u;

	if (NP_LOAD(p->nservers) != snap->nservers ||
	    NP_LOAD(p->seq) != snap->seq ||
	    NP_LOAD(p->names_seq) != snap->names_seq)
		return (false);
	for (u = 0; u < snap->nservers && u < NAPROXY_SERVERS; u++)
		if (NP_LOAD(p->server[u].seq) != snap->site_seq[u])
			return (false);
	return (true);
}

/* Where this one is, or would be. */
static unsigned
snap_spent_slot(const struct np_snap *snap, uint64_t who)
{
	unsigned u;

	/* It is never full. */
	for (u = who % NP_SPENT; snap->spent[u].who != 0 &&
	    snap->spent[u].who != who; u = (u + 1) % NP_SPENT)
		continue;
	return (u);
}

static void
snap_read_spent(struct np_snap *snap, const struct naproxy_page *copy)
{
	const struct naproxy_spent *s;
	struct naproxy_spent *ours;

	for (s = copy->spent; s < copy->spent + NAPROXY_MOST_SPENT; s++) {
		if (s->who == 0 || (s->servers | s->programs) == 0)
			continue;
		ours = &snap->spent[snap_spent_slot(snap, s->who)];
		ours->who = s->who;
		ours->servers |= s->servers;
		ours->programs |= s->programs;
		snap->nspent++;
	}
}

/* Is the share of this one used up, at this server? */
bool
np_snap_spent(const struct np_snap *snap, const struct np_site *site,
    const struct np_record *rec)
{
	const struct naproxy_spent *address, *network;
	uint32_t servers;

	CHECK_OBJ_NOTNULL(snap, NP_SNAP_MAGIC);
	if (rec->flags & NAPROXY_E_OWN)
		return (false);
	address = &snap->spent[snap_spent_slot(snap, rec->address)];
	if (site->conf.spent_mask >> rec->klass & 1)
		return (rec->klass != NAPROXY_PERSON ||
		    (address->servers >> NAPROXY_SHOWN >>
		    (site - snap->site) & 1) == 0);
	if (snap->nspent == 0)
		return (false);
	network = &snap->spent[snap_spent_slot(snap, rec->network)];
	servers = address->servers | network->servers;
	if (rec->klass != NAPROXY_PERSON)
		servers |= address->programs | network->programs;
	return (servers >> (site - snap->site) & 1);
}

static int
verified_compare(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return ((*one > *other) - (*one < *other));
}

/* Is this a page that the controller has verified? */
bool
np_snap_verified(const struct np_snap *snap, const struct np_site *site,
    uint64_t path)
{
	const uint64_t *table;
	size_t n;

	CHECK_OBJ_NOTNULL(snap, NP_SNAP_MAGIC);
	table = snap->verified[site - snap->site];
	for (n = 0; n < NAPROXY_VERIFIED && table[n] != 0; n++)
		continue;
	return (bsearch(&path, table, n, sizeof path, verified_compare) !=
	    NULL);
}

static void
snap_read_box(struct np_snap *snap, const struct np_snap *old,
    struct naproxy_page *copy)
{
	const struct naproxy_rule *r;
	const struct naproxy_learned *l;

	snap->seq = np_page_copy_box(copy, snap->map->page);
	if (snap->seq & 1) {
		np_page_complain("page: the box's configuration stays locked");
		if (old == NULL)
			return;
		snap->nrules = old->nrules;
		snap->browsers = old->browsers;
		snap->nspent = old->nspent;
		memcpy(snap->spent, old->spent, sizeof snap->spent);
		snap->nlearned = old->nlearned;
		memcpy(snap->rule, old->rule, sizeof snap->rule);
		memcpy(snap->rule_at, old->rule_at, sizeof snap->rule_at);
		memcpy(snap->learned, old->learned, sizeof snap->learned);
		memcpy(snap->notice, old->notice, sizeof snap->notice);
		return;
	}
	for (r = copy->rules; r < copy->rules + NAPROXY_RULES; r++) {
		if (r->kind == NAPROXY_RULE_NONE)
			continue;
		if (r->kind > NAPROXY_RULE_BROWSER || r->klass >= NAPROXY_CLASSES
		    || !page_string(r->text, sizeof r->text)) {
			np_page_complain("page: rule %d is malformed",
			    (int)(r - copy->rules));
			continue;
		}
		snap->rule_at[snap->nrules] = (uint8_t)(r - copy->rules);
		snap->rule[snap->nrules++] = *r;
		if (r->kind == NAPROXY_RULE_BROWSER)
			snap->browsers = true;
	}
	for (l = copy->learned; l < copy->learned + NAPROXY_LEARNED; l++)
		if (l->client != 0 && l->klass < NAPROXY_CLASSES)
			snap->learned[snap->nlearned++] = *l;
	snap_read_spent(snap, copy);
	memcpy(snap->verified, copy->verified, sizeof snap->verified);
	if (page_string(copy->notice, sizeof copy->notice))
		memcpy(snap->notice, copy->notice, sizeof snap->notice);
	else
		np_page_complain("page: a notice without end");
}

static void
snap_read_names(struct np_snap *snap, const struct np_snap *old,
    struct naproxy_page *copy)
{
	const struct naproxy_page *page = snap->map->page;
	const char *problem = NULL;

	if (old != NULL && old->map == snap->map &&
	    old->names_seq == NP_LOAD(page->names_seq)) {
		snap->names_seq = old->names_seq;
		snap->names = old->names;
		return;
	}
	snap->names_seq = np_page_copy_names(copy, page);
	if (snap->names_seq & 1)
		problem = "the names stay locked";
	else
		problem = np_page_names_problem(copy);
	if (problem == NULL) {
		np_names_read(&snap->names, copy);
		return;
	}
	np_page_complain("page: %s", problem);
	if (old != NULL && old->map == snap->map)
		snap->names = old->names;
}

static void
snap_read_site(struct np_snap *snap, const struct np_snap *old, unsigned u)
{
	struct np_site *site = &snap->site[u];
	const char *problem;
	unsigned v;

	snap->site_seq[u] = np_page_copy_server(&site->conf,
	    &snap->map->page->server[u]);
	if (snap->site_seq[u] & 1) {
		problem = "its configuration stays locked";
	} else {
		problem = np_page_server_problem(&site->conf);
		for (v = 0; problem == NULL && v < u; v++)
			if (snap->site[v].server != NULL &&
			    !strcmp(snap->site[v].conf.id, site->conf.id))
				problem = "the same id twice";
	}
	if (problem != NULL) {
		np_page_complain("page: server %u: %s", u, problem);
		if (old == NULL || old->map != snap->map)
			memset(site, 0, sizeof *site);
		else
			*site = old->site[u];
	}
	if (site->conf.id[0] == '\0')
		return;
	site->server = np_server_get(site->conf.id);
	if (site->server == NULL)
		np_page_complain("page: server %s: too many ids",
		    site->conf.id);
	else
		np_statistics_show(site->server);
}

const struct np_site *
np_snap_site(const struct np_snap *snap, const char *id)
{
	unsigned u;

	CHECK_OBJ_NOTNULL(snap, NP_SNAP_MAGIC);
	for (u = 0; u < NAPROXY_SERVERS; u++)
		if (snap->site[u].server != NULL &&
		    !strcmp(snap->site[u].server->id, id))
			return (&snap->site[u]);
	return (NULL);
}

/* The server of this host; NULL: none. */
const struct np_site *
np_snap_find(const struct np_snap *snap, const char *host)
{
	int server;

	CHECK_OBJ_NOTNULL(snap, NP_SNAP_MAGIC);
	server = np_names_find(&snap->names, host);
	if (server >= 0 && snap->site[server].server != NULL)
		return (&snap->site[server]);
	return (snap->other);
}

static void
snap_read_named(struct np_snap *snap)
{
	const struct naproxy_name *n;
	unsigned u;

	for (u = 0; u < NAPROXY_SERVERS; u++)
		snap->site[u].named = false;
	for (u = 0; u < NAPROXY_NAMES; u++) {
		n = &snap->names.name[u];
		if (n->name[0] == '\0')
			break;
		if (n->server < NAPROXY_SERVERS)
			snap->site[n->server].named = true;
	}
}

static void
snap_read_other(struct np_snap *snap)
{
	const struct np_site *site;

	for (site = snap->site; site < snap->site + NAPROXY_SERVERS; site++)
		if (site->server != NULL && snap->other == NULL &&
		    (site->conf.flags & NAPROXY_F_DEFAULT))
			snap->other = site;
}

/* The servers' records are those of this reading's page from now on. */
static void
snap_attach(const struct np_snap *snap)
{
	struct np_server *srv;
	const struct np_site *site;

	for (srv = np_servers(); srv != NULL; srv = srv->next) {
		site = np_snap_site(snap, srv->id);
		if (site == NULL)
			np_statistics_attach(srv, NULL, 0);
		else
			np_statistics_attach(srv,
			    &snap->map->page->server[site - snap->site],
			    (unsigned)(site - snap->site));
	}
}

static void
snap_renew(struct np_map *map)
{
	struct naproxy_page *copy;
	struct np_snap *snap, *old;
	unsigned u;

	snap = snap_new();
	copy = calloc(1, sizeof *copy);
	AN(copy);
	snap->map = map;
	snap->nservers = NP_LOAD(map->page->nservers);
	old = snap_newest;
	snap_read_box(snap, old, copy);
	for (u = 0; u < snap->nservers && u < NAPROXY_SERVERS; u++)
		snap_read_site(snap, old, u);
	snap_read_named(snap);
	snap_read_other(snap);
	snap_read_names(snap, old, copy);
	free(copy);
	snap_attach(snap);
	np_clients_attach(map->page);
	snap_replace(snap);
}

/*--------------------------------------------------------------------*/

/* Once a second: is there another page? */
static void
snap_look(void)
{
	struct np_map *map;

	map = np_page_look();
	if (map == NULL)
		return;
	snap_renew(map);
	np_page_use(map);
}

static void
snap_tick(void)
{
	uint64_t now, next;

	now = np_coarse_us();
	next = NP_LOAD(snap_tick_us);
	if (now < next || !__atomic_compare_exchange_n(&snap_tick_us, &next,
	    now + TICK_US, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	AZ(pthread_mutex_lock(&np_page_mtx));
	snap_look();
	AZ(pthread_mutex_unlock(&np_page_mtx));
}

void
np_page_snap(struct np_ref *ref)
{

	snap_tick();
	snap_take(ref);
	if (ref->snap == NULL || snap_current(ref->snap))
		return;
	np_snap_release(ref);
	AZ(pthread_mutex_lock(&np_page_mtx));
	if (snap_newest != NULL && !snap_current(snap_newest))
		snap_renew(snap_newest->map);
	AZ(pthread_mutex_unlock(&np_page_mtx));
	snap_take(ref);
}

/* The servers of the page are known before the first request comes. */
void
np_snap_begin(void)
{

	NP_STORE(snap_tick_us, 0);
	snap_tick();
}

void
np_snap_end(void)
{

	AZ(pthread_mutex_lock(&np_page_mtx));
	snap_free_all();
	AZ(pthread_mutex_unlock(&np_page_mtx));
}
