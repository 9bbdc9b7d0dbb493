/* What a call of the driver makes or ends, begins or shows, as its row of entry_points.def says:
 * what the pool and the check learn of it before and afterwards.
 *
 * Nothing here looks at the functions' signatures but for the few arguments that decide: a stream's
 * handle and flags, the address of a module's variable. */
#ifndef POOLCUDA_INTERPOSE_CALL_EFFECTS_H
#define POOLCUDA_INTERPOSE_CALL_EFFECTS_H

#include "interpose/entry_points.h"
#include "interpose/stub_frame.h"

/* Before the call, each time that it is made; with what is owed before it. */
void call_begins(struct pool *pool, struct stub_frame *frame, const struct entry *entry,
                 const char *name);
/* Afterwards. Returns whether it is to be made again. */
bool call_ended(struct pool *pool, struct stub_frame *frame, const struct entry *entry,
                const char *name, CUresult result);

#endif
