/* Operations of a random program that allocate device memory, and nearly all of it. */
#include "memory_operations.h"

#include "concurrent.h"

/* Four sites: a pool that goes by return addresses must see as many. */
#define SITE(name)                                                                                 \
    static __attribute__((noinline)) CUresult name(CUdeviceptr *pointer, size_t size) {            \
        CUresult result = cuMemAlloc_v2(pointer, size);                                            \
        __asm__ volatile("");                                                                      \
        return result;                                                                             \
    }
SITE(alloc_at_first)
SITE(alloc_at_second)
SITE(alloc_at_third)
SITE(alloc_at_fourth)

static CUresult alloc_at(uint32_t site, CUdeviceptr *pointer, size_t size) {
    static CUresult (*const sites[])(CUdeviceptr *, size_t) = {alloc_at_first, alloc_at_second,
                                                               alloc_at_third, alloc_at_fourth};
    return sites[site % 4](pointer, size);
}

/* A pool cannot give idle memory back while the device is busy. The reader of the transcript is to
 * know whether that is why it has no memory, or takes a larger block. available: before the call,
 * whatever a pool says. */
static void tell_alloc(struct world *world, const char *name, CUresult result, size_t available,
                       size_t size) {
    tell(world, name, result);
    if (world->hold.active && available < world_footprint(size))
        fprintf(world->transcript, "note: held, and the device has less\n");
}

static void alloc_bytes(struct world *world, struct block *block, size_t size, uint32_t site) {
    CUdeviceptr pointer = 0;
    size_t available = device_available();
    CUresult result = alloc_at(site, &pointer, size);
    tell_alloc(world, "alloc", result, available, size);
    if (result == CUDA_SUCCESS)
        world_adopt(world, block, pointer, size);
}

void do_alloc(struct world *world, const struct operation *operation) {
    struct block *block = world_empty_slot(world, operation->a);
    size_t size = world_size_from(operation->b);
    if (block && world_footprint(size) <= world_room(world))
        alloc_bytes(world, block, size, operation->c);
}

void do_alloc_large(struct world *world, const struct operation *operation) {
    struct block *block = world_empty_slot(world, operation->a);
    size_t size = world_room(world) / 8 * (4 + operation->b % 5);
    if (block && size > 64 << 20)
        alloc_bytes(world, block, size, operation->c);
}

void do_alloc_pitch(struct world *world, const struct operation *operation) {
    struct block *block = world_empty_slot(world, operation->a);
    size_t width = 4 * (64 + operation->b % 2000), height = 1 + operation->c % 500, pitch = 0;
    CUdeviceptr pointer = 0;
    if (!block || 4 * width * height > world_room(world))
        return;
    size_t available = device_available();
    CUresult result = cuMemAllocPitch_v2(&pointer, &pitch, width, height, 4);
    tell_alloc(world, "alloc pitch", result, available, 4 * width * height);
    fprintf(world->transcript, "pitch %zu\n", pitch);
    if (result == CUDA_SUCCESS)
        world_adopt(world, block, pointer, pitch * height);
}

/* Leaves 2% to 10% of the device. What a pool may lose at most must fit into that. */
static void crowd(struct world *world, const struct operation *operation) {
    struct block *block = world_empty_slot(world, operation->a);
    size_t gap = world->total / 100 * (2 + operation->a % 9), page = world_footprint(1);
    size_t loss = (size_t)(world_small_blocks(world) + 2) * page + world->total / 50;
    size_t kept = world_held(world) + (gap > loss ? gap : loss);
    if (block && kept + page <= world->total)
        alloc_bytes(world, block, (world->total - kept) / page * page, operation->c);
}

/* What fits there under a pool, too: some is lost to larger blocks and to pages. */
static size_t temporary_room(const struct world *world) {
    size_t loss = world->total / 50 + (size_t)(world_small_blocks(world) + 2) * world_footprint(1);
    size_t kept = world_held(world) + loss;
    return kept < world->total ? world->total - kept : 0;
}

/* A block that is filled, read, and freed while it is being filled again. Returns what goes wrong.
 */
static int use_temporary(const struct world *world, size_t size, uint32_t value, CUstream stream) {
    uint64_t count = WORDS;
    uint32_t words[WORDS] = {0}, other = ~value;
    CUfunction fill = world->contexts[world->current].fill;
    CUdeviceptr pointer;
    if (alloc_at(value, &pointer, size) != CUDA_SUCCESS)
        return 1;
    owner_begins(pointer, size);
    int wrong = cuLaunchKernel(fill, 4, 1, 1, 32, 1, 1, 0, stream,
                               (void *[]){&pointer, &count, &value}, NULL) != CUDA_SUCCESS;
    wrong += cuMemcpyDtoHAsync_v2(words, pointer, sizeof words, stream) != CUDA_SUCCESS;
    wrong += cuStreamSynchronize(stream) != CUDA_SUCCESS;
    wrong += words[0] != value || words[WORDS - 1] != value;
    wrong += cuLaunchKernel(fill, 4, 1, 1, 32, 1, 1, 0, stream,
                            (void *[]){&pointer, &count, &other}, NULL) != CUDA_SUCCESS;
    owner_ends(pointer);
    return wrong + (cuMemFree_v2(pointer) != CUDA_SUCCESS);
}

void do_temporaries(struct world *world, const struct operation *operation) {
    CUstream stream =
        world->contexts[world->current].streams[world_stream(world, operation->b >> 16)].handle;
    int wrong = 0, rounds = 4 + (int)(operation->c % 24);
    if (!world->crowds)
        return;
    world_settle_pending(world);
    crowd(world, operation);
    size_t most = temporary_room(world);
    if (most < WORDS * sizeof(uint32_t))
        return;
    for (int i = 0; i < rounds; i++) { /* three sizes in turn */
        size_t size = most >> ((uint32_t)i % 3 * (1 + operation->b % 4));
        wrong += use_temporary(world, size > WORDS * 4 ? size : WORDS * 4, operation->c, stream);
    }
    world->freed_count = 0;
    fprintf(world->transcript, "temporaries wrong %d\n", wrong);
}
