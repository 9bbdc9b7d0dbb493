/* Memory and events that processes share. All below: lock held. */
#ifndef SIMCUDA_IPC_H
#define SIMCUDA_IPC_H

#include "event.h"

/* The last record of a shared event becomes this operation. */
struct op *ipc_event_record(struct CUevent_st *event);
/* An operation that ends when the records made so far have happened. */
struct op *ipc_event_hold(struct CUevent_st *event);
bool ipc_event_done(const struct CUevent_st *event);
void ipc_event_wait(struct shared_event *shared); /* releases the lock while it waits */
void ipc_event_ending(struct CUevent_st *event);

/* A block that was exported is being released: its handle opens no more. */
struct block;
void ipc_block_ending(struct block *block);

#endif
