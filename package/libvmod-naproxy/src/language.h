/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 */

#ifndef LANGUAGE_H_INCLUDED
#define LANGUAGE_H_INCLUDED

#include <stddef.h>

/*
 * The best of `available` (languages separated by spaces, the first is the
 * fallback) for this Accept-Language header, which may be NULL. Returns a
 * place in `available`, and its length.
 */
const char *language_best(const char *accept, const char *available,
    size_t *len);

#endif /* LANGUAGE_H_INCLUDED */
