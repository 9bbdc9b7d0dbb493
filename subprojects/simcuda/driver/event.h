/* Events: what was last recorded in them. All below: lock held. */
#ifndef SIMCUDA_EVENT_H
#define SIMCUDA_EVENT_H

#include "context.h"
#include "stream.h"

struct capture_point;
struct shared_event;

/* Invariant: at most one of `work` and `point` is set: the last record was executed or captured.
 * With `shared` set, its state is in memory that other processes see, and `work` may be NULL. */
struct CUevent_st {
    struct CUctx_st *context;
    unsigned int flags;
    struct work *work;
    struct capture_point *point;
    struct shared_event *shared;
    bool imported;
    struct CUevent_st *prev, *next; /* of its context */
    struct CUevent_st *self;        /* the key of by_handle */
    UT_hash_handle by_handle;
};

/* The events behind cuCtxRecordEvent and cuCtxWaitEvent. */
CUresult event_record_context(CUevent event, struct CUctx_st *context);
CUresult event_hold_context(CUevent event, struct CUctx_st *context);

/* Records it behind all work of the stream, or holds back what the stream is given from now on. */
CUresult event_record_in(CUevent event, struct CUstream_st *stream);
CUresult event_hold_stream(CUevent event, struct CUstream_st *stream);

/* What stands for either in a graph. */
struct op *event_node_op(CUevent event, CUgraphNodeType type);

CUresult event_check(CUevent event); /* INVALID_HANDLE unless it is one */
CUresult event_create(struct CUctx_st *context, unsigned int flags, CUevent *event);
void event_destroy_all(struct CUctx_st *context);

#endif
