/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * When requests changed what the cache may have: a copy that is older than its
 * URL's mark is of no use (RFC 9111, 4.4). A ban for each POST would do it too,
 * but anybody could pile them up, for each hit to walk through. There is a fixed
 * number of marks, each for many URLs: at worst a copy is fetched once again for
 * nothing.
 */

#include <string.h>

#include "cache/cache.h"
#include "vtim.h"

#include "naproxy.h"

#define MARKS		16384

/* Microseconds of the clock that the copies' times are of. Atomic. */
static uint64_t mark_us[MARKS];

static uint64_t *
mark(const struct np_record *rec)
{

	return (&mark_us[(rec->path ^ rec->path >> 32) % MARKS]);
}

void
np_changed(const struct np_record *rec)
{

	NP_STORE(*mark(rec), (uint64_t)(VTIM_real() * 1e6));
}

bool
np_changed_since(const struct np_record *rec, double t)
{
	uint64_t now_us, us;

	us = NP_LOAD(*mark(rec));
	if (us == 0)
		return (false);
	now_us = (uint64_t)(VTIM_real() * 1e6);
	if (us > now_us) {
		/* The clock was set back: what is fetched from now on is newer. */
		us = now_us;
		NP_STORE(*mark(rec), us);
	}
	return ((uint64_t)(t * 1e6) < us);
}
