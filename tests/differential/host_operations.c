/* Operations of a random program on pinned host memory: the host touches it whenever it may. */
#include "host_operations.h"

#include "concurrent.h"

static struct block *empty_slot(struct world *world, uint32_t number) {
    for (int i = 0; i < HOST_BLOCKS; i++) {
        struct block *block = &world->host_blocks[(number + (uint32_t)i) % HOST_BLOCKS];
        if (!block->pointer)
            return block;
    }
    return NULL;
}

/* The block of that number, or the next one, of the current context. */
static struct block *host_block(struct world *world, uint32_t number) {
    for (int i = 0; i < HOST_BLOCKS; i++) {
        struct block *block = &world->host_blocks[(number + (uint32_t)i) % HOST_BLOCKS];
        if (block->pointer && block->context == world->current)
            return block;
    }
    return NULL;
}

static uint32_t *words_of(const struct block *block) {
    return (uint32_t *)(uintptr_t)block->pointer;
}

static size_t size_from(uint32_t number) {
    static const size_t most[] = {4096, 65536, 1 << 20, 8 << 20};
    return WORDS * sizeof(uint32_t) + number / 4 % most[number % 4];
}

/* Two sites, and the flags that tell kinds of memory apart; what cuMemAllocHost gives is one. */
static __attribute__((noinline)) CUresult alloc_at_first(void **memory, size_t size,
                                                         uint32_t number) {
    static const unsigned flags[] = {0, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP,
                                     CU_MEMHOSTALLOC_WRITECOMBINED};
    CUresult result = number % 5 ? cuMemHostAlloc(memory, size, flags[number % 5 - 1])
                                 : cuMemAllocHost_v2(memory, size);
    __asm__ volatile("");
    return result;
}

static __attribute__((noinline)) CUresult alloc_at_second(void **memory, size_t size) {
    CUresult result = cuMemHostAlloc(memory, size, 0);
    __asm__ volatile("");
    return result;
}

static void tell_about(struct world *world, const struct block *block) {
    unsigned flags = 99, type = 99;
    CUdeviceptr device = 0, base = 0;
    void *memory = words_of(block);
    CUdeviceptr inside = block->pointer + block->size - 1;
    size_t size = 0;
    tell(world, "host flags", cuMemHostGetFlags(&flags, memory));
    tell(world, "host device", cuMemHostGetDevicePointer_v2(&device, memory, 0));
    tell(world, "host type",
         cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block->pointer));
    tell(world, "host range", cuMemGetAddressRange_v2(&base, &size, inside));
    fprintf(world->transcript, "flags %u type %u same %d base %d size %d\n", flags, type,
            device == block->pointer, base == block->pointer, size == block->size);
}

void do_host_alloc(struct world *world, const struct operation *operation) {
    struct block *block = empty_slot(world, operation->a);
    size_t size = size_from(operation->b);
    void *memory = NULL;
    if (!block)
        return;
    CUresult result = operation->c % 2 ? alloc_at_first(&memory, size, operation->c / 2)
                                       : alloc_at_second(&memory, size);
    tell(world, "host alloc", result);
    if (result != CUDA_SUCCESS)
        return;
    *block = (struct block){.pointer = (CUdeviceptr)(uintptr_t)memory,
                            .size = size,
                            .context = world->current,
                            .stream = -1,
                            .written = true};
    world->freed_count = 0;
    owner_begins(block->pointer, size);
    words_of(block)[0] = words_of(block)[WORDS - 1] = operation->c;
    ((volatile char *)memory)[size - 1] = 1;
    tell_about(world, block);
}

static CUstream handle_of(const struct world *world, int stream) {
    return world->contexts[world->current].streams[stream].handle;
}

void do_host_fill(struct world *world, const struct operation *operation) {
    struct block *block = host_block(world, operation->a);
    int stream = world_stream(world, operation->b);
    uint64_t count = WORDS;
    if (!block)
        return;
    world_order(world, block, stream);
    tell(world, "host fill",
         cuLaunchKernel(
             world->contexts[world->current].fill, 4, 1, 1, 32, 1, 1, 0, handle_of(world, stream),
             (void *[]){&block->pointer, &count, (void *)(uintptr_t)&operation->c}, NULL));
}

/* Between it and a device block, whichever way. */
void do_host_copy(struct world *world, const struct operation *operation) {
    struct block *host = host_block(world, operation->a);
    struct block *device = world_block(world, operation->b);
    int stream = world_stream(world, operation->c);
    if (!host || !device || device->size < WORDS * sizeof(uint32_t))
        return;
    world_order(world, host, stream);
    world_order(world, device, stream);
    if (operation->a / HOST_BLOCKS % 2 && device->written) {
        tell(world, "host fetch",
             cuMemcpyDtoHAsync_v2(words_of(host), device->pointer, WORDS * 4,
                                  handle_of(world, stream)));
        return;
    }
    tell(
        world, "host send",
        cuMemcpyHtoDAsync_v2(device->pointer, words_of(host), WORDS * 4, handle_of(world, stream)));
    device->written = true;
}

void do_host_read(struct world *world, const struct operation *operation) {
    struct block *block = host_block(world, operation->a);
    if (!block)
        return;
    if (block->stream != -1)
        cuCtxSynchronize();
    block->stream = -1;
    fprintf(world->transcript, "host read %08x %08x\n", words_of(block)[0],
            words_of(block)[WORDS - 1]);
    words_of(block)[0] = operation->b;
}

static void release(struct world *world, struct block *block) {
    struct block gone = *block;
    owner_ends(gone.pointer);
    CUresult result = cuMemFreeHost(words_of(&gone));
    if (result != CUDA_SUCCESS) {
        tell(world, "host free", result);
        owner_begins(gone.pointer, gone.size);
        return;
    }
    *block = (struct block){0};
    if (world->relies)
        world_settled(world, gone.context);
    tell(world, "host free", result);
}

void do_host_release(struct world *world, const struct operation *operation) {
    struct block *block = host_block(world, operation->a);
    if (block)
        release(world, block);
}

/* What no program may do, and what is there no longer. */
void do_host_wrong(struct world *world, const struct operation *operation) {
    struct block *block = host_block(world, operation->a);
    unsigned flags = 99;
    CUdeviceptr device = 0;
    void *memory = NULL;
    tell(world, "host alloc nothing", cuMemHostAlloc(&memory, 0, 0));
    tell(world, "host alloc to null", cuMemHostAlloc(NULL, 1000, 0));
    tell(world, "host alloc flags", cuMemHostAlloc(&memory, 1000, 1 << 12));
    tell(world, "host free null", cuMemFreeHost(NULL));
    if (!block)
        return;
    tell(world, "host free inside", cuMemFreeHost((char *)words_of(block) + 64));
    if (!world->careful)
        tell(world, "host free as device", cuMemFree_v2(block->pointer));
    memory = words_of(block);
    release(world, block);
    if (block->pointer)
        return;
    tell(world, "host free again", cuMemFreeHost(memory));
    tell(world, "freed flags", cuMemHostGetFlags(&flags, memory));
    tell(world, "freed device", cuMemHostGetDevicePointer_v2(&device, memory, 0));
    tell(world, "freed range", cuMemGetAddressRange_v2(&device, NULL, (uintptr_t)memory));
}

void host_context_ending(struct world *world, int context) {
    for (int i = 0; i < HOST_BLOCKS; i++) {
        struct block *block = &world->host_blocks[i];
        if (!block->pointer || block->context != context)
            continue;
        owner_ends(block->pointer);
        *block = (struct block){0};
    }
}

void host_end(struct world *world) {
    for (int i = 0; i < HOST_BLOCKS; i++) {
        struct block *block = &world->host_blocks[i];
        if (!block->pointer)
            continue;
        cuCtxSetCurrent(world->contexts[block->context].handle);
        world->current = block->context;
        release(world, block);
    }
}
