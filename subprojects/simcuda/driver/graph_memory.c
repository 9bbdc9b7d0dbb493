#include "graph_memory.h"

#include "address_space.h"
#include "allocate.h"
#include "context.h"
#include "graph.h"
#include "lock.h"
#include "memory.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

/* Invariant: its block exists while there are references: its nodes', those in executable graphs
 * included, and the program's while it is live. */
struct graph_allocation {
    unsigned int references;
    uint64_t graph;            /* the id of that which allocates it */
    CUmemAccessDesc *accesses; /* owned */
    size_t access_count;
    struct block *block;
    bool has_free_node;
    bool freed_in_its_graph; /* so that it never becomes live */
    bool resident;           /* its pages are taken */
    bool live;               /* a launch has ended, or will end, without freeing it */
    struct vclock order;     /* what the release is ordered after, besides what the host knows */
};

/* Pages of graphs' memory that are taken, and the most since that was last reset. */
static struct { size_t taken, used_most, reserved_most; } held[DEVICES_MAX];

static size_t pages(const struct graph_allocation *allocation) {
    return allocation->block->extent / memory_page;
}

static void drop(struct graph_allocation *allocation) {
    CUdevice device = allocation->block->device;
    uint64_t unspent;

    if (--allocation->references != 0)
        return;
    if (allocation->resident) {
        memory_give_unaddressed(device, pages(allocation));
        held[device].taken -= pages(allocation);
    }
    vclock_join(&allocation->order, &host_clock);
    memory_release(allocation->block, &allocation->order, 0, &unspent);
    vclock_clear(&allocation->order);
    free(allocation->accesses);
    free(allocation);
}

static void dispose(struct op *op) {
    drop(op->as.graph_memory);
}

/* What a node does in the device's time: nothing, as its memory is there from the launch on. */
static CUresult run_allocate(struct op *op) {
    (void)op;
    return CUDA_SUCCESS;
}

static CUresult run_free(struct op *op) {
    (void)op;
    return CUDA_SUCCESS;
}

static struct op *node(const char *name, CUresult (*run)(struct op *op),
                       struct graph_allocation *allocation) {
    struct op *op = op_create(name, run);

    op->node_type =
        run == run_allocate ? CU_GRAPH_NODE_TYPE_MEM_ALLOC : CU_GRAPH_NODE_TYPE_MEM_FREE;
    op->as.graph_memory = allocation;
    op->dispose = dispose;
    allocation->references++;
    return op;
}

struct op *graph_memory_allocate(struct CUgraph_st *graph, CUdevice device, size_t size,
                                 uintptr_t site, CUdeviceptr *pointer) {
    sim_check_held();
    size_t extent = (size + memory_page - 1) / memory_page * memory_page;
    struct graph_allocation *allocation;

    if (extent < size || !address_space_take(device, extent, pointer))
        return NULL;
    allocation = allocate_zeroed(sizeof *allocation);
    allocation->graph = graph->id;
    allocation->block = memory_map(MEMORY_GRAPH, device, *pointer,
                                   address_space_shadow(device, *pointer), size, site);
    allocation->block->graph = allocation;
    return node("graph allocation", run_allocate, allocation);
}

void graph_memory_note_accesses(struct op *op, const CUmemAccessDesc *accesses, size_t count) {
    sim_check_held();
    struct graph_allocation *allocation = op->as.graph_memory;

    if (count == 0)
        return;
    allocation->accesses = allocate_zeroed(count * sizeof *accesses);
    memcpy(allocation->accesses, accesses, count * sizeof *accesses);
    allocation->access_count = count;
}

CUDA_MEM_ALLOC_NODE_PARAMS graph_memory_told(const struct op *op) {
    sim_check_held();
    const struct graph_allocation *allocation = op->as.graph_memory;

    return (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                   .id = allocation->block->device}},
        .accessDescs = allocation->accesses,
        .accessDescCount = allocation->access_count,
        .bytesize = allocation->block->size,
        .dptr = allocation->block->address};
}

CUdeviceptr graph_memory_address(const struct op *op) {
    sim_check_held();
    return op->as.graph_memory->block->address;
}

bool graph_memory_same(const struct op *a, const struct op *b) {
    sim_check_held();
    return a->run == b->run && a->as.graph_memory == b->as.graph_memory;
}

struct op *graph_memory_free_node(struct CUgraph_st *graph, struct block *block) {
    sim_check_held();
    struct graph_allocation *allocation = block->graph;

    if (allocation == NULL || allocation->has_free_node)
        return NULL;
    allocation->has_free_node = true;
    allocation->freed_in_its_graph = allocation->graph == graph->id;
    return node("graph free", run_free, allocation);
}

struct op *graph_memory_free(struct block *block) {
    sim_check_held();
    struct graph_allocation *allocation = block->graph;
    struct op *op;

    if (!allocation->live)
        return NULL;
    allocation->live = false;
    op = node("cuMemFreeAsync", run_free, allocation);
    drop(allocation); /* the program's reference goes over to the operation */
    return op;
}

static bool allocates(const struct op *op) {
    return op->run == run_allocate;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void note_taken(const struct graph_allocation *allocation) {
    CUdevice device = allocation->block->device;

    held[device].taken += pages(allocation);
    held[device].used_most = larger(held[device].used_most, held[device].taken);
    held[device].reserved_most = larger(held[device].reserved_most, held[device].taken);
}

static CUresult take_pages(struct graph_allocation *allocation) {
    if (allocation->resident)
        return CUDA_SUCCESS;
    if (!memory_take_unaddressed(allocation->block->device, pages(allocation)))
        return CUDA_ERROR_OUT_OF_MEMORY; /* what was taken is there for the next attempt */
    allocation->resident = true;
    note_taken(allocation);
    return CUDA_SUCCESS;
}

CUresult graph_memory_upload(const struct op *op) {
    sim_check_held();
    CUresult result = allocates(op) ? take_pages(op->as.graph_memory) : CUDA_SUCCESS;

    for (size_t i = 0; i < op->child_count && result == CUDA_SUCCESS; i++)
        result = graph_memory_upload(op->children[i]);
    return result;
}

static bool is_unfreed(const struct op *op) {
    bool unfreed = allocates(op) && op->as.graph_memory->live;

    for (size_t i = 0; i < op->child_count && !unfreed; i++)
        unfreed = is_unfreed(op->children[i]);
    return unfreed;
}

static void change_hands(const struct op *op) {
    struct graph_allocation *allocation = op->as.graph_memory;

    if (allocates(op) && !allocation->freed_in_its_graph && !allocation->live) {
        allocation->live = true;
        allocation->references++;
    } else if (op->run == run_free && allocation->live) {
        allocation->live = false;
        drop(allocation);
    }
    for (size_t i = 0; i < op->child_count; i++)
        change_hands(op->children[i]);
}

CUresult graph_memory_launch(const struct op *op, bool auto_free) {
    sim_check_held();
    if (!auto_free && is_unfreed(op))
        return CUDA_ERROR_INVALID_VALUE; /* [capture:graph-unfreed] cuda.h 21055 */
    change_hands(op);
    return CUDA_SUCCESS;
}

void graph_memory_submitted(const struct op *op, const struct vclock *clock) {
    sim_check_held();
    if (allocates(op) || op->run == run_free)
        vclock_join(&op->as.graph_memory->order, clock);
    for (size_t i = 0; i < op->child_count; i++)
        graph_memory_submitted(op->children[i], clock);
}

/* --- entry points --- */

static CUresult get_attribute(CUdevice device, CUgraphMem_attribute which, cuuint64_t *value) {
    switch (which) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: /* nothing is kept beyond what graphs use */
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        *value = held[device].taken * memory_page;
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        *value = held[device].used_most * memory_page;
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        *value = held[device].reserved_most * memory_page;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which,
                                                 void *value) {
    CUresult result;

    ENTER(cuDeviceGetGraphMemAttribute);
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = get_attribute(device, which, value);
    sim_unlock();
    return result;
}

/* "High watermarks can only be reset": to what is there now. */
SIM_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which,
                                                 void *value) {
    CUresult result = CUDA_SUCCESS;

    ENTER(cuDeviceSetGraphMemAttribute);
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    if (value == NULL || *(const cuuint64_t *)value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        held[device].used_most = held[device].taken;
    else if (which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        held[device].reserved_most = held[device].taken;
    else
        result = CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return result;
}

/* There is nothing to give back: memory goes with the last graph that uses it. */
SIM_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
    ENTER(cuDeviceGraphMemTrim);
    return device_check(device);
}
