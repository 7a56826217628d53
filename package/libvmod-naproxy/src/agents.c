/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * One pass over User-Agent, whatever the number of literals.
 */

#include <ctype.h>
#include <stddef.h>

#include "agents.h"

struct best {
	uint32_t	agent;
	unsigned	rank;
	unsigned	length;
};

static void
agents_weigh(struct best *best, const char *begin, const char *end,
    unsigned state)
{
	const struct agents_literal *lit;
	unsigned n;

	for (n = agents_found[state]; n != 0; n = lit->next) {
		lit = &agents_literal[n - 1];
		if (lit->word && end - begin > lit->length &&
		    isalnum((unsigned char)end[-(ptrdiff_t)lit->length - 1]))
			continue;
		if (lit->rank < best->rank ||
		    (lit->rank == best->rank && lit->length <= best->length))
			continue;
		best->agent = lit->agent;
		best->rank = lit->rank;
		best->length = lit->length;
	}
}

static inline unsigned
agents_step(unsigned state, unsigned column)
{

	return (agents_goto[state * agents_columns + column]);
}

uint32_t
agents_match(const char *user_agent)
{
	struct best best = { AGENTS_NONE, 0, 0 };
	const char *p;
	unsigned state;

	state = agents_step(0, agents_start);
	for (p = user_agent; *p != '\0'; p++) {
		state = agents_step(state, agents_column[(unsigned char)*p]);
		if (agents_found[state] != 0)
			agents_weigh(&best, user_agent, p + 1, state);
	}
	state = agents_step(state, agents_end);
	/* The end counts as a byte of the literals that it ties. */
	if (agents_found[state] != 0)
		agents_weigh(&best, user_agent, p + 1, state);
	return (best.agent);
}
