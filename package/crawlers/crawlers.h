/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The matcher of User-Agent: an Aho-Corasick automaton that
 * generate.py makes. README.md says how a match is decided.
 */

#ifndef CRAWLERS_H_INCLUDED
#define CRAWLERS_H_INCLUDED

#include <stdint.h>

#define CRAWLERS_NONE	UINT32_MAX

struct crawlers_literal {
	uint16_t	agent;
	uint16_t	next;		/* plus one: also ends here, shorter */
	uint8_t		length;
	uint8_t		rank;		/* the highest wins */
	uint8_t		word;		/* only at the beginning of a word */
};

struct crawlers_agent {
	const char	*name;
	uint8_t		klass;		/* enum naproxy_class */
	uint8_t		guess;		/* has no name, looks like one */
	const char	*engine;	/* of a search engine: whose; NULL */
};

/* Index of the agent that User-Agent names, or CRAWLERS_NONE. */
uint32_t crawlers_match(const char *user_agent);

extern const struct crawlers_agent crawlers_agent[];
extern const unsigned crawlers_count;

/* What follows is for crawlers.c. */
extern const unsigned crawlers_columns;
extern const unsigned crawlers_start;
extern const unsigned crawlers_end;
extern const uint8_t crawlers_column[256];
extern const uint16_t crawlers_goto[];
extern const uint16_t crawlers_found[];
extern const struct crawlers_literal crawlers_literal[];

#endif /* CRAWLERS_H_INCLUDED */
