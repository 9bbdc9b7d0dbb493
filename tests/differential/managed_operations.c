/* Operations of a random program on managed memory: what it says and what it asks. */
#include "managed_operations.h"

#include "concurrent.h"

static struct block *empty_slot(struct world *world, uint32_t number) {
    for (int i = 0; i < MANAGED_BLOCKS; i++) {
        struct block *block = &world->managed_blocks[(number + (uint32_t)i) % MANAGED_BLOCKS];
        if (!block->pointer)
            return block;
    }
    return NULL;
}

/* The block of that number, or the next one, of the current context. */
static struct block *managed_block(struct world *world, uint32_t number) {
    for (int i = 0; i < MANAGED_BLOCKS; i++) {
        struct block *block = &world->managed_blocks[(number + (uint32_t)i) % MANAGED_BLOCKS];
        if (block->pointer && block->context == world->current)
            return block;
    }
    return NULL;
}

static volatile uint32_t *words_of(const struct block *block) {
    return (volatile uint32_t *)(uintptr_t)block->pointer;
}

static CUstream handle_of(const struct world *world, int stream) {
    return world->contexts[world->current].streams[stream].handle;
}

static size_t size_from(uint32_t number) {
    static const size_t most[] = {4096, 65536, 1 << 20, 8 << 20};
    return WORDS * sizeof(uint32_t) + number / 4 % most[number % 4];
}

/* Two sites. */
static __attribute__((noinline)) CUresult alloc_at_first(CUdeviceptr *pointer, size_t size,
                                                         unsigned int flags) {
    CUresult result = cuMemAllocManaged(pointer, size, flags);
    __asm__ volatile("");
    return result;
}

static __attribute__((noinline)) CUresult alloc_at_second(CUdeviceptr *pointer, size_t size) {
    CUresult result = cuMemAllocManaged(pointer, size, CU_MEM_ATTACH_GLOBAL);
    __asm__ volatile("");
    return result;
}

/* Natively a prefetch of any former owner's is none of this one's. */
static void tell_about(struct world *world, const struct block *block, size_t offset,
                       size_t bytes) {
    int mostly = 99, preferred = 99, by[3] = {99, 99, 99}, prefetched = 99;
    void *data[] = {&mostly, &preferred, by};
    size_t sizes[] = {sizeof mostly, sizeof preferred, sizeof by};
    CUmem_range_attribute wanted[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                      CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                      CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
    CUdeviceptr pointer = block->pointer + offset, base = 0;
    size_t size = 0;
    tell(world, "managed range", cuMemGetAddressRange_v2(&base, &size, pointer));
    tell(world, "managed attributes",
         cuMemRangeGetAttributes(data, sizes, wanted, 3, pointer, bytes));
    tell(world, "managed prefetched",
         cuMemRangeGetAttribute(&prefetched, sizeof prefetched,
                                CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, pointer, bytes));
    fprintf(world->transcript, "begins %d size %d mostly %d preferred %d by %d %d %d at %d\n",
            base == block->pointer, size == block->size, mostly, preferred, by[0], by[1], by[2],
            prefetched);
}

void do_managed_alloc(struct world *world, const struct operation *operation) {
    struct block *block = empty_slot(world, operation->a);
    size_t size = size_from(operation->b);
    CUdeviceptr pointer = 0;
    if (!block)
        return;
    unsigned flags = operation->c % 4 == 1 ? CU_MEM_ATTACH_HOST : CU_MEM_ATTACH_GLOBAL;
    CUresult result =
        operation->c % 2 ? alloc_at_first(&pointer, size, flags) : alloc_at_second(&pointer, size);
    tell(world, "managed alloc", result);
    if (result != CUDA_SUCCESS)
        return;
    *block = (struct block){
        .pointer = pointer, .size = size, .context = world->current, .stream = -1, .written = true};
    world->freed_count = 0;
    owner_begins(block->pointer, size);
    words_of(block)[0] = words_of(block)[WORDS - 1] = operation->c;
    tell_about(world, block, 0, size);
    fprintf(world->transcript, "attached %u\n", association(pointer));
}

void do_managed_fill(struct world *world, const struct operation *operation) {
    struct block *block = managed_block(world, operation->a);
    int stream = world_stream(world, operation->b);
    uint64_t count = WORDS;
    if (!block)
        return;
    world_order(world, block, stream);
    tell(world, "managed fill",
         cuLaunchKernel(
             world->contexts[world->current].fill, 4, 1, 1, 32, 1, 1, 0, handle_of(world, stream),
             (void *[]){&block->pointer, &count, (void *)(uintptr_t)&operation->c}, NULL));
}

void do_managed_read(struct world *world, const struct operation *operation) {
    struct block *block = managed_block(world, operation->a);
    if (!block)
        return;
    if (block->stream != -1)
        cuCtxSynchronize();
    block->stream = -1;
    fprintf(world->transcript, "managed read %08x %08x\n", words_of(block)[0],
            words_of(block)[WORDS - 1]);
    words_of(block)[0] = operation->b;
}

/* A whole block mostly, or some bytes in it. */
static size_t part_of(const struct block *block, uint32_t number, size_t *bytes) {
    size_t offset = number % 3 ? 0 : number / 3 % block->size;
    *bytes = number % 3 ? block->size : 1 + number / 7 % (block->size - offset);
    return offset;
}

void do_managed_advise(struct world *world, const struct operation *operation) {
    static const CUdevice devices[] = {0, 1, CU_DEVICE_CPU, 5};
    struct block *block = managed_block(world, operation->a);
    size_t bytes;
    if (!block)
        return;
    size_t offset = part_of(block, operation->b, &bytes);
    tell(world, "managed advise",
         cuMemAdvise(block->pointer + offset, bytes, (CUmem_advise)(operation->c % 8),
                     devices[operation->c / 8 % 4]));
}

/* Of all of it: to a pool's driver a part would still lie where a former owner had it. */
void do_managed_prefetch(struct world *world, const struct operation *operation) {
    struct block *block = managed_block(world, operation->a);
    int stream = world_stream(world, operation->b);
    if (!block)
        return;
    world_order(world, block, stream);
    tell(world, "managed prefetch",
         cuMemPrefetchAsync(block->pointer, block->size,
                            operation->c % 3 == 2 ? CU_DEVICE_CPU : (CUdevice)(operation->c % 3),
                            handle_of(world, stream)));
}

void do_managed_attach(struct world *world, const struct operation *operation) {
    struct block *block = managed_block(world, operation->a);
    int stream = world_stream(world, operation->b);
    if (!block)
        return;
    world_order(world, block, stream);
    tell(world, "managed attach",
         cuStreamAttachMemAsync(handle_of(world, stream), block->pointer,
                                operation->c % 2 ? block->size : 0, 1u << operation->c / 2 % 3));
}

void do_managed_ask(struct world *world, const struct operation *operation) {
    struct block *block = managed_block(world, operation->a);
    size_t bytes;
    if (!block)
        return;
    size_t offset = part_of(block, operation->b, &bytes);
    tell_about(world, block, offset, bytes);
}

static void release(struct world *world, struct block *block) {
    struct block gone = *block;
    owner_ends(gone.pointer);
    CUresult result = cuMemFree_v2(gone.pointer);
    if (result != CUDA_SUCCESS) {
        tell(world, "managed free", result);
        owner_begins(gone.pointer, gone.size);
        return;
    }
    *block = (struct block){0};
    if (world->relies)
        world_settled(world, gone.context);
    tell(world, "managed free", result);
}

void do_managed_release(struct world *world, const struct operation *operation) {
    struct block *block = managed_block(world, operation->a);
    if (block)
        release(world, block);
}

/* What no program may do, and what is there no longer. */
void do_managed_wrong(struct world *world, const struct operation *operation) {
    struct block *block = managed_block(world, operation->a);
    CUdeviceptr pointer = 0;
    int answer;
    tell(world, "managed alloc nothing", cuMemAllocManaged(&pointer, 0, CU_MEM_ATTACH_GLOBAL));
    tell(world, "managed alloc to null", cuMemAllocManaged(NULL, 1000, CU_MEM_ATTACH_GLOBAL));
    tell(world, "managed alloc flags", cuMemAllocManaged(&pointer, 1000, CU_MEM_ATTACH_SINGLE));
    if (!block)
        return;
    if (!world->careful)
        tell(world, "managed free inside", cuMemFree_v2(block->pointer + 64));
    tell(world, "managed free as host", cuMemFreeHost((void *)(uintptr_t)block->pointer));
    pointer = block->pointer;
    release(world, block);
    if (block->pointer)
        return;
    if (!world->careful)
        tell(world, "managed free again", cuMemFree_v2(pointer));
    tell(world, "freed advise", cuMemAdvise(pointer, 1, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    tell(world, "freed prefetch", cuMemPrefetchAsync(pointer, 1, 0, NULL));
    tell(world, "freed attach", cuStreamAttachMemAsync(NULL, pointer, 0, CU_MEM_ATTACH_HOST));
    tell(world, "freed ask",
         cuMemRangeGetAttribute(&answer, sizeof answer, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, pointer,
                                1));
}

void managed_context_ending(struct world *world, int context) {
    for (int i = 0; i < MANAGED_BLOCKS; i++) {
        struct block *block = &world->managed_blocks[i];
        if (!block->pointer || block->context != context)
            continue;
        owner_ends(block->pointer);
        *block = (struct block){0};
    }
}

void managed_end(struct world *world) {
    for (int i = 0; i < MANAGED_BLOCKS; i++) {
        struct block *block = &world->managed_blocks[i];
        if (!block->pointer)
            continue;
        cuCtxSetCurrent(world->contexts[block->context].handle);
        world->current = block->context;
        release(world, block);
    }
}
