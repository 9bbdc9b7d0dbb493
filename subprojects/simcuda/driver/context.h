/* Contexts, the calling thread's stack of them, and what they own. All below: lock held. */
#ifndef SIMCUDA_CONTEXT_H
#define SIMCUDA_CONTEXT_H

#include "entry.h"

#include <stdint.h>

enum context_state { CONTEXT_LIVE, CONTEXT_INACTIVE, CONTEXT_DESTROYED };
enum { CONTEXT_LIMITS = 16, DEVICES_MAX = 8 };
enum {
    CONTEXT_SYNC_MEMOPS = 0x80,
    CONTEXT_FLAGS = 0xff
}; /* of CUctx_flags; older headers lack it */

struct chunk;
struct CUevent_st;
struct CUgreenCtx_st;

/* Never freed, so that a stale handle differs from a wrong one.
 * Invariant: INACTIVE only for a primary context. It then owns nothing; one that is still retained
 * becomes live again, with a new id, at its next use.
 * A green context has streams only; all else, what is made while it is current too, is its primary
 * context's. */
struct CUctx_st {
    enum context_state state;
    bool primary;
    unsigned int retains; /* of a primary context; attach count of another */
    CUdevice device;
    unsigned int flags;
    unsigned int api_version;
    uint64_t id;
    CUresult sticky; /* the error that every call returns from now on; context_error reads it */
    struct CUctx_st *green_of;   /* of a green context: the primary context that it is a part of */
    struct CUgreenCtx_st *green; /* the handle of a green context */
    size_t limits[CONTEXT_LIMITS];
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
    struct CUstream_st *legacy;
    struct CUstream_st *fence;   /* internal: orders markers after every other stream */
    struct CUstream_st *streams; /* all of them, legacy and destroyed ones with work included */
    struct CUevent_st *events;
    struct CUctx_st **peers; /* contexts whose memory this one may access */
    size_t peer_count;
    bool launched;        /* it has the memory of its first launch */
    struct chunk *chunks; /* pages that its small allocations share, those with room first */
    struct CUctx_st *next;
};

/* The current context, ready to be used: INVALID_CONTEXT, CONTEXT_IS_DESTROYED or its sticky error
 * otherwise. Where a green context is current this is its primary context. */
CUresult context_current(struct CUctx_st **context);

/* Returns what context_current does, but the green context itself. */
CUresult context_current_part(struct CUctx_st **context);

/* As context_current_part for a handle that the program passed. */
CUresult context_check(CUcontext handle, struct CUctx_st **context);

/* As context_check, and the current context where the handle is NULL; either's primary context. */
CUresult context_or_current(CUcontext handle, struct CUctx_st **context);

/* What a context belongs to: itself, or a green context's primary context. */
struct CUctx_st *context_root(struct CUctx_st *context);
CUresult context_error(struct CUctx_st *context);
bool context_syncs_memops(struct CUctx_st *context); /* CU_CTX_SYNC_MEMOPS is set */

/* Goes through `context` and, if it is a primary one, its green contexts. NULL begins and ends. */
struct CUctx_st *context_next_part(struct CUctx_st *context, struct CUctx_st *after);

/* Retains a device's primary context; releasing it may end it, as resetting it does. */
CUresult context_retain_primary(CUdevice device, struct CUctx_st **context);
CUresult context_release_primary(CUdevice device);
void context_reset_primary(CUdevice device);

/* OUT_OF_MEMORY, otherwise a green context that lives until it is ended. */
CUresult context_make_green(struct CUctx_st *primary, struct CUgreenCtx_st *green,
                            struct CUctx_st **context);
void context_end_green(struct CUctx_st *context); /* its streams stay */

struct CUctx_st *context_primary(CUdevice device); /* not retained, maybe inactive */
struct CUctx_st *context_list(void);               /* of all contexts ever made */
bool context_known(CUcontext handle);              /* destroyed or not */

bool context_flags_valid(unsigned int flags); /* lock not needed */

CUresult device_check(CUdevice device); /* lock not needed */
/* 0: it lacks that; lock not needed */
int device_attribute(CUdevice_attribute attribute, CUdevice device);

#endif
