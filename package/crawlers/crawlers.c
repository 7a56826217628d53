/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * One pass over User-Agent, whatever the number of literals.
 */

#include <ctype.h>
#include <stddef.h>

#include "crawlers.h"

struct best {
	uint32_t	agent;
	unsigned	rank;
	unsigned	length;
};

static void
crawlers_weigh(struct best *best, const char *begin, const char *end,
    unsigned state)
{
	const struct crawlers_literal *lit;
	unsigned n;

	for (n = crawlers_found[state]; n != 0; n = lit->next) {
		lit = &crawlers_literal[n - 1];
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
crawlers_step(unsigned state, unsigned column)
{

	return (crawlers_goto[state * crawlers_columns + column]);
}

uint32_t
crawlers_match(const char *user_agent)
{
	struct best best = { CRAWLERS_NONE, 0, 0 };
	const char *p;
	unsigned state;

	state = crawlers_step(0, crawlers_start);
	for (p = user_agent; *p != '\0'; p++) {
		state = crawlers_step(state, crawlers_column[(unsigned char)*p]);
		if (crawlers_found[state] != 0)
			crawlers_weigh(&best, user_agent, p + 1, state);
	}
	state = crawlers_step(state, crawlers_end);
	/* The end counts as a byte of the literals that it ties. */
	if (crawlers_found[state] != 0)
		crawlers_weigh(&best, user_agent, p + 1, state);
	return (best.agent);
}
