/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What differs between Varnish 7.1 (VRT 15), 7.7 (VRT 21) and the releases
 * that are called Vinyl Cache. Included after cache.h.
 */

#ifndef COMPAT_H_INCLUDED
#define COMPAT_H_INCLUDED

#if VRT_MAJOR_VERSION < 17
#  define NO_VXID		0U
#  define np_new_backend(ctx, vrt)	VRT_new_backend(ctx, vrt)
#else
#  define np_new_backend(ctx, vrt)	VRT_new_backend(ctx, vrt, NULL)
#endif

#if VRT_MAJOR_VERSION < 19
#  define np_init_backend(vrt)		INIT_OBJ(vrt, VRT_BACKEND_MAGIC)
#else
#  define np_init_backend(vrt)		VRT_BACKEND_INIT(vrt)
#endif

#ifdef VRT_BLOB_MAGIC
#  define np_init_blob(blob)		INIT_OBJ(blob, VRT_BLOB_MAGIC)
#else
#  define np_init_blob(blob)		memset(blob, 0, sizeof *(blob))
#endif

/* A header's name as http_GetHdr() wants it, its length in front. */
#ifndef HDR
#  define HDR(name)							\
	((hdr_t)&(const struct {					\
		unsigned char	len;					\
		char		str[sizeof(name ":")];			\
	}){ sizeof(name), name ":" })
#endif

/* Varnish's own, in no header that it installs; without them we do less. */
struct http_conn;
struct objcore;
struct vfp_ctx;
void HSH_Kill(struct objcore *) __attribute__((weak));
int V1F_Setup_Fetch(struct vfp_ctx *, struct http_conn *)
    __attribute__((weak));

#endif /* COMPAT_H_INCLUDED */
