/* Stream capture: which streams record instead of execute, and what they prohibit meanwhile.
 * All below: lock held. */
#ifndef SIMCUDA_CAPTURE_H
#define SIMCUDA_CAPTURE_H

#include "context.h"
#include "op.h"
#include "stream.h"

struct CUevent_st;
struct CUgraph_st;

/* Refuses a potentially unsafe call (cuMemAlloc is the documented example) of this thread while a
 * capture prohibits it: invalidates that capture and returns STREAM_CAPTURE_UNSUPPORTED. */
CUresult capture_check_unsafe(void);

/* To be called before work or a wait in `stream`: a legacy stream must not depend on a capturing
 * one. */
CUresult capture_check_legacy(struct CUstream_st *stream);

/* To be called before waiting for or recording all of `context`. */
CUresult capture_check_context(struct CUctx_st *context);

/* To be called before a query or wait that names `stream`: invalidates and refuses if it is
 * capturing. */
CUresult capture_check_stream(struct CUstream_st *stream);

struct CUgraph_st *capture_graph(struct CUstream_st *stream); /* what `stream` is recording */

/* Adds `op` to the graph that `stream` is recording. */
CUresult capture_add(struct CUstream_st *stream, struct op *op);

/* Adds a copy of `graph` as a child graph. */
CUresult capture_add_graph(struct CUstream_st *stream, const struct CUgraph_st *graph);

/* Adds all of `ops`, none of which comes after another. */
CUresult capture_add_beside(struct CUstream_st *stream, struct op **ops, size_t count);

/* What an event recorded in a capturing stream remembers, instead of work. */
struct capture_point;
struct capture_point *capture_record(struct CUstream_st *stream);
void capture_point_drop(struct capture_point *point);
void capture_point_invalidate(struct capture_point *point);

/* `stream` waits for an event: one recorded while capturing draws the stream into the capture. */
CUresult capture_wait(struct CUstream_st *stream, const struct capture_point *point);

/* To be called when the stream is being destroyed. */
void capture_stream_ending(struct CUstream_st *stream);

#endif
