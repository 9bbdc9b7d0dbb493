/* The allocator of the simulated devices and the records of all memory. */
#include "memory.h"

#include "address_space.h"
#include "allocate.h"
#include "context.h"
#include "hazard.h"
#include "host_backing.h"
#include "ipc.h"
#include "lock.h"
#include "managed.h"
#include "mempool.h"
#include "report.h"
#include "settings.h"
#include "shared_memory.h"
#include "unmapping.h"
#include "values.h"
#include "virtual_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

enum { CHUNK_UNITS = 4096, WORD_BITS = 64 };

/* One page of a device that small allocations of one context share.
 * Invariant: bit i of `used` is set while unit i (512 bytes) belongs to a block; free_units counts
 * the clear ones; a chunk without used units does not exist. */
struct chunk {
    CUdeviceptr address;
    CUdevice device;
    unsigned int free_units;
    uint64_t used[CHUNK_UNITS / WORD_BITS];
    struct chunk *prev, *next;
};

static int compare_blocks(const struct block *a, const struct block *b) {
    return (a->address > b->address) - (a->address < b->address);
}

RB_HEAD(block_tree, block);
RB_GENERATE_INTERNAL(block_tree, block, node, compare_blocks, __attribute__((unused)) static)

static struct block_tree blocks = RB_INITIALIZER(&blocks);
static size_t used_pages[DEVICES_MAX];
static size_t scattered[DEVICES_MAX]; /* bytes of small allocations, if they count without pages */
static size_t pinned;                 /* bytes of MEMORY_HOST and MEMORY_REGISTERED */
static uint64_t last_block_id;

struct block *memory_at(CUdeviceptr address) {
    sim_check_held();
    struct block key = {.address = address};

    return RB_FIND(block_tree, &blocks, &key);
}

struct memory_home memory_home(CUdeviceptr address) {
    sim_check_held();
    const struct block *block = memory_containing(address);
    struct memory_home home = {.kind = HOME_HOST};

    if (block == NULL || block->kind == MEMORY_HOST || block->kind == MEMORY_REGISTERED)
        return home;
    home.kind = block->kind == MEMORY_MANAGED ? HOME_MANAGED : HOME_DEVICE;
    home.device = block->device;
    home.context = block->context;
    return home;
}

struct block *memory_containing(CUdeviceptr address) {
    sim_check_held();
    struct block *node = RB_ROOT(&blocks);
    struct block *below = NULL;

    while (node != NULL) {
        if (node->address <= address) {
            below = node;
            node = RB_RIGHT(node, node);
        } else {
            node = RB_LEFT(node, node);
        }
    }
    return below != NULL && address - below->address < below->size ? below : NULL;
}

bool memory_spans(CUdeviceptr address, size_t size) {
    sim_check_held();
    struct block *block = memory_containing(address), *next;
    size_t left;

    for (left = size; block != NULL; block = next) {
        size_t there = block->size - (address - block->address);

        if (left <= there)
            return true;
        next = RB_NEXT(block_tree, &blocks, block);
        if (next == NULL || block->kind != MEMORY_MAPPED || next->kind != MEMORY_MAPPED ||
            next->address != block->address + block->size ||
            next->shadow != block->shadow + block->size)
            return false;
        left -= there;
        address = next->address;
    }
    return false;
}

bool memory_overlaps(CUdeviceptr address, size_t size) {
    sim_check_held();
    struct block key = {.address = address};
    struct block *after = RB_NFIND(block_tree, &blocks, &key);

    return (after != NULL && after->address < address + size) || memory_containing(address) != NULL;
}

struct block *memory_next(struct block *after) {
    sim_check_held();
    return after == NULL ? RB_MIN(block_tree, &blocks) : RB_NEXT(block_tree, &blocks, after);
}

bool memory_is_device_range(CUdeviceptr address, size_t size) {
    sim_check_held();
    return address_space_overlaps(address, size) || virtual_memory_reserved(address, size);
}

/* SIMCUDA_COUNTED_MEMORY: a page of small allocations takes addresses alone, and each of them
 * counts by itself. They never lack memory because others' pages are not full. */
static bool counts_bytes(void) {
    return settings()->counted_memory != 0;
}

size_t memory_capacity(CUdevice device) {
    (void)device;
    return counts_bytes() ? settings()->counted_memory
                          : settings()->memory / memory_page * memory_page;
}

size_t memory_available(CUdevice device) {
    sim_check_held();
    size_t taken =
        (used_pages[device] + shared_memory_elsewhere(device)) * memory_page + scattered[device];

    return taken < memory_capacity(device) ? memory_capacity(device) - taken : 0;
}

unsigned char *memory_reach_locked(CUdeviceptr address, size_t size) {
    sim_check_held();
    struct block *block = memory_containing(address);

    if (block != NULL && memory_spans(address, size))
        return block->shadow + (address - block->address);
    if (block == NULL && settings()->pageable_access != 0 && !memory_is_device_range(address, size))
        return (unsigned char *)(uintptr_t)address;
    return NULL;
}

unsigned char *memory_reach(CUdeviceptr address, size_t size) {
    sim_check_none();
    unsigned char *reached;

    sim_lock();
    reached = memory_reach_locked(address, size);
    sim_unlock();
    return reached;
}

/* --- pages --- */

/* What this process may take of a device, whatever others take of it. */
static size_t own_pages(CUdevice device) {
    uint64_t most = settings()->client_memory;
    size_t all = memory_capacity(device) / memory_page;

    return most != 0 && most / memory_page < all ? most / memory_page : all;
}

bool memory_take_unaddressed(CUdevice device, size_t pages) {
    sim_check_held();
    if (pages > own_pages(device) - used_pages[device] ||
        pages * memory_page > memory_available(device) ||
        !shared_memory_take(device, (int64_t)pages, memory_capacity(device) / memory_page))
        return false;
    used_pages[device] += pages;
    report_held((int64_t)(pages * memory_page));
    return true;
}

void memory_give_unaddressed(CUdevice device, size_t pages) {
    sim_check_held();
    used_pages[device] -= pages;
    shared_memory_take(device, -(int64_t)pages, 0);
    report_held(-(int64_t)(pages * memory_page));
}

bool memory_take_pages(CUdevice device, size_t pages, CUdeviceptr *address) {
    sim_check_held();
    if (!memory_take_unaddressed(device, pages))
        return false;
    if (address_space_take(device, pages * memory_page, address))
        return true;
    memory_give_unaddressed(device, pages);
    return false;
}

void memory_give_pages(CUdevice device, CUdeviceptr address, size_t pages) {
    sim_check_held();
    address_space_clear(device, address, pages * memory_page);
    address_space_give(device, address, pages * memory_page);
    memory_give_unaddressed(device, pages);
}

/* --- small allocations --- */

static bool take_shared_page(CUdevice device, CUdeviceptr *address) {
    if (counts_bytes())
        return address_space_take(device, memory_page, address);
    return memory_take_pages(device, 1, address);
}

static void give_shared_page(CUdevice device, CUdeviceptr address) {
    if (counts_bytes())
        address_space_give(device, address, memory_page);
    else
        memory_give_pages(device, address, 1);
}

/* False: the device has not so much left. */
static bool take_scattered(CUdevice device, size_t bytes) {
    if (!counts_bytes())
        return true;
    if (bytes > memory_available(device))
        return false;
    scattered[device] += bytes;
    report_held((int64_t)bytes);
    return true;
}

static void give_scattered(CUdevice device, size_t bytes) {
    if (!counts_bytes())
        return;
    scattered[device] -= bytes;
    report_held(-(int64_t)bytes);
}

static bool is_small(size_t size) {
    return counts_bytes() ? size < memory_page : size <= memory_small;
}

static bool unit_used(const struct chunk *chunk, size_t unit) {
    return (chunk->used[unit / WORD_BITS] >> (unit % WORD_BITS) & 1) != 0;
}

static void mark_units(struct chunk *chunk, size_t first, size_t count, bool used) {
    for (size_t unit = first; unit < first + count; unit++) {
        uint64_t bit = (uint64_t)1 << (unit % WORD_BITS);

        if (used)
            chunk->used[unit / WORD_BITS] |= bit;
        else
            chunk->used[unit / WORD_BITS] &= ~bit;
    }
    chunk->free_units =
        (unsigned int)(used ? chunk->free_units - count : chunk->free_units + count);
}

/* The first run of `count` free units, CHUNK_UNITS if there is none. */
static size_t find_units(const struct chunk *chunk, size_t count) {
    size_t run = 0;

    for (size_t unit = 0; unit < CHUNK_UNITS; unit++) {
        if (unit % WORD_BITS == 0 && chunk->used[unit / WORD_BITS] == UINT64_MAX) {
            run = 0;
            unit += WORD_BITS - 1;
            continue;
        }
        run = unit_used(chunk, unit) ? 0 : run + 1;
        if (run == count)
            return unit + 1 - count;
    }
    return CHUNK_UNITS;
}

/* Takes `count` units from a chunk of `context`, or of a new one. NULL: the device is full. */
static struct chunk *take_units(struct CUctx_st *context, size_t count, size_t *first,
                                bool *new_chunk) {
    struct chunk *chunk;
    CUdeviceptr address;

    *new_chunk = false;
    DL_FOREACH(context->chunks, chunk) {
        if (chunk->free_units == 0)
            break; /* full ones are last */
        *first = chunk->free_units >= count ? find_units(chunk, count) : CHUNK_UNITS;
        if (*first != CHUNK_UNITS)
            break;
    }
    if (chunk == NULL || chunk->free_units == 0) {
        if (!take_shared_page(context->device, &address))
            return NULL;
        *new_chunk = true;
        *first = 0;
        chunk = allocate_zeroed(sizeof *chunk);
        chunk->address = address;
        chunk->device = context->device;
        chunk->free_units = CHUNK_UNITS;
        DL_PREPEND(context->chunks, chunk);
    }
    mark_units(chunk, *first, count, true);
    if (chunk->free_units == 0) {
        DL_DELETE(context->chunks, chunk);
        DL_APPEND(context->chunks, chunk);
    }
    return chunk;
}

/* Returns whether the chunk went with it. */
static bool give_units(struct block *block) {
    struct chunk *chunk = block->chunk;
    struct CUctx_st *context = block->context;

    address_space_clear(chunk->device, block->address, block->extent);
    give_scattered(chunk->device, block->extent);
    DL_DELETE(context->chunks, chunk);
    mark_units(chunk, (block->address - chunk->address) / MEMORY_GRANULE,
               block->extent / MEMORY_GRANULE, false);
    if (chunk->free_units == CHUNK_UNITS) {
        give_shared_page(chunk->device, chunk->address);
        free(chunk);
        return true;
    }
    DL_PREPEND(context->chunks, chunk);
    return false;
}

/* --- blocks --- */

static struct block *add_block(struct CUctx_st *context, CUdevice device, CUdeviceptr address,
                               size_t size, size_t extent, enum memory_kind kind,
                               unsigned char *shadow, uintptr_t site) {
    struct block *block = allocate_zeroed(sizeof *block);

    block->address = address;
    block->size = size;
    block->extent = extent;
    block->kind = kind;
    block->shadow = shadow;
    block->context = context;
    block->device = device;
    block->id = ++last_block_id;
    RB_INSERT(block_tree, &blocks, block);
    hazard_block_begin(block, site);
    return block;
}

static CUresult allocate_small(struct CUctx_st *context, size_t size, enum memory_kind kind,
                               uintptr_t site, struct block **block, uint64_t *cost_ns) {
    size_t units = (size + MEMORY_GRANULE - 1) / MEMORY_GRANULE;
    CUdeviceptr address;
    struct chunk *chunk;
    bool new_chunk;
    size_t first;

    if (!take_scattered(context->device, units * MEMORY_GRANULE))
        return CUDA_ERROR_OUT_OF_MEMORY;
    chunk = take_units(context, units, &first, &new_chunk);
    if (chunk == NULL) {
        give_scattered(context->device, units * MEMORY_GRANULE);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    address = chunk->address + first * MEMORY_GRANULE;
    *block = add_block(context, context->device, address, size, units * MEMORY_GRANULE, kind,
                       address_space_shadow(context->device, address), site);
    (*block)->chunk = chunk;
    *cost_ns = new_chunk ? settings()->alloc_ns + settings()->page_ns : settings()->alloc_small_ns;
    return CUDA_SUCCESS;
}

CUresult memory_allocate(struct CUctx_st *context, size_t size, enum memory_kind kind,
                         uintptr_t site, struct block **block, uint64_t *cost_ns) {
    sim_check_held();
    size_t pages = size / memory_page + (size % memory_page != 0);
    CUdeviceptr address;

    *cost_ns = 0;
    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_small(size))
        return allocate_small(context, size, kind, site, block, cost_ns);
    if (!memory_take_pages(context->device, pages, &address))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *block = add_block(context, context->device, address, size, pages * memory_page, kind,
                       address_space_shadow(context->device, address), site);
    *cost_ns = settings()->alloc_ns + pages * settings()->page_ns;
    return CUDA_SUCCESS;
}

static bool is_pinned(enum memory_kind kind) {
    return kind == MEMORY_HOST || kind == MEMORY_REGISTERED;
}

bool memory_can_pin(size_t size) {
    sim_check_held();
    size_t most = settings()->host_memory;

    return most == 0 || (pinned <= most && size <= most - pinned);
}

struct block *memory_adopt(struct CUctx_st *context, void *host, size_t size, size_t extent,
                           enum memory_kind kind, uintptr_t site) {
    sim_check_held();
    pinned += is_pinned(kind) ? extent : 0;
    return add_block(context, context->device, (CUdeviceptr)(uintptr_t)host, size, extent, kind,
                     host, site);
}

CUresult memory_allocate_visible(struct CUctx_st *context, size_t size, enum memory_kind kind,
                                 uintptr_t site, struct block **block) {
    sim_check_held();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t extent = (size + page - 1) / page * page;
    void *memory;

    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (extent < size || (kind == MEMORY_HOST && !memory_can_pin(extent)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!host_backing_promise_visible(extent))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory = mmap(NULL, extent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        host_backing_end_visible(extent);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *block = memory_adopt(context, memory, size, extent, kind, site);
    return CUDA_SUCCESS;
}

struct block *memory_import(struct CUctx_st *context, unsigned char *shadow, size_t size) {
    sim_check_held();
    size_t extent = (size + memory_page - 1) / memory_page * memory_page;
    CUdeviceptr address;

    if (!address_space_take(context->device, extent, &address))
        return NULL;
    return add_block(context, context->device, address, size, extent, MEMORY_IMPORTED, shadow, 0);
}

struct block *memory_import_file(struct CUctx_st *context, int file, uint64_t offset, size_t size) {
    sim_check_held();
    size_t before = (size_t)(offset % (uint64_t)sysconf(_SC_PAGESIZE));
    unsigned char *memory = mmap(NULL, before + size, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                                 (off_t)(offset - before));
    struct block *block;

    if (memory == MAP_FAILED)
        return NULL;
    block = memory_import(context, memory + before, size);
    if (block == NULL)
        munmap(memory, before + size);
    return block;
}

struct block *memory_map(enum memory_kind kind, CUdevice device, CUdeviceptr address,
                         unsigned char *shadow, size_t size, uintptr_t site) {
    sim_check_held();
    size_t extent = (size + memory_page - 1) / memory_page * memory_page;

    return add_block(NULL, device, address, size, extent, kind, shadow, site);
}

/* The mapping begins and ends with host pages around the block. */
static void unmap_import(const struct block *block) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)block->shadow / page * page;

    unmapping_add((void *)begin, (uintptr_t)block->shadow + block->size - begin);
}

static uint64_t changes;

const uint64_t *memory_changes(void) {
    return &changes;
}

void memory_release(struct block *block, const struct vclock *order, uintptr_t site,
                    uint64_t *cost_ns) {
    sim_check_held();
    size_t pages = block->extent / memory_page;

    *cost_ns = 0;
    pinned -= is_pinned(block->kind) ? block->extent : 0;
    hazard_block_end(block, order, site);
    if (block->kind == MEMORY_DEVICE)
        ipc_block_ending(block);
    RB_REMOVE(block_tree, &blocks, block);
    __atomic_add_fetch(&changes, 1, __ATOMIC_RELEASE);
    switch (block->kind) {
    case MEMORY_DEVICE:
    case MEMORY_POOL:
        if (block->chunk == NULL) {
            if (block->export_serial == 0)
                memory_give_pages(block->device, block->address, pages);
            else /* who has opened it keeps it as it is: its addresses are not used again */
                memory_give_unaddressed(block->device, pages);
            *cost_ns = settings()->free_ns + pages * settings()->page_ns;
        } else {
            *cost_ns = give_units(block) ? settings()->free_ns + settings()->page_ns
                                         : settings()->free_small_ns;
        }
        break;
    case MEMORY_MANAGED:
    case MEMORY_HOST:
        unmapping_add(block->shadow, block->extent);
        host_backing_end_visible(block->extent);
        *cost_ns = settings()->host_alloc_ns;
        break;
    case MEMORY_REGISTERED:
    case MEMORY_MAPPED:
        break;
    case MEMORY_GRAPH:
        address_space_clear(block->device, block->address, block->extent);
        address_space_give(block->device, block->address, block->extent);
        break;
    case MEMORY_IMPORTED:
        unmap_import(block);
        address_space_give(block->device, block->address, block->extent);
        break;
    }
    managed_block_ended(block);
    value_time_forget(block->address, block->extent);
    if (block->pool != NULL)
        mempool_block_ended(block->pool, block->size);
    free(block);
}

void memory_release_all(struct CUctx_st *context) {
    sim_check_held();
    struct block *block, *next;
    uint64_t unspent;

    for (block = memory_next(NULL); block != NULL; block = next) {
        next = memory_next(block);
        if (block->context == context && block->kind != MEMORY_POOL)
            memory_release(block, &host_clock, 0, &unspent);
    }
}

CUresult memory_backing(const struct block *block, int *file, uint64_t *offset) {
    sim_check_held();
    if (block->kind != MEMORY_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    *file = address_space_file(block->device);
    *offset = block->address - address_space_base(block->device);
    return CUDA_SUCCESS;
}
