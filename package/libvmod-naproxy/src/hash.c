/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The hashes that stand in the page and in the ring; see naproxy_page.h.
 */

#include <string.h>

#include "cache/cache.h"

#include "naproxy.h"

uint64_t
np_hash(uint64_t hash, const char *p, size_t len)
{

	return (page_hash(hash, p, len));
}

/* Never 0. */
uint64_t
np_hash_end(uint64_t hash)
{

	return (hash == 0 ? 1 : hash);
}

/* naproxy_event.path of the first bytes of a URL. */
uint64_t
np_path_hash(const char *host, const char *url, size_t len)
{

	if (host == NULL)
		host = "";
	return (np_hash_end(np_hash(np_hash(0, host, strlen(host) + 1), url,
	    len)));
}
