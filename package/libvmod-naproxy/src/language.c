/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Accept-Language, RFC 9110 section 12.5.4, looked up as RFC 4647 section
 * 3.4 says: `de-CH` is content with `de`.
 */

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "language.h"

#define BLANKS	" \t"

struct range {
	const char	*tag;
	size_t		len;
	unsigned	q;		/* thousandths */
};

static unsigned
language_q(const char *p, const char *end)
{
	unsigned q, unit;

	p += strspn(p, BLANKS);
	if (p >= end || (*p != '0' && *p != '1'))
		return (0);
	q = (unsigned)(*p++ - '0') * 1000;
	if (p < end && *p == '.')
		for (p++, unit = 100; p < end && isdigit((unsigned char)*p) &&
		    unit > 0; p++, unit /= 10)
			q += (unsigned)(*p - '0') * unit;
	return (q > 1000 ? 1000 : q);
}

/* One element of the header; returns where the next begins. */
static const char *
language_range(const char *p, struct range *r)
{
	const char *end, *semi;

	p += strspn(p, BLANKS ",");
	end = p + strcspn(p, ",");
	r->tag = p;
	r->len = strcspn(p, ",; \t");
	r->q = r->len > 0 ? 1000 : 0;
	semi = memchr(p, ';', (size_t)(end - p));
	if (semi != NULL) {
		semi++;
		semi += strspn(semi, BLANKS);
		if (semi < end && (*semi == 'q' || *semi == 'Q')) {
			semi++;
			semi += strspn(semi, BLANKS);
			r->q = *semi == '=' ? language_q(semi + 1, end) : 0;
		}
	}
	return (end);
}

/* The language in `available` for this tag, shortened as far as need be. */
static const char *
language_lookup(const char *tag, size_t len, const char *available,
    size_t *found)
{
	const char *a;
	size_t n;

	while (len > 0) {
		for (a = available; *a != '\0'; a += n) {
			a += strspn(a, BLANKS);
			n = strcspn(a, BLANKS);
			if (n == len && n > 0 && !strncasecmp(a, tag, n)) {
				*found = n;
				return (a);
			}
		}
		while (len > 0 && tag[len - 1] != '-')
			len--;
		if (len > 0)
			len--;
	}
	return (NULL);
}

const char *
language_best(const char *accept, const char *available, size_t *len)
{
	const char *best, *hit;
	struct range r;
	unsigned q = 0;
	size_t n;

	best = available + strspn(available, BLANKS);
	*len = strcspn(best, BLANKS);
	if (accept == NULL)
		return (best);
	while (*accept != '\0') {
		accept = language_range(accept, &r);
		if (r.q <= q)
			continue;
		n = *len;
		hit = r.len == 1 && *r.tag == '*' ? best :
		    language_lookup(r.tag, r.len, available, &n);
		if (hit == NULL)
			continue;
		best = hit;
		*len = n;
		q = r.q;
	}
	return (best);
}
