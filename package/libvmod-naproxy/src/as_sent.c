/*-
 * Copyright (c) 2026 The Naproxy authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * A response is kept as it was sent, also if it is called gzip and is not, or has
 * something behind its first gzip member. Varnish tests what it keeps, because it
 * unpacks that for clients that do not take gzip, and ends the response where the test
 * fails. This filter takes the bytes over from the test, and has the response go out
 * to all clients as it is.
 */

#include <string.h>

#if __has_include("cache/cache_vinyld.h")
#  include "cache/cache_vinyld.h"
#else
#  include "cache/cache_varnishd.h"
#endif
#include "cache/cache_filter.h"

#include "naproxy.h"

/* The filter below us, and the one that it reads from. */
static struct vfp_entry *
as_sent_test(struct vfp_entry *vfe)
{
	struct vfp_entry *test;

	test = VTAILQ_NEXT(vfe, list);
	if (test == NULL || strcmp(test->vfp->name, "testgunzip") != 0 ||
	    VTAILQ_NEXT(test, list) == NULL)
		return (NULL);
	return (test);
}

static enum vfp_status v_matchproto_(vfp_pull_f)
as_sent_pull(struct vfp_ctx *vc, struct vfp_entry *vfe, void *p, ssize_t *lp)
{
	struct vfp_entry *test, *from;
	enum vfp_status status;

	CHECK_OBJ_NOTNULL(vc, VFP_CTX_MAGIC);
	test = as_sent_test(vfe);
	if (test == NULL)
		return (VFP_Suck(vc, p, lp));
	from = VTAILQ_NEXT(test, list);
	if (test->closed == VFP_ERROR) {
		/* It has failed before. */
		vc->vfp_nxt = from;
		return (VFP_Suck(vc, p, lp));
	}
	status = VFP_Suck(vc, p, lp);
	if (status != VFP_ERROR || from->closed == VFP_ERROR)
		return (status);
	/* The test failed, and the bytes that it read are in our buffer. */
	vc->failed = 0;
	ObjSetFlag(vc->wrk, vc->oc, OF_GZIPED, 0);
	return (from->closed);
}

/* A response that proves to be for one client needs no test: it is not unpacked. */
static enum vfp_status v_matchproto_(vfp_init_f)
as_sent_init(VRT_CTX, struct vfp_ctx *vc, struct vfp_entry *vfe)
{

	CHECK_OBJ_NOTNULL(ctx, VRT_CTX_MAGIC);
	CHECK_OBJ_NOTNULL(ctx->bo, BUSYOBJ_MAGIC);
	CHECK_OBJ_NOTNULL(vc, VFP_CTX_MAGIC);
	(void)vfe;
	if (ctx->bo->uncacheable)
		vc->obj_flags &= ~(unsigned)OF_GZIPED;
	return (VFP_OK);
}

static const struct vfp as_sent[1] = {{
	.name = "naproxy_as_sent",
	.init = as_sent_init,
	.pull = as_sent_pull,
}};

const char *
np_as_sent_begin(VRT_CTX)
{

	return (VRT_AddFilter(ctx, as_sent, NULL));
}

void
np_as_sent_end(VRT_CTX)
{

	VRT_RemoveFilter(ctx, as_sent, NULL);
}
