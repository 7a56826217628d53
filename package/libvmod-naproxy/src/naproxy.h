/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What the VMOD's files share. Include after cache/cache.h.
 *
 *   page_map.c       maps the page, checks it, knows whether to trust it
 *   server.c         a server by its id: its state, whose turn it is
 *   reach.c          whether it still takes connections
 *   statistics.c     a server's gauges; the page's counters for varnishstat
 *   clients.c        who has requests in flight, and how many there may be
 *   names.c          which server serves a host name
 *   page_snapshot.c  reads the page's configuration, for all requests
 *   hash.c           the hashes that stand in the page
 *   headers.c        reads a request's headers, once
 *   variant.c        which of a page's variants a request is for
 *   logins.c         which cookies and passwords the server has accepted
 *   never_refused.c  what is not refused, whoever is asking
 *   classify.c       who is asking
 *   visit.c          whether a request proves that the server's name leads here
 *   changed.c        when requests changed what the cache may have
 *   files.c          which addresses are of files
 *   cookies.c        whose cookies pages do not depend on
 *   accept.c         which images a browser takes, in few ways
 *   emptied.c        what somebody took out of the cache
 *   stored.c         tells the controller what the cache keeps
 *   as_sent.c        keeps what is called gzip as it was sent
 *   wake.c           datagram and magic packet
 *   hold.c           waits for the server, lets waiters go in stages
 *   decide.c         what becomes of a request that needs its server
 *   stream.c         a response's body: silence, its client, what came with its head
 *   watch.c          ends connections to servers that are gone, and silent pipes
 *   director.c       a back end whose address comes from the page
 *   record.c         what became of a request: counted once, when it ends
 *   language.c       Accept-Language
 *   vmod_naproxy.c   what VCL sees
 *
 * The lower one comes first: each calls only those above it in this list.
 * Only director.c and record.c call each other.
 */

#ifndef NAPROXY_H_INCLUDED
#define NAPROXY_H_INCLUDED

#include <stdbool.h>

#include "compat.h"
#include "naproxy_page.h"
#include "page_read.h"

struct VSC_naproxy;
struct np_changes;
struct np_client;
struct vsc_seg;

/* A mapping of the page's files. Never unmapped while VCL uses us. */
struct np_map {
	unsigned		magic;
#define NP_MAP_MAGIC		0x5a3c9b01
	struct naproxy_page	*page;
	struct naproxy_events	*events;	/* NULL: none */
	struct naproxy_stores	*stores;	/* the same */
	struct np_map		*older;
};

/* A server as this process knows it, by its id; lives as long as we do. */
struct np_server {
	unsigned		magic;
#define NP_SERVER_MAGIC		0x7d1c0e5b
	char			id[NAPROXY_ID_LEN];
	struct np_server	*next;

	/* Its record in the newest page, NULL if it has none. Atomic. */
	struct naproxy_server	*live;
	uint32_t		index;

	/* Gauges, and their mirror in the page; under mtx. */
	pthread_mutex_t		mtx;
	uint32_t		held;
	uint32_t		fetching;
	uint32_t		piping;

	/* Staged release, under mtx. */
	uint64_t		stage_us;
	uint32_t		stage_n;

	uint64_t		woken_us;	/* atomic, as the next */
	uint64_t		answered_us;	/* took a connection, or answered */
	uint64_t		silent_us;	/* took none; 0: it does */
	uint64_t		reach_us;	/* asked while silent */
	uint64_t		told_us;	/* of a search engine */
	uint64_t		crawled_us;	/* see crawl_ms */
	uint64_t		emptied_us;	/* emptied.c */
	struct np_changes	*changes;	/* changed.c; NULL: none; atomic */

	struct VSC_naproxy	*vsc;
	struct vsc_seg		*vsc_seg;
};

struct np_site {
	struct np_server	*server;	/* NULL: unused slot */
	struct naproxy_server	conf;		/* configuration only */
	bool			named;		/* it has names */
};

/* A hash table: twice as large as the page's list, so that it is fast. */
#define NP_SPENT	(2 * NAPROXY_MOST_SPENT)

/* A hash table, too. */
#define NP_NAMES	1024

struct np_names {
	struct naproxy_name	name[NAPROXY_NAMES];
	uint8_t			len[NAPROXY_NAMES];
	uint16_t		slot[NP_NAMES];	/* 1 + its index in name; 0 */
	unsigned		nchallenges;
	struct naproxy_challenge	challenge[NAPROXY_CHALLENGES];
};

/* References, counted for each processor: together they fight for one word. */
#define NP_STRIPES	8

struct np_refs {
	unsigned		n;		/* atomic */
} __attribute__((aligned(64)));

/*
 * One consistent reading of the page's configuration. Immutable while anybody
 * refers to it, then used again for another reading.
 */
struct np_snap {
	unsigned		magic;
#define NP_SNAP_MAGIC		0x2be9d410
	struct np_snap		*next;		/* once replaced */
	struct np_map		*map;
	uint32_t		nservers;
	uint32_t		seq;
	uint32_t		names_seq;
	uint32_t		site_seq[NAPROXY_SERVERS];
	struct np_site		site[NAPROXY_SERVERS];
	const struct np_site	*other;		/* serves hosts nobody names */
	struct np_names		names;
	unsigned		nrules;
	bool			browsers;	/* a rule is for them */
	unsigned		nlearned;
	struct naproxy_rule	rule[NAPROXY_RULES];
	uint8_t			rule_at[NAPROXY_RULES];	/* index in the page */
	struct naproxy_learned	learned[NAPROXY_LEARNED];
	unsigned		nspent;
	struct naproxy_spent	spent[NP_SPENT];
	uint64_t		verified[NAPROXY_SERVERS][NAPROXY_VERIFIED];
	char			notice[NAPROXY_NOTICE_LEN];
	struct np_refs		refs[NP_STRIPES];
};

/* A reference to a snapshot, and where it is counted. */
struct np_ref {
	struct np_snap		*snap;
	unsigned		*count;
};

/* The headers of a request that matter to us; NULL: missing. */
struct np_headers {
	const char		*host;
	const char		*user_agent;
	const char		*accept;
	const char		*fetch_mode;
	const char		*requested_with;
	const char		*upgrade;
	const char		*forwarded_for;
	size_t			bytes;		/* of the whole head */
	bool			large;		/* more than we take */
	bool			special;	/* others that VCL must see to */
	bool			credential;	/* one that may say who is asking */
	bool			own_credential;	/* and not from a proxy for its client */
	bool			varies;		/* one that the server may answer by */
};

/* How a request in flight is counted; see clients.c. */
struct np_counted_as {
	uint8_t			place;		/* 1 + its server's index; 0: none */
	uint8_t			klass;
	bool			own;
};

/* Cases that VCL distinguishes besides the outcomes. */
enum np_case {
	NP_FIRST_CASE = NAPROXY_OUTCOMES - 1,
#define NP_CASE(name, word, outcome, said)	NP_##name,
	NAPROXY_CASE_LIST(NP_CASE)
#undef NP_CASE
};

/* Our data about a task: a request, or a fetch. */
struct np_record {
	unsigned		magic;
#define NP_RECORD_MAGIC		0x91c7a2f6
	struct np_ref		ref;		/* ours to release */
	const struct np_site	*site;		/* NULL: no server */
	VCL_BACKEND		backend;	/* ours to release */

	/* Of a request. */
	struct np_headers	headers;
	uint64_t		start_us;
	uint64_t		delay_us;
	uint64_t		unready_us;	/* of a fetch: first told so */
	uint64_t		client;
	uint64_t		path;
	uint64_t		event_path;
	uint64_t		address;	/* hash; 0: not looked at yet */
	uint64_t		network;
	struct np_client	*admitted;	/* NULL: not in flight */
	struct np_counted_as		counted_as;
	VTAILQ_ENTRY(np_record)	in_flight;
	uint32_t		agent;
	uint8_t			klass;
	uint8_t			flags;		/* NAPROXY_E_* */
	uint8_t			became;		/* an outcome, or enum np_case */
	uint8_t			outcome;	/* that of it */
	uint8_t			method;
	uint8_t			rule;		/* as in naproxy_event */
	uint8_t			reason;		/* of the last wake */
	uint16_t		status;
	bool			inside;		/* an address of the office's */
	bool			slept;		/* asleep when it came */
	bool			woke;		/* asked for a wake */
	bool			held;
	bool			counted;
	bool			fetching;
	bool			once;		/* on a new connection */
	bool			plain;		/* its client takes no gzip */
	bool			piping;
	bool			endless;	/* a fetch: of a stream */
	bool			uses;		/* in flight at its server */
	bool			usual;		/* usual() was true */
	bool			let_in;		/* a robot that may wake it */
	bool			visits;		/* by its name, from elsewhere */
	bool			tls;		/* over HTTPS */
};

static inline bool
np_robot(unsigned klass)
{

	return ((NAPROXY_BUDGET >> klass & 1) == 0);
}

/* page_map.c */
#define NP_DIR_MAX		96	/* with a name it fits a sockaddr_un */
void np_page_open(const char *run_dir);
const char *np_page_dir(void);
void np_page_close(void);
struct np_map *np_page_map(void);
bool np_page_trusted(void);
unsigned np_page_servers(void);

/*
 * Held while another page or reading is put in use, while the list of servers
 * is walked, and to complain.
 */
extern pthread_mutex_t np_page_mtx;
struct np_map *np_page_look(void);		/* NULL: nothing new */
void np_page_use(struct np_map *);
void np_page_complain(const char *, ...) v_printflike_(1, 2);
const char *np_page_server_problem(const struct naproxy_server *);
const char *np_page_names_problem(const struct naproxy_page *copy);
/* Only the configuration; an odd number: it could not be had. */
uint32_t np_page_copy_box(struct naproxy_page *, const struct naproxy_page *);
uint32_t np_page_copy_names(struct naproxy_page *, const struct naproxy_page *);
uint32_t np_page_copy_server(struct naproxy_server *,
    const struct naproxy_server *);

/* server.c */
struct np_server *np_server_get(const char *id);	/* under np_page_mtx */
struct np_server *np_servers(void);			/* the same */
struct np_server *np_server_find(const char *id);	/* NULL: not known */
void np_servers_free(void);
uint32_t np_server_state(const struct np_server *);
bool np_server_available(const struct np_server *);
bool np_server_silent(const struct np_server *);
double np_server_frozen_s(const struct np_server *);	/* 0: it is awake */
bool np_server_woke(const struct np_server *, double ago_s);
bool np_server_settling(const struct np_server *, uint32_t window_ms);
uint64_t np_server_turn(struct np_server *, const struct naproxy_server *,
    uint64_t now_us);

/* reach.c */
void np_reach(const struct np_site *, bool surely);
void np_reach_answered(struct np_server *);

/* statistics.c */
/* A thread copies counters, while a VCL of ours is warm. */
void np_statistics_begin(void);
void np_statistics_show(struct np_server *);
void np_statistics_attach(struct np_server *, struct naproxy_server *live,
    unsigned index);
void np_statistics_end(void);
void np_statistics_forget(void);		/* before np_servers_free() */
bool np_gauge_hold(struct np_server *, uint32_t cap);
void np_gauge_unhold(struct np_server *);
void np_gauge_fetching(struct np_server *, int);
void np_gauge_piping(struct np_server *, int);

/* clients.c */
void np_clients_attach(struct naproxy_page *);	/* NULL: there is none */
const char *np_clients_most(intmax_t most);
unsigned np_clients_half(void);			/* of those that may be in flight */
bool np_clients_admit(struct np_record *, bool uses);
void np_clients_leave(struct np_record *);
bool np_clients_wait(void);
void np_clients_waited(void);
bool np_clients_fits(const struct sess *, uint64_t bytes);
bool np_clients_sent(const struct req *);
void np_clients_patience(const struct sess *);
void np_clients_hang_up(const struct sess *);

/* names.c */
void np_names_read(struct np_names *, const struct naproxy_page *copy);
int np_names_find(const struct np_names *, const char *host);
bool np_names_proper(const char *host);
const char *np_names_answer(const struct np_names *, const char *token);

/* page_snapshot.c */
void np_snap_begin(void);
void np_snap_end(void);
void np_page_snap(struct np_ref *);		/* of NULL: no page yet */
void np_snap_release(struct np_ref *);
const struct np_site *np_snap_site(const struct np_snap *, const char *id);
const struct np_site *np_snap_find(const struct np_snap *, const char *host);
bool np_snap_spent(const struct np_snap *, const struct np_site *,
    const struct np_record *);
bool np_snap_verified(const struct np_snap *, const struct np_site *,
    uint64_t path);

/* hash.c */
uint64_t np_hash(uint64_t, const char *, size_t);	/* 0: the first */
uint64_t np_hash_end(uint64_t);				/* never 0 */
uint64_t np_path_hash(const char *host, const char *url, size_t len);

/* headers.c */
extern const char * const np_method_name[];
const char *np_header(const struct http *, hdr_t);
void np_headers_begin(void);
void np_headers_read(struct np_headers *, const struct http *);
bool np_headers_usual(const struct np_headers *, const struct http *);
bool np_header_varies(txt);
void np_headers_plain(struct http *, bool believed);
void np_headers_single(struct http *);

/* logins.c */
bool np_login_known(const struct np_record *, const struct http *req);
void np_login_answered(const struct np_record *, const struct http *req,
    const struct http *resp);

/* never_refused.c */
bool np_guessed(const struct np_record *);
bool np_never_refused(VRT_CTX, const struct np_record *);

/* classify.c */
extern const char * const np_class_name[];
const char *np_client_address(VRT_CTX);
void np_classify_address(VRT_CTX, struct np_record *);
void np_classify(VRT_CTX, struct np_record *);
double np_rule_s(const struct np_record *, unsigned kind, const char *url);

/* visit.c */
void np_visit(VRT_CTX, struct np_record *, const char *host);
void np_visit_count(const struct np_record *, struct naproxy_server *);

/* changed.c */
void np_changed_fetch(struct np_server *, const struct http *bereq);
void np_changed(const struct np_record *, const struct http *req);
bool np_changed_since(const struct np_record *, const struct http *req, double t);
void np_changed_end(struct np_server *);

/* files.c */
bool np_file(const char *url);
bool np_file_frozen(VRT_CTX, const struct np_record *, const char *url,
    long status);

/* cookies.c */
bool np_header_private(const struct naproxy_server *, txt);
bool np_cookies_harmless(const struct naproxy_server *conf, const char *);
void np_cookies_not_ours(char *, const char *);

/* accept.c */
void np_accept_images(struct http *);

/* variant.c */
#define NP_ACCEPT_MOST	32			/* with its zero, of the next */
void np_accept_short(char *, const char *accept, const char *url);
const char *np_variant(VRT_CTX, const struct np_record *);	/* NULL: the usual */

/* emptied.c */
bool np_empty(struct np_server *, const char *path, bool exact);
void np_emptied_now(void);
bool np_emptied_since(const struct np_record *, const char *url, double t);
bool np_emptied_meanwhile(double t);

/* stored.c */
void np_stored(VRT_CTX, const struct np_record *, bool https);

/* as_sent.c */
const char *np_as_sent_begin(VRT_CTX);		/* NULL, or the error */
void np_as_sent_end(VRT_CTX);

/* wake.c */
int np_wake_open(const char *run_dir);
void np_wake_close(void);
void np_wake(VRT_CTX, const struct np_record *);
void np_wake_refused(VRT_CTX, const struct np_record *);
bool np_wake_paced(VRT_CTX, const struct np_record *);

/* hold.c */
enum naproxy_outcome np_hold(VRT_CTX, struct np_record *);
bool np_hold_fetch(VRT_CTX, struct np_record *);	/* is it up? */
bool np_hold_ready(VRT_CTX, struct np_record *);	/* ask again? */

/* decide.c */
bool np_may_wake(VRT_CTX, const struct np_record *);
unsigned np_decide(VRT_CTX, struct np_record *);	/* as became */

/* stream.c */
bool np_stream_begin(struct busyobj *);
void np_silent_begin(void);
void np_silent_end(void);
bool np_silent_over(uint64_t us);
uint64_t np_silent_most_us(uint32_t conf_ms);

/* watch.c */
/* A thread, while a VCL of ours is warm. */
void np_watch_start(void);
void np_watch_stop(void);
void np_watch_begin(void);			/* a request goes to its server */
void np_watch_done(void);
struct np_pipe {
	unsigned		magic;
#define NP_PIPE_MAGIC		0x2f90d6a5
	int			fd;		/* its client's */
	uint64_t		idle_us;	/* longest silence */
	bool			over;
	VTAILQ_ENTRY(np_pipe)	list;
};
void np_pipe_begin(struct np_pipe *, int fd, const struct np_site *);
void np_pipe_end(struct np_pipe *);

/* director.c */
struct np_vcl;
struct np_vcl *np_vcl_new(VRT_CTX);
void np_vcl_free(struct np_vcl **);
VCL_BACKEND np_director(VRT_CTX, struct np_vcl *, struct np_server *);
/* A back end of its own for this client's connection, if there is one to be had. */
void np_director_own(VRT_CTX, VCL_BACKEND);
bool np_director_owns(VRT_CTX, VCL_BACKEND);	/* has it one? */
const struct np_server *np_director_server(VCL_BACKEND);

/* record.c */
struct np_record *np_record(VRT_CTX);		/* NULL: none */
struct np_record *np_record_new(VRT_CTX);
void np_record_arrived(struct np_record *);
void np_record_count(struct np_record *);

/* Time of the page: CLOCK_MONOTONIC in microseconds. */
uint64_t np_now_us(void);
uint64_t np_coarse_us(void);			/* good to some ms, and cheap */

#endif /* NAPROXY_H_INCLUDED */
