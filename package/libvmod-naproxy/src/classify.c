/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Who is asking: the list of crawlers, then what was learned of this client,
 * then the office's rules; the last that speaks decides.
 */

#include <arpa/inet.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cache/cache.h"
#include "vrt_obj.h"
#include "vsa.h"

#include "crawlers.h"
#include "naproxy.h"

const char * const np_class_name[] = {
	[NAPROXY_PERSON] = "person",
	[NAPROXY_CRAWLER] = "crawler",
	[NAPROXY_MONITOR] = "monitor",
	[NAPROXY_FEED] = "feed",
	[NAPROXY_API] = "api",
	[NAPROXY_SCANNER] = "scanner",
	[6] = "other",
	[7] = "other",
};

#define METHOD_POST	2	/* in np_method_name */

/*
 * The address that VCL set as client.identity, else the session's: behind a
 * TLS proxy on the box itself only VCL knows who is asking.
 */
const char *
np_client_address(VRT_CTX)
{
	const char *p = NULL;

	if (ctx->req != NULL)
		p = ctx->req->client_identity;
	if (p == NULL && ctx->sp != NULL)
		p = SES_Get_String_Attr(ctx->sp, SA_CLIENT_IP);
	return (p == NULL ? "" : p);
}

/* Two strings with a NUL between them. */
static uint64_t
classify_hash(uint64_t hash, const char *second)
{

	return (np_hash_end(np_hash(hash, second, strlen(second))));
}

/*--------------------------------------------------------------------
 * Where the client is. Most addresses come from the socket: each request
 * needs this, and to read a text would cost it more.
 */

struct place {
	uint8_t		family;		/* 4, 6; 0: not an address */
	uint8_t		bytes[16];
};

static void
place_of_text(struct place *place, const char *text)
{

	if (inet_pton(AF_INET, text, place->bytes) == 1)
		place->family = 4;
	else if (inet_pton(AF_INET6, text, place->bytes) == 1)
		place->family = 6;
}

static void
place_of_socket(VRT_CTX, struct place *place)
{
	const unsigned char *p = NULL;
	VCL_IP ip;
	int family;

	ip = VRT_r_client_ip(ctx);
	family = ip == NULL ? AF_UNSPEC : VSA_GetPtr(ip, &p);
	if (family == AF_INET) {
		place->family = 4;
		memcpy(place->bytes, p, 4);
	} else if (family == AF_INET6) {
		place->family = 6;
		memcpy(place->bytes, p, 16);
	}
}

/* IPv4 written as IPv6 is the same client. */
static void
place_plain(struct place *place)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (place->family != 6 ||
	    memcmp(place->bytes, mapped, sizeof mapped) != 0)
		return;
	place->family = 4;
	memmove(place->bytes, place->bytes + sizeof mapped, 4);
}

/* The part that goes into a record. Each thread remembers its last connection's. */
struct place_memo {
	uint64_t	session;
	uint64_t	address;
	uint64_t	network;
	uint8_t		flags;
};

static void
place_read(VRT_CTX, const char *text, struct place_memo *m)
{
	struct place place;

	memset(&place, 0, sizeof place);
	if (text != NULL)
		place_of_text(&place, text);
	else
		place_of_socket(ctx, &place);
	place_plain(&place);
	m->flags = page_own_address(place.family, place.bytes) ? NAPROXY_E_OWN : 0;
	if (place.family == 0) {
		m->address = m->network = classify_hash(np_hash(0, "", 1),
		    np_client_address(ctx));
		return;
	}
	m->address = page_address_hash(place.family, place.bytes);
	m->network = page_network_hash(place.family, place.bytes);
}

/* The hashes of address and network, see naproxy_page.h, and E_OWN. */
void
np_classify_address(VRT_CTX, struct np_record *rec)
{
	static __thread struct place_memo last;
	struct place_memo said, *m = &last;

	if (ctx->req != NULL && ctx->req->client_identity != NULL) {
		m = &said;
		place_read(ctx, ctx->req->client_identity, m);
	} else if (last.session != VXID(ctx->sp->vxid)) {
		last.session = VXID(ctx->sp->vxid);
		place_read(ctx, NULL, m);
	}
	rec->address = m->address;
	rec->network = m->network;
	rec->flags |= m->flags;
	rec->inside = (m->flags & NAPROXY_E_OWN) != 0;
}

/*--------------------------------------------------------------------
 * What User-Agent says. Most requests bring one of a few, and reading it
 * costs as much as the rest of select(): each thread remembers some.
 */

#define MEMO_ENTRIES	4
#define MEMO_LEN	256

struct memo {
	char		ua[MEMO_LEN];	/* with its NUL */
	size_t		size;		/* 0: unused */
	uint64_t	hash;
	uint32_t	agent;
};

struct memo_set {
	struct memo	entry[MEMO_ENTRIES];
	unsigned	next;
};

static __thread struct memo_set memos;

static void
classify_read(struct memo *m, const char *ua, size_t size)
{

	m->hash = np_hash(0, ua, size);
	m->agent = crawlers_match(ua);
}

static void
classify_memo(struct np_record *rec, const char *ua)
{
	struct memo_set *set = &memos;
	struct memo big, *m;
	size_t size;

	size = strlen(ua) + 1;
	for (m = set->entry; m < set->entry + MEMO_ENTRIES; m++)
		if (m->size == size && !memcmp(m->ua, ua, size))
			break;
	if (m == set->entry + MEMO_ENTRIES && size > MEMO_LEN) {
		m = &big;
		classify_read(m, ua, size);
	} else if (m == set->entry + MEMO_ENTRIES) {
		m = &set->entry[set->next++ % MEMO_ENTRIES];
		memcpy(m->ua, ua, size);
		m->size = size;
		classify_read(m, ua, size);
	}
	rec->client = m->hash;
	rec->agent = m->agent;
}

/*
 * "WordPress/6.4; https://www.example.org" asks www.example.org: a site calls
 * itself, for the jobs that it has after a visit. It must not keep itself awake.
 */
static bool
classify_itself(const struct np_record *rec, const char *ua)
{
	const char *host = rec->headers.host, *p;
	size_t len;

	p = strstr(ua, "://");
	if (p == NULL || host == NULL)
		return (false);
	p += 3;
	len = strcspn(p, "/:;) ");
	return (len > 0 && !strncasecmp(p, host, len) &&
	    (host[len] == '\0' || host[len] == ':'));
}

static uint8_t
classify_agent(const struct np_record *rec, const char *ua)
{
	uint8_t klass;

	if (rec->agent != CRAWLERS_NONE) {
		klass = crawlers_agent[rec->agent].klass;
		if (klass == NAPROXY_API && classify_itself(rec, ua))
			return (NAPROXY_CRAWLER);
		return (klass);
	}
	if (!strncmp(ua, "Mozilla/", 8) || !strncmp(ua, "Opera/", 6))
		return (NAPROXY_PERSON);
	return (NAPROXY_API);
}

/* A request that robots do not make shows that the guess was wrong. */
static void
classify_again(VRT_CTX, struct np_record *rec, const char *ua)
{

	if (!np_robot(rec->klass) || !np_guessed(rec) ||
	    !np_never_refused(ctx, rec))
		return;
	rec->flags &= (uint8_t)~NAPROXY_E_LEARNED;
	rec->klass = classify_agent(rec, ua);
	if (np_robot(rec->klass))
		rec->klass = NAPROXY_API;
}

/*--------------------------------------------------------------------
 * The office's rules
 */

/* ADDRESS or ADDRESS/BITS. */
static bool
rule_address(const char *text, const char *client)
{
	unsigned char net[16], addr[16];
	char buf[NAPROXY_RULE_LEN];
	unsigned bits, len;
	char *slash, *end;
	int family;

	bprintf(buf, "%s", text);
	slash = strchr(buf, '/');
	if (slash != NULL)
		*slash++ = '\0';
	family = strchr(buf, ':') != NULL ? AF_INET6 : AF_INET;
	if (inet_pton(family, buf, net) != 1 ||
	    inet_pton(family, client, addr) != 1)
		return (false);
	len = bits = family == AF_INET6 ? 128 : 32;
	if (slash != NULL) {
		bits = (unsigned)strtoul(slash, &end, 10);
		if (*slash < '0' || *slash > '9' || *end != '\0' || bits > len)
			return (false);
	}
	if (memcmp(net, addr, bits / 8) != 0)
		return (false);
	if (bits % 8 == 0)
		return (true);
	return ((net[bits / 8] ^ addr[bits / 8]) >> (8 - bits % 8) == 0);
}

static bool
rule_of(const struct naproxy_rule *r, const struct np_record *rec)
{

	return (r->server == 255 ||
	    r->server == rec->site - rec->ref.snap->site);
}

static bool
rule_path(const struct naproxy_rule *r, const char *url)
{

	return (!strncmp(url, r->text, strlen(r->text)));
}

static bool
rule_matches(const struct naproxy_rule *r, const char *ua, const char *url,
    const char *client)
{

	switch (r->kind) {
	case NAPROXY_RULE_PATH:
	case NAPROXY_RULE_WORK:
		return (rule_path(r, url));
	case NAPROXY_RULE_ADDRESS:
		return (rule_address(r->text, client));
	case NAPROXY_RULE_AGENT:
		return (strcasestr(ua, r->text) != NULL);
	default:
		return (false);
	}
}

/* A search engine that was refused for long, from a network of its own? */
static bool
classify_let_in(const struct naproxy_learned *l, const struct np_record *rec)
{

	return (l->client == rec->network && rec->agent != CRAWLERS_NONE &&
	    crawlers_agent[rec->agent].engine != NULL &&
	    (l->wakes >> (rec->site - rec->ref.snap->site) & 1));
}

static void
classify_rules(struct np_record *rec, const char *ua, const char *url,
    const char *client)
{
	const struct np_snap *snap = rec->ref.snap;
	const struct naproxy_rule *r;
	unsigned u;

	for (u = 0; u < snap->nrules; u++) {
		r = &snap->rule[u];
		if (!rule_of(r, rec) || !rule_matches(r, ua, url, client))
			continue;
		if (r->kind == NAPROXY_RULE_WORK) {
			/* This rule says nothing about the class: continue. */
			rec->flags |= NAPROXY_E_WORK;
			continue;
		}
		rec->klass = r->klass;
		rec->rule = snap->rule_at[u] + 1;
		rec->flags |= NAPROXY_E_RULE | NAPROXY_E_OWN;
		return;
	}
	for (u = 0; u < snap->nlearned; u++) {
		if (snap->learned[u].wakes != 0) {
			rec->let_in |= classify_let_in(&snap->learned[u], rec);
			continue;
		}
		if (snap->learned[u].client != rec->client)
			continue;
		rec->klass = (uint8_t)snap->learned[u].klass;
		rec->flags |= NAPROXY_E_LEARNED;
		return;
	}
}

/* Seconds from the office's first rule of this kind for a path; -1: no rule. */
double
np_rule_s(const struct np_record *rec, unsigned kind, const char *url)
{
	const struct np_snap *snap = rec->ref.snap;
	const struct naproxy_rule *r;
	unsigned u;

	if (snap == NULL || rec->site == NULL || url == NULL)
		return (-1);
	for (u = 0; u < snap->nrules; u++) {
		r = &snap->rule[u];
		if (r->kind == kind && rule_of(r, rec) &&
		    rule_path(r, url))
			return (r->keep_s);
	}
	return (-1);
}

static bool
classify_page_load(const struct np_record *rec)
{
	const struct np_headers *h = &rec->headers;

	if (rec->klass != NAPROXY_PERSON ||
	    strcmp(np_method_name[rec->method] == NULL ? "" :
	    np_method_name[rec->method], "GET"))
		return (false);
	if (h->accept == NULL || strcasestr(h->accept, "text/html") == NULL)
		return (false);
	if (h->fetch_mode != NULL && strcasecmp(h->fetch_mode, "navigate"))
		return (false);
	return (h->requested_with == NULL && h->upgrade == NULL);
}

static uint8_t
classify_method(const char *method)
{
	uint8_t u;

	for (u = 0; np_method_name[u] != NULL; u++)
		if (method != NULL && !strcmp(np_method_name[u], method))
			break;
	return (u);
}

static const char *
classify_text(const char *header)
{

	return (header == NULL ? "" : header);
}

/* The site, if any, is chosen already, and the headers are read. */
void
np_classify(VRT_CTX, struct np_record *rec)
{
	const struct http *hp = ctx->http_req;
	const char *ua, *url, *client;

	CHECK_OBJ_NOTNULL(hp, HTTP_MAGIC);
	ua = classify_text(rec->headers.user_agent);
	url = classify_text(hp->hd[HTTP_HDR_URL].b);
	client = np_client_address(ctx);
	classify_memo(rec, ua);
	rec->client = classify_hash(rec->client, client);
	rec->path = np_path_hash(rec->headers.host, url, strlen(url));
	rec->method = classify_method(hp->hd[HTTP_HDR_METHOD].b);
	rec->event_path = rec->method != METHOD_POST ? rec->path :
	    np_path_hash(rec->headers.host, url, strcspn(url, "?"));
	rec->flags = 0;
	rec->let_in = false;
	rec->klass = classify_agent(rec, ua);
	np_classify_address(ctx, rec);
	if (np_login_known(rec, hp))
		rec->flags |= NAPROXY_E_OWN;
	if (rec->site != NULL) {
		classify_rules(rec, ua, url, client);
		classify_again(ctx, rec, ua);
		if (!rec->let_in &&
		    np_snap_spent(rec->ref.snap, rec->site, rec))
			rec->flags |= NAPROXY_E_SPENT;
	}
	if (classify_page_load(rec))
		rec->flags |= NAPROXY_E_PAGE_LOAD;
}
