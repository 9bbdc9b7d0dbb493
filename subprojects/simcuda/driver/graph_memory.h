/* Memory that belongs to a graph: what cuMemAllocAsync and cuMemFreeAsync become in a stream that
 * captures. All below: lock held. */
#ifndef SIMCUDA_GRAPH_MEMORY_H
#define SIMCUDA_GRAPH_MEMORY_H

#include "context.h"
#include "op.h"
#include "vclock.h"

struct block;
struct CUgraph_st;

/* Adds the node that allocates `size` bytes in `graph`; its address is known at once and stays the
 * same, its memory is taken when the graph is first uploaded. NULL: no addresses left. */
struct op *graph_memory_allocate(struct CUgraph_st *graph, CUdevice device, size_t size,
                                 uintptr_t site, CUdeviceptr *pointer);

/* What a node answers to a program: as it was asked for by `accesses`, which are copied, too. */
void graph_memory_note_accesses(struct op *op, const CUmemAccessDesc *accesses, size_t count);
CUDA_MEM_ALLOC_NODE_PARAMS graph_memory_told(const struct op *op);
CUdeviceptr graph_memory_address(const struct op *op);

/* Whether both allocate, or free, the same memory. */
bool graph_memory_same(const struct op *a, const struct op *b);

/* The node of `graph` that frees `block`. NULL: it is no graph's memory, or has such a node
 * already. */
struct op *graph_memory_free_node(struct CUgraph_st *graph, struct block *block);

/* Frees what a graph left allocated, for the program. The operation that ends it belongs to the
 * caller; NULL: it is not allocated. */
struct op *graph_memory_free(struct block *block);

/* Takes the memory of the allocations of an executable graph, for its operation. */
CUresult graph_memory_upload(const struct op *op);

/* To be called before its launch: INVALID_VALUE when an allocation of an earlier one was not freed,
 * unless `auto_free`. */
CUresult graph_memory_launch(const struct op *op, bool auto_free);

/* An executable graph, or a free, was submitted with this clock: it comes before the memory's
 * release. */
void graph_memory_submitted(const struct op *op, const struct vclock *clock);

#endif
