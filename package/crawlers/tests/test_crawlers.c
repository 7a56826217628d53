/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * The matcher against cases that crawlers_cases.py wrote. Prints what a match
 * costs here; nothing depends on that.
 */

#include <err.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crawlers.h"

#define CASES_MAX	20000
#define ROUNDS		200

static char *cases[CASES_MAX];
static size_t ncases;

static double
now_ns(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_MONOTONIC, &ts) != 0)
		err(1, "clock_gettime");
	return ((double)ts.tv_sec * 1e9 + (double)ts.tv_nsec);
}

static unsigned
compare(FILE *f)
{
	char *line = NULL, *text;
	unsigned bad = 0;
	size_t size = 0;
	ssize_t len;
	uint32_t got;
	long want;

	while ((len = getline(&line, &size, f)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		want = strtol(line, &text, 10);
		if (*text++ != '\t' || ncases == CASES_MAX)
			errx(1, "malformed case: %s", line);
		got = crawlers_match(text);
		if (got != (uint32_t)want) {
			warnx("%s: is %" PRId32 ", not %ld", text,
			    (int32_t)got, want);
			bad++;
		}
		cases[ncases] = strdup(text);
		if (cases[ncases++] == NULL)
			err(1, "strdup");
	}
	free(line);
	return (bad);
}

int
main(int argc, char **argv)
{
	unsigned bad, r;
	double begin;
	size_t i;
	FILE *f;

	if (argc != 2)
		errx(1, "usage: test_crawlers CASES");
	f = fopen(argv[1], "r");
	if (f == NULL)
		err(1, "%s", argv[1]);
	bad = compare(f);
	(void)fclose(f);
	if (ncases == 0)
		errx(1, "%s: no cases", argv[1]);
	begin = now_ns();
	for (r = 0; r < ROUNDS; r++)
		for (i = 0; i < ncases; i++)
			(void)crawlers_match(cases[i]);
	(void)printf("crawlers: %zu cases, %u wrong, %.0f ns a match\n", ncases,
	    bad, (now_ns() - begin) / (double)(ROUNDS * ncases));
	for (i = 0; i < ncases; i++)
		free(cases[i]);
	return (bad == 0 ? 0 : 1);
}
