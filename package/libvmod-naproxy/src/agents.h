/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The matcher of User-Agent: an Aho-Corasick automaton that
 * agents/generate.py makes. agents/README.md says how a match is decided.
 */

#ifndef AGENTS_H_INCLUDED
#define AGENTS_H_INCLUDED

#include <stdint.h>

#define AGENTS_NONE	UINT32_MAX

struct agents_literal {
	uint16_t	agent;
	uint16_t	next;		/* plus one: also ends here, shorter */
	uint8_t		length;
	uint8_t		rank;		/* of the class, the highest wins */
	uint8_t		word;		/* only at the beginning of a word */
};

struct agents_agent {
	const char	*name;
	uint8_t		klass;		/* enum naproxy_class */
};

/* Index of the agent that User-Agent names, or AGENTS_NONE. */
uint32_t agents_match(const char *user_agent);

extern const struct agents_agent agents_agent[];
extern const unsigned agents_count;

/* What follows is for agents.c. */
extern const unsigned agents_columns;
extern const unsigned agents_start;
extern const unsigned agents_end;
extern const uint8_t agents_column[256];
extern const uint16_t agents_goto[];
extern const uint16_t agents_found[];
extern const struct agents_literal agents_literal[];

#endif /* AGENTS_H_INCLUDED */
