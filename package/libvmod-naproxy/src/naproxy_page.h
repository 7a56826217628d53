/*-
 * The page, shared by the controller, the VMOD and naproxy-through.
 *
 * Three memory-mapped files, made by the controller, each by rename so that
 * nobody ever sees half a file:
 *
 *   RUN_DIR/page    struct naproxy_page, 168 KiB. The controller writes state,
 *                   configuration and a heartbeat; the VMOD writes counters,
 *                   the gap window and the clients with requests in flight;
 *                   naproxy-through writes counters of connections.
 *   RUN_DIR/events  struct naproxy_events, a ring with one record for each
 *                   request that ended. The VMOD writes, the controller reads.
 *   RUN_DIR/stored  struct naproxy_stores, a ring with one record for each
 *                   answer that the cache keeps: its request. The VMOD writes,
 *                   the controller reads.
 *
 * This header is the one definition: naproxy/core/page_h.py is made of it when the
 * controller is built, and a test compares every offset.
 *
 * Rules
 *   - Times are CLOCK_MONOTONIC in microseconds (t_us), so a clock step
 *     changes nothing here.
 *   - A word has one writing side, named beside it: [C] controller, [V] VMOD,
 *     [T] naproxy-through.
 *   - [V] and [T] words are only touched with __atomic builtins. Counters only grow
 *     and survive a restart of either side. The VMOD resets its gauges when a child
 *     starts; naproxy-through resets its own when it starts.
 *   - [C] configuration of a server is under its seqlock `seq`: odd while it
 *     is being written; that of the box, and the names, the same. `state` and
 *     `heartbeat_us` are single words and need no lock.
 *   - Strings are UTF-8, NUL padded, and always end in a NUL.
 *   - A page with a wrong magic, version or size, or with a stale heartbeat,
 *     means fail awake: every server counts as available.
 */

#ifndef NAPROXY_PAGE_H_INCLUDED
#define NAPROXY_PAGE_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#define NAPROXY_PAGE_MAGIC	0x3150414eU	/* "NAP1" */
#define NAPROXY_PAGE_VERSION	5
#define NAPROXY_PAGE_SIZE	172032
#define NAPROXY_EVENTS_MAGIC	0x3145414eU	/* "NAE1" */
#define NAPROXY_EVENTS		8192		/* power of two */
#define NAPROXY_STORES_MAGIC	0x3153414eU	/* "NAS1" */
#define NAPROXY_STORES		512		/* power of two */

#define NAPROXY_SERVERS		6
#define NAPROXY_NAMES		384		/* 64 for each server */
#define NAPROXY_NAME_LEN	254
#define NAPROXY_CHALLENGES	8
#define NAPROXY_TOKEN_LEN	128
#define NAPROXY_ANSWER_LEN	384
#define NAPROXY_SERVICES	16
#define NAPROXY_ID_LEN		32
#define NAPROXY_NOTICE_LEN	512
#define NAPROXY_RULES		32
#define NAPROXY_RULE_LEN	56
#define NAPROXY_LEARNED		64
#define NAPROXY_MOST_SPENT	256
#define NAPROXY_WEBHOOKS	16
#define NAPROXY_COOKIES		16
#define NAPROXY_VERIFIED	512
#define NAPROXY_CLIENTS		512
#define NAPROXY_WINDOW		10		/* thesis, equation 4.6 */
#define NAPROXY_DELAYS		24
#define NAPROXY_CLASSES		8
#define NAPROXY_OUTCOMES	16
#define NAPROXY_REASONS		8

enum naproxy_state {
	NAPROXY_UNKNOWN = 0,		/* counts as available */
	NAPROXY_AWAKE = 1,
	NAPROXY_FALLING_ASLEEP = 2,
	NAPROXY_ASLEEP = 3,
	NAPROXY_WAKING = 4,
	NAPROXY_TROUBLE = 5,		/* counts as available, see docs */
};

/* The kinds of clients. */
enum naproxy_class {
	NAPROXY_PERSON = 0,
	NAPROXY_CRAWLER = 1,
	NAPROXY_MONITOR = 2,
	NAPROXY_FEED = 3,
	NAPROXY_API = 4,		/* HTTP libraries, programs */
	NAPROXY_SCANNER = 5,		/* vulnerability and port scanners */
};

/*
 * Outcomes of requests: exactly one each. This is the only list of them. The preprocessor
 * or the build derives these from it: the enumeration in C and in Python, the words of VCL
 * and of X-Naproxy, and the groups of the web interface.
 *
 *   O(number, name, word, end, marks)
 *
 * `end` is the group that people see, see docs/webui-traffic.md.
 */
#define NAPROXY_O_NEEDED	(1U << 0)	/* needed the server */
#define NAPROXY_O_SERVED	(1U << 1)	/* the server answered it */
#define NAPROXY_O_LATE		(1U << 2)	/* sent away: delayed, however short */
#define NAPROXY_O_APART		(1U << 3)	/* no part of T */

#define NAPROXY_OUTCOME_LIST(O)						\
	O(0, HIT, hit, fresh, 0)					\
	/* past its TTL, within grace */				\
	O(1, STALE, stale, older, 0)					\
	/* a miss, not held */						\
	O(2, FETCH, fetch, server, NAPROXY_O_NEEDED | NAPROXY_O_SERVED)	\
	/* uncacheable, not held */					\
	O(3, PASS, pass, server, NAPROXY_O_NEEDED | NAPROXY_O_SERVED)	\
	/* a WebSocket or another upgrade */				\
	O(4, PIPE, pipe, server, NAPROXY_O_NEEDED)			\
	/* a robot: 503 + Retry-After, nobody woken */			\
	O(5, REFUSED, refused, away, 0)					\
	/* a person: 503 + waiting page */				\
	O(6, WAITING_PAGE, waiting_page, waited,			\
	    NAPROXY_O_NEEDED | NAPROXY_O_LATE)				\
	/* held, then answered by the server */				\
	O(7, HELD, held, waited, NAPROXY_O_NEEDED | NAPROXY_O_SERVED)	\
	/* too many in flight: 503 + Retry-After */			\
	O(8, CAPPED, capped, failed, NAPROXY_O_NEEDED | NAPROXY_O_LATE)	\
	/* held to the limit: 503 + Retry-After */			\
	O(9, LIMIT, limit, failed, NAPROXY_O_NEEDED | NAPROXY_O_LATE)	\
	/* the client hung up while held */				\
	O(10, GONE, gone, failed, NAPROXY_O_NEEDED)			\
	/* the back end failed: 503 */					\
	O(11, ERROR, error, failed, NAPROXY_O_NEEDED)			\
	/* the status path */						\
	O(12, STATUS, status, box, NAPROXY_O_APART)			\
	/* anything else VCL answered itself */				\
	O(13, OTHER, other, box, 0)					\
	/* over its share: 503, nobody woken */				\
	O(14, SPENT, spent, spent, NAPROXY_O_NEEDED | NAPROXY_O_APART)

/*
 * Cases of these that VCL distinguishes, too:
 *
 *   C(name, word, outcome, text in X-Naproxy)
 */
#define NAPROXY_CASE_LIST(C)						\
	/* valid for as long as the server sleeps */			\
	C(FROZEN, frozen, STALE, frozen)				\
	/* the last good answer, past its grace */			\
	C(KEPT, kept, STALE, kept)					\
	/* its client has too many in flight already */			\
	C(FULL, full, CAPPED, capped)

#define NAPROXY_MEMBER(number, name, ...)	NAPROXY_##name = number,
enum naproxy_outcome { NAPROXY_OUTCOME_LIST(NAPROXY_MEMBER) };
#undef NAPROXY_MEMBER

/* Why a request needs the server. */
enum naproxy_reason {
	NAPROXY_WAKE_PAGE = 0,		/* a person's page load */
	NAPROXY_WAKE_MISS = 1,		/* cacheable, not in the cache */
	NAPROXY_WAKE_PASS = 2,		/* uncacheable: POST, Authorization, ... */
	NAPROXY_WAKE_PIPE = 3,		/* upgrade */
};

enum naproxy_rule_kind {
	NAPROXY_RULE_NONE = 0,
	NAPROXY_RULE_PATH = 1,		/* text is a prefix of the path */
	NAPROXY_RULE_ADDRESS = 2,	/* text is ADDRESS or ADDRESS/BITS */
	NAPROXY_RULE_AGENT = 3,		/* text is in User-Agent, any case */
	NAPROXY_RULE_WORK = 4,		/* prefix of the path: E_WORK, no class */
	NAPROXY_RULE_KEEP = 5,		/* prefix of the path: keep_s, no class */
	NAPROXY_RULE_ASLEEP = 6,	/* the same; keep_s 1: F_FROZEN, 0: not */
	NAPROXY_RULE_BROWSER = 7,	/* the same; keep_s is for browsers */
};

/* Flags of a server, [C]. */
#define NAPROXY_F_AGGRESSIVE	(1U << 0)	/* grace, stale while asleep */
#define NAPROXY_F_WAITING_PAGE	(1U << 1)	/* else people are held too */
#define NAPROXY_F_WOL		(1U << 2)	/* the VMOD sends magic packets too */
#define NAPROXY_F_DEFER		(1U << 3)	/* robots are refused while asleep */
#define NAPROXY_F_DEFAULT	(1U << 4)	/* serves hosts nobody names */
#define NAPROXY_F_HTTPS_ONLY	(1U << 5)	/* HTTP is redirected */
#define NAPROXY_F_TLS		(1U << 6)	/* asked at edge/to-ID.sock */
#define NAPROXY_F_PROXY		(1U << 7)	/* told of the client by PROXY v1 */
#define NAPROXY_F_THROUGH	(1U << 8)	/* HTTPS is passed on unopened */
#define NAPROXY_F_FROZEN	(1U << 9)	/* content valid when the server
						   falls asleep stays so */
#define NAPROXY_F_RESTARTS	(1U << 10)	/* waking or in trouble, but it
						   had not been asleep */

/* Flags of a name, [C]. */
#define NAPROXY_N_BELOW		(1U << 0)	/* any one label before it */

/* Where connections of a service come from. */
enum naproxy_listen {
	NAPROXY_LISTEN_NONE = 0,		/* slot unused */
	NAPROXY_LISTEN_EDGE = 1,		/* edge/jail/through/ID.sock, a
						   PROXY v2 header first */
	NAPROXY_LISTEN_TCP = 2,			/* listen_address, listen_port */
};

/* Bits of naproxy_event.flags, [V]. */
#define NAPROXY_E_PAGE_LOAD	(1U << 0)	/* looks like navigation */
#define NAPROXY_E_NEEDED	(1U << 1)	/* needed the back end */
#define NAPROXY_E_DELAYED	(1U << 2)	/* waited longer than delta_ms */
#define NAPROXY_E_RULE		(1U << 3)	/* a rule chose the class */
#define NAPROXY_E_LEARNED	(1U << 4)	/* `learned` chose the class */
#define NAPROXY_E_WORK		(1U << 5)	/* a rule says that it is work */
#define NAPROXY_E_OWN		(1U << 6)	/* no share limits it: the office's
						   own, or it has logged in */
#define NAPROXY_E_SPENT		(1U << 7)	/* its share was used up */

/* Bits of naproxy_stored.flags, [V]. */
#define NAPROXY_S_FREEZES	(1U << 0)	/* stays valid while it sleeps */
#define NAPROXY_S_HTTPS		(1U << 1)	/* for HTTPS clients */
#define NAPROXY_S_SAID		(1U << 2)	/* the server said how long */
#define NAPROXY_S_SAME		(1U << 3)	/* 304: it had not changed */
#define NAPROXY_S_VARIES	(1U << 4)	/* by more than Accept */

/* An office's rule about requests that match. [C] */
struct naproxy_rule {
	uint8_t		kind;			/* enum naproxy_rule_kind */
	uint8_t		klass;			/* enum naproxy_class */
	uint8_t		server;			/* index, 255: every server */
	uint8_t		_pad;
	uint32_t	keep_s;			/* in the cache; 0: never. See kind */
	char		text[NAPROXY_RULE_LEN];
};

/*
 * A client whose class was learned from how it behaves. `client` is the
 * hash that events carry; 0 is an empty slot. With `wakes` it is the hash of
 * a network instead, whose search engine may wake those servers. [C]
 */
struct naproxy_learned {
	uint64_t	client;
	uint32_t	klass;
	uint32_t	wakes;			/* 1 << index; 0 */
};

/*
 * A host name that a server serves, as DNS has it: lower case, A-labels, no dot
 * at its end. Those up to the first empty one count; of the same the first. [C]
 */
struct naproxy_name {
	uint8_t		server;			/* index */
	uint8_t		flags;			/* NAPROXY_N_* */
	char		name[NAPROXY_NAME_LEN];
};

/* A certificate issuer's challenge and its answer (RFC 8555, 8.3). [C] */
struct naproxy_challenge {
	char		token[NAPROXY_TOKEN_LEN];	/* empty: unused */
	char		answer[NAPROXY_ANSWER_LEN];
};

#define NAPROXY_SHOWN		16

/*
 * Clients that have used up their share of the awake time, and clients that have shown
 * that they are a person. Each is the hash of an address or of a network, see
 * naproxy_event; 0 is an empty slot. Never E_OWN's. [C]
 */
struct naproxy_spent {
	uint64_t	who;
	uint32_t	servers;		/* 1 << index; and, above these by
						   NAPROXY_SHOWN, where spent_mask
						   refuses no person there */
	uint32_t	programs;		/* the same, but not for people */
};

/*
 * Clients with requests in flight that keep a thread for long or use a server, by the
 * hashes of naproxy_event. `people`, `programs` and `robots`: the number of requests
 * that use that server now (held, fetched, passed, piped), by class. [V]
 */
struct naproxy_client {
	uint64_t	address;		/* 0: an empty slot */
	uint64_t	network;
	uint16_t	in_flight;
	uint8_t		own;			/* 1: all are E_OWN */
	uint8_t		exempt;			/* 1 << index: a person or
						   program of E_OWN uses it */
	uint8_t		people[NAPROXY_SERVERS];	/* 255: or more */
	uint8_t		robots[NAPROXY_SERVERS];
	uint8_t		programs[NAPROXY_SERVERS];
	uint8_t		_pad[2];
};

struct naproxy_server {
	/* 0: single words */
	uint32_t	state;			/* [C] futex word */
	uint32_t	seq;			/* [C] seqlock of the rest */
	uint64_t	since_us;		/* [C] t_us of the last transition */

	/* 16: configuration, [C], under seq */
	char		id[NAPROXY_ID_LEN];	/* empty: slot unused */
	uint32_t	hsts_s;			/* browsers use HTTPS only */
	uint8_t		_pad6[124];
	uint64_t	webhook[NAPROXY_WEBHOOKS];	/* hashes of host and path; 0 */
	uint32_t	flags;
	uint32_t	_pad0;
	uint16_t	family;			/* 4 or 6 */
	uint16_t	port;
	uint8_t		address[16];		/* network order, v4: first four */
	uint8_t		mac[6];
	uint8_t		_pad1[2];
	uint8_t		wol_address[16];	/* IPv4 broadcast for F_WOL */
	uint32_t	wol_port;
	uint32_t	wakes_mask;		/* 1 << class: may wake */
	uint32_t	wake_expect_ms;		/* measured, for countdowns */
	uint32_t	hold_cap;		/* most requests held at once */
	uint32_t	hold_limit_ms;		/* from the request's start */
	uint32_t	crawler_retry_s;	/* Retry-After for robots */
	uint32_t	delta_ms;		/* longer than this is delayed */
	uint32_t	grace_s;		/* F_AGGRESSIVE */
	uint32_t	connect_timeout_ms;
	uint32_t	first_byte_timeout_ms;
	uint32_t	release_batch;		/* waiters let go at once ... */
	uint32_t	release_ms;		/* ... and the pause between */
	uint32_t	spent_mask;		/* 1 << class: its share is used up */
	uint64_t	retry_at_us;		/* robots are to come then; 0 */
	uint32_t	reach_ms;		/* quiet so long: look if it is there */
	uint32_t	crawl_ms;		/* crawlers: one in so long; 0: all */
	uint32_t	settle_ms;		/* after a wake, 50x: not ready yet */
	uint32_t	uncached_ms;		/* after a wake, nothing is kept */
	uint32_t	stream_idle_ms;		/* longest silence of a stream; 0: 1 h */
	uint32_t	pipe_idle_ms;		/* the same, of a pipe */
	uint8_t		_pad2[40];

	/* 480: gauges, [V] */
	uint32_t	held_now;
	uint32_t	fetching_now;
	uint32_t	piping_now;
	uint32_t	_pad3;

	/*
	 * 496: counters, [V]. Each word that every request writes is fought
	 * for by all processors, so what is the sum of others is not there:
	 * see naproxy_total() and naproxy_prompt().
	 */
	uint64_t	requests[NAPROXY_CLASSES][NAPROXY_OUTCOMES];
	uint64_t	delays[NAPROXY_DELAYS];	/* [i]: delay_ms < 1 << i, not [0] */
	uint64_t	wakes[NAPROXY_REASONS];	/* datagrams sent */
	uint64_t	spent;			/* E_SPENT, not NAPROXY_SPENT: not of T */
	uint64_t	delayed;		/* D: of T, over delta_ms */
	uint64_t	magic_packets;		/* sent by the VMOD */
	uint64_t	last_request_us;	/* last that counts in T */

	/*
	 * 1808: t_us of the last ten requests that needed the back end and
	 * were not robots'. Slot of the n-th: n % NAPROXY_WINDOW. [V]
	 */
	uint64_t	window_n;
	uint64_t	window_us[NAPROXY_WINDOW];

	/*
	 * 1896: when it fell asleep, t_us; 0: it is awake. Not since_us: it stays
	 * while the server wakes, and over a controller's short absence. [C]
	 */
	uint64_t	froze_us;

	/*
	 * 1904: hashes of names of cookies that its pages do not depend on, as the
	 * office says, with the * that some end with: FNV-1a, 64 bits; 0. And of names
	 * of headers that say who is asking, in small letters, behind a ;, which no
	 * cookie's name has. [C], under seq
	 */
	uint64_t	cookie[NAPROXY_COOKIES];

	/*
	 * 2032: t_us of the last visitor who reached it by its name through the
	 * box, over HTTP and over HTTPS, to the second; 0: none yet. Robots, the box
	 * and the server itself do not count as visitors, and an address does not
	 * count as a name. [V]
	 */
	uint64_t	visited_us;
	uint64_t	visited_tls_us;
};

/*
 * A service whose connections naproxy-through joins to a server's, unread. The
 * server's address, state and ways to wake are those of server[server].
 */
struct naproxy_service {
	/* 0: configuration, [C], under seq */
	uint32_t	seq;			/* seqlock of the rest */
	uint8_t		listen;			/* enum naproxy_listen */
	uint8_t		server;			/* index */
	uint8_t		listen_family;		/* 4 or 6 */
	uint8_t		_pad0;
	char		id[NAPROXY_ID_LEN];	/* of the slots in use */
	uint8_t		listen_address[16];	/* network order, v4: first four */
	uint16_t	listen_port;
	uint16_t	port;			/* of the server */
	uint32_t	hold_limit_ms;		/* from the connection's start */
	uint32_t	most_held;		/* at once; more are closed */
	uint32_t	most_open;		/* at once, held ones too */
	uint8_t		_pad1[56];

	/* 128: gauges, [T] */
	uint32_t	open_now;		/* all that are not ended */
	uint32_t	held_now;		/* those that wait */

	/*
	 * 136: counters, [T]. Each connection that was accepted and ended
	 * is in exactly one of the next six.
	 */
	uint64_t	accepted;
	uint64_t	passed;			/* joined at once */
	uint64_t	held;			/* joined after a wait */
	uint64_t	refused;		/* too many were held or open */
	uint64_t	limit;			/* held to the limit */
	uint64_t	gone;			/* the client hung up before */
	uint64_t	failed;			/* the server did not take it */
	uint64_t	held_ms;		/* the waits of `held`, in all */
	uint64_t	bytes_in;		/* from clients */
	uint64_t	bytes_out;
	uint64_t	last_active_us;		/* t_us of the last use */
	uint8_t		_pad2[32];
};

struct naproxy_page {
	/* 0: [C] */
	uint32_t	magic;
	uint32_t	version;
	uint32_t	size;
	uint32_t	nservers;
	uint64_t	heartbeat_us;
	uint32_t	heartbeat_max_ms;	/* older: stale */
	uint32_t	controller_pid;

	/* 32: configuration of the box, [C], under seq */
	uint32_t	seq;
	uint32_t	_pad0;
	char		notice[NAPROXY_NOTICE_LEN];	/* waiting page, plain text */
	struct naproxy_rule	rules[NAPROXY_RULES];
	struct naproxy_learned	learned[NAPROXY_LEARNED];

	/* 3624: [V] */
	uint64_t	child_start_us;
	uint64_t	wake_errors;		/* datagrams nobody took */
	uint32_t	names_seq;		/* [C] seqlock of names, challenge */
	uint8_t		_pad1[452];

	/* 4096 */
	struct naproxy_server	server[NAPROXY_SERVERS];

	/* 16384: [C], under seq */
	struct naproxy_spent	spent[NAPROXY_MOST_SPENT];

	/* 20480: [V] */
	struct naproxy_client	client[NAPROXY_CLIENTS];

	/* 40960: [C], under names_seq */
	struct naproxy_name	names[NAPROXY_NAMES];
	struct naproxy_challenge	challenge[NAPROXY_CHALLENGES];

	/* 143360 */
	struct naproxy_service	service[NAPROXY_SERVICES];

	/*
	 * 147456: pages of each server that are the same for everybody, as checks
	 * say: hashes as in naproxy_event, sorted; 0 behind them. [C], under seq
	 */
	uint64_t	verified[NAPROXY_SERVERS][NAPROXY_VERIFIED];
};

/*
 * A record is complete when its `seq` equals its number, 1 for the first;
 * the writer stores 0 there before it fills the record. Record n is in slot
 * (n - 1) % NAPROXY_EVENTS. A reader that sees head run away by more than the
 * ring's length has lost the difference and says so.
 *
 * The hashes are FNV-1a, 64 bits, over two strings with a NUL between them:
 * User-Agent and client.identity (the address); Host and URL as VCL sees them
 * when it selects. A missing header is an empty string; 0 becomes 1.
 *
 * An address is hashed as the number 4 or 6 and the bytes of the address (of IPv6,
 * the first 8). Its network is hashed as 'n', that number and the first 3 bytes of
 * the address (of IPv6, 6). Text that is not an address is hashed after a 0. The
 * hash reveals the address, so hashes are never written to a disk.
 */
struct naproxy_event {
	uint64_t	seq;
	uint64_t	t_us;			/* when the request started */
	uint64_t	client;			/* hash of address and agent */
	uint64_t	path;			/* hash of host and URL; of a
						   POST without its query */
	uint32_t	delay_ms;		/* held */
	uint32_t	agent;			/* index in crawlers.json, or ~0 */
	uint8_t		server;			/* index */
	uint8_t		klass;
	uint8_t		outcome;
	uint8_t		flags;
	uint16_t	status;
	uint8_t		method;			/* index: GET HEAD POST PUT DELETE
						   OPTIONS PATCH CONNECT TRACE other */
	uint8_t		rule;			/* that of E_RULE: 1 + its index in
						   rules; 0: none */
	uint64_t	address;		/* hash; of IPv6, of its /64 */
	uint64_t	network;		/* hash of its /24; of IPv6, /48 */
};

struct naproxy_events {
	uint32_t	magic;
	uint32_t	version;
	uint32_t	size;			/* of the whole file */
	uint32_t	count;			/* NAPROXY_EVENTS */
	uint64_t	head;			/* [V] number of records begun */
	uint8_t		_pad[40];
	struct naproxy_event	event[NAPROXY_EVENTS];
};

/* An answer that the cache keeps, and its request. Read like an event. */
struct naproxy_stored {
	uint64_t	seq;
	uint64_t	t_us;
	uint64_t	path;			/* as in naproxy_event */
	uint64_t	bytes;			/* of its body; 0: not known yet */
	uint32_t	ttl_s;			/* fresh for so long */
	uint16_t	status;
	uint8_t		server;			/* index */
	uint8_t		flags;			/* NAPROXY_S_* */
	char		accept[32];		/* of the request; "": longer, none */
	char		host[120];		/* longer ones have no record */
	char		url[320];
};

struct naproxy_stores {
	uint32_t	magic;
	uint32_t	version;
	uint32_t	size;			/* of the whole file */
	uint32_t	count;			/* NAPROXY_STORES */
	uint64_t	head;			/* [V] number of records begun */
	uint8_t		_pad[40];
	struct naproxy_stored	stored[NAPROXY_STORES];
};

/* The classes of people and programs; all others are robots. */
#define NAPROXY_BUDGET	(1U << NAPROXY_PERSON | 1U << NAPROXY_API)

/* NAPROXY_O_* of an outcome. */
static inline unsigned
naproxy_marks(unsigned outcome)
{
#define NAPROXY_MARKS(number, name, word, end, marks)	[number] = (marks),
	static const uint8_t marks_of[NAPROXY_OUTCOMES] = {
		NAPROXY_OUTCOME_LIST(NAPROXY_MARKS)
	};
#undef NAPROXY_MARKS

	return (marks_of[outcome % NAPROXY_OUTCOMES]);
}

static inline uint64_t
naproxy_outcomes(const struct naproxy_server *s, unsigned klasses,
    unsigned outcome)
{
	uint64_t sum = 0;
	unsigned k;

	for (k = 0; k < NAPROXY_CLASSES; k++)
		if (klasses >> k & 1)
			sum += __atomic_load_n(&s->requests[k][outcome],
			    __ATOMIC_RELAXED);
	return (sum);
}

/*
 * T: requests not by robots, nor by those over their share. Asking how the
 * server is is not asking for it.
 */
static inline uint64_t
naproxy_total(const struct naproxy_server *s)
{
	uint64_t sum = 0;
	unsigned o;

	for (o = 0; o < NAPROXY_OUTCOMES; o++)
		if (!(naproxy_marks(o) & NAPROXY_O_APART))
			sum += naproxy_outcomes(s, NAPROXY_BUDGET, o);
	return (sum - __atomic_load_n(&s->spent, __ATOMIC_RELAXED));
}

/* The value that delays[0] would have: those of T that waited less than 1 ms. */
static inline uint64_t
naproxy_prompt(const struct naproxy_server *s)
{
	uint64_t waited;
	unsigned i;

	waited = naproxy_outcomes(s, NAPROXY_BUDGET, NAPROXY_WAITING_PAGE);
	for (i = 1; i < NAPROXY_DELAYS; i++)
		waited += __atomic_load_n(&s->delays[i], __ATOMIC_RELAXED);
	return (naproxy_total(s) - waited);
}

#define NAPROXY_AT(s, f, o) \
	_Static_assert(offsetof(struct s, f) == (o), #s "." #f)

NAPROXY_AT(naproxy_server, id, 16);
NAPROXY_AT(naproxy_server, hsts_s, 48);
NAPROXY_AT(naproxy_server, webhook, 176);
NAPROXY_AT(naproxy_server, flags, 304);
NAPROXY_AT(naproxy_server, held_now, 480);
NAPROXY_AT(naproxy_server, requests, 496);
NAPROXY_AT(naproxy_server, window_n, 1808);
NAPROXY_AT(naproxy_server, froze_us, 1896);
NAPROXY_AT(naproxy_server, cookie, 1904);
NAPROXY_AT(naproxy_server, visited_us, 2032);
NAPROXY_AT(naproxy_page, seq, 32);
NAPROXY_AT(naproxy_page, child_start_us, 3624);
NAPROXY_AT(naproxy_page, names_seq, 3640);
NAPROXY_AT(naproxy_page, server, 4096);
NAPROXY_AT(naproxy_page, spent, 16384);
NAPROXY_AT(naproxy_page, client, 20480);
NAPROXY_AT(naproxy_page, names, 40960);
NAPROXY_AT(naproxy_page, challenge, 139264);
NAPROXY_AT(naproxy_page, service, 143360);
NAPROXY_AT(naproxy_page, verified, 147456);
NAPROXY_AT(naproxy_service, open_now, 128);
_Static_assert(sizeof(struct naproxy_rule) == 64, "rule");
_Static_assert(sizeof(struct naproxy_learned) == 16, "learned");
_Static_assert(sizeof(struct naproxy_spent) == 16, "spent");
_Static_assert(sizeof(struct naproxy_client) == 40, "client");
_Static_assert(sizeof(struct naproxy_name) == 256, "name");
_Static_assert(sizeof(struct naproxy_challenge) == 512, "challenge");
_Static_assert(sizeof(struct naproxy_server) == 2048, "server");
_Static_assert(sizeof(struct naproxy_service) == 256, "service");
_Static_assert(sizeof(struct naproxy_page) == NAPROXY_PAGE_SIZE, "page");
_Static_assert(sizeof(struct naproxy_event) == 64, "event");
_Static_assert(sizeof(struct naproxy_events) == 64 + 64 * NAPROXY_EVENTS,
    "events");
_Static_assert(sizeof(struct naproxy_stored) == 512, "stored");
_Static_assert(sizeof(struct naproxy_stores) == 64 + 512 * NAPROXY_STORES,
    "stores");

#undef NAPROXY_AT

#endif /* NAPROXY_PAGE_H_INCLUDED */
