/* What each operation of a random program does. Nothing is printed that is not determined:
 * addresses, times and unsettled questions are not. */
#include "world.h"

#include "concurrent.h"
#include "held_operations.h"
#include "host_operations.h"
#include "managed_operations.h"
#include "memory_operations.h"

#include <stdlib.h>
#include <string.h>

static struct context *current(struct world *world) {
    return &world->contexts[world->current];
}

/* The block is gone, and natively all work of its context has been waited for. */
static void forget(struct world *world, struct block *block) {
    struct block gone = *block;
    *block = (struct block){0};
    world->held[world->contexts[gone.context].device] -= world_footprint(gone.size);
    if (world->freed_count < FREED)
        world->freed[world->freed_count++] = gone.pointer;
    if (gone.identity && world->identity_count < IDENTITIES)
        world->identities[world->identity_count++] = gone.identity;
}

/* Everything in the current context is done. */
static void settle(struct world *world) {
    cuCtxSynchronize();
    world_settled(world, world->current);
}

static void release(struct world *world, struct block *block) {
    int context = block->context;
    CUdeviceptr pointer = block->pointer;
    if (context == world->hold.context)
        world_let_go(world);
    if (block->ordered && context == world->current) /* such a free waits for nothing */
        settle(world);
    owner_ends(pointer);
    CUresult result = cuMemFree_v2(pointer);
    if (result != CUDA_SUCCESS) { /* a capture may forbid it: the block is still ours */
        tell(world, "free", result);
        owner_begins(pointer, block->size);
        return;
    }
    forget(world, block);
    if (world->relies)
        world_settled(world, context);
    tell(world, "free", result);
}

/* Any context's block, whichever is current. */
static struct block *any_block(struct world *world, uint32_t number) {
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = &world->blocks[(number + (uint32_t)i) % BLOCKS];
        if (block->pointer)
            return block;
    }
    return NULL;
}

static void do_release(struct world *world, const struct operation *operation) {
    struct block *block =
        operation->b % 4 ? world_block(world, operation->a) : any_block(world, operation->a);
    if (block && (!block->ordered || block->context == world->current))
        release(world, block);
}

static void do_release_twice(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    if (!block)
        return;
    CUdeviceptr pointer = block->pointer;
    release(world, block);
    if (!world->careful)
        tell(world, "free again", cuMemFree_v2(pointer));
}

static void do_release_wrong(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    tell(world, "free null", cuMemFree_v2(0));
    if (world->careful)
        return;
    if (block && block->size > 512)
        tell(world, "free inside", cuMemFree_v2(block->pointer + 256));
    if (world->freed_count)
        tell(world, "free freed",
             cuMemFree_v2(world->freed[operation->b % (uint32_t)world->freed_count]));
}

static void do_release_async(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    if (!block)
        return;
    if (block->stream != LEGACY) /* only its own stream orders a stream-ordered free */
        cuCtxSynchronize();
    owner_ends(block->pointer);
    tell(world, "free async", cuMemFreeAsync(block->pointer, NULL));
    forget(world, block);
    world->freed_count = 0; /* it is free once the stream gets there */
    cuCtxSynchronize();
    world_settled(world, world->current);
}

static CUresult launch(CUfunction function, CUstream stream, void **arguments) {
    return cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}

static bool holds_words(const struct block *block) {
    return block && block->size >= WORDS * sizeof(uint32_t);
}

/* Sizes that come again, so that what was freed in one order is what is asked for in another. */
static size_t ordered_size(uint32_t number) {
    return number % 4 ? (size_t)(256 << 10) << (number / 4 % 3) : world_size_from(number / 4);
}

static void do_alloc_ordered(struct world *world, const struct operation *operation) {
    struct block *block = world_empty_slot(world, operation->a);
    size_t size = ordered_size(operation->b);
    int stream = world_stream(world, operation->c);
    CUstream handle = current(world)->streams[stream].handle;
    CUdeviceptr pointer = 0;
    if (!block || world_footprint(size) > world_room(world))
        return;
    CUresult result = cuMemAllocAsync(&pointer, size, handle);
    tell(world, "alloc ordered", result);
    if (result != CUDA_SUCCESS)
        return;
    world_adopt(world, block, pointer, size);
    block->ordered = true;
    block->stream = stream; /* where alone it may be used at once */
    if (!holds_words(block))
        return;
    tell(world, "fill", cuMemsetD32Async(pointer, operation->a, WORDS, handle));
    block->written = true;
}

/* Makes later work in the one stream come after what the other has, without a wait of the host. */
static void order_by_event(struct world *world, int later, int earlier) {
    const struct stream *streams = current(world)->streams;
    CUevent event;
    if (later == earlier || cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return;
    tell(world, "record", cuEventRecord(event, streams[earlier].handle));
    tell(world, "wait", cuStreamWaitEvent(streams[later].handle, event, 0));
    cuEventDestroy_v2(event);
}

static void do_release_ordered(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    uint64_t busy = 20000 + operation->a % 400000; /* ns */
    if (!block)
        return;
    int last = block->stream, stream = world_stream(world, operation->b);
    if (last >= 0 && operation->c % 4)
        stream = last;
    if (last == LOST_STREAM)
        cuCtxSynchronize();
    if (last >= 0 && operation->c % 8 < 5) { /* the stream is busy with it */
        launch(current(world)->spin, current(world)->streams[last].handle, (void *[]){&busy});
        if (holds_words(block))
            tell(world, "set",
                 cuMemsetD32Async(block->pointer, 5, WORDS, current(world)->streams[last].handle));
    }
    if (last >= 0)
        order_by_event(world, stream, last);
    owner_ends(block->pointer);
    CUresult result = cuMemFreeAsync(block->pointer, current(world)->streams[stream].handle);
    tell(world, "free ordered", result);
    current(world)->pending += world_footprint(block->size);
    forget(world, block);
    world->freed_count = 0; /* it is free once the stream gets there */
}

static void do_alloc_volume(struct world *world, const struct operation *operation) {
    static const unsigned elements[] = {4, 8, 16};
    struct block *block = world_empty_slot(world, operation->a);
    size_t width = 100 * (1 + operation->b % 7); /* pitches that are known sooner or later */
    size_t rows = (1 + operation->b / 8 % 40) * (1 + operation->c % 9), pitch = 0;
    unsigned char row[700] = {0};
    CUdeviceptr pointer = 0;
    if (!block || world_footprint(4 * width * rows) > world_room(world))
        return;
    CUresult result =
        cuMemAllocPitch_v2(&pointer, &pitch, width, rows, elements[operation->c / 16 % 3]);
    tell(world, "alloc volume", result);
    fprintf(world->transcript, "pitch %zu\n", pitch);
    if (result != CUDA_SUCCESS)
        return;
    world_adopt(world, block, pointer, pitch * rows);
    tell(world, "fill rows",
         cuMemsetD2D8_v2(pointer, pitch, (unsigned char)operation->a, width, rows));
    tell(world, "read row", cuMemcpyDtoH_v2(row, pointer + (rows - 1) * pitch, width));
    fprintf(world->transcript, "row %02x %02x\n", row[0], row[width - 1]);
    block->stream = LEGACY;
}

/* A row of words to the array and back. */
static void use_array(struct world *world, CUarray array, uint32_t value) {
    uint32_t words[WORDS], back[WORDS] = {0};
    for (int i = 0; i < WORDS; i++)
        words[i] = value + (uint32_t)i;
    CUDA_MEMCPY2D to = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = words,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .dstArray = array,
                        .WidthInBytes = sizeof words,
                        .Height = 1};
    CUDA_MEMCPY2D from = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = array,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = back,
                          .WidthInBytes = sizeof back,
                          .Height = 1};
    tell(world, "write array", cuMemcpy2D_v2(&to));
    tell(world, "read array", cuMemcpy2D_v2(&from));
    fprintf(world->transcript, "array %08x %08x\n", back[0], back[WORDS - 1]);
}

static void do_array_new(struct world *world, const struct operation *operation) {
    struct array *array = &world->arrays[operation->a % ARRAYS];
    size_t width = WORDS * (1 + operation->b % 16), height = 64 << (operation->b / 16 % 6);
    bool volume = operation->c % 3 == 1, mipmapped = operation->c % 3 == 2;
    CUDA_ARRAY3D_DESCRIPTOR shape = {width, height, volume ? 4 : 0, CU_AD_FORMAT_FLOAT, 1, 0};
    /* All levels together take less than two of the first, each in pages of its own. */
    size_t bytes = world_footprint(4 * width * height * (volume ? 4 : 1)) * (mipmapped ? 4 : 1);
    if (array->handle || bytes > world_room(world))
        return;
    CUresult result;
    if (mipmapped)
        result = cuMipmappedArrayCreate(&array->mipmap, &shape, 3);
    else
        result = cuArray3DCreate_v2(&array->handle, &shape);
    tell(world, "array", result);
    if (result == CUDA_SUCCESS && mipmapped)
        result = cuMipmappedArrayGetLevel(&array->handle, array->mipmap, 0);
    if (result != CUDA_SUCCESS)
        return;
    array->context = world->current;
    array->bytes = bytes;
    world->held[current(world)->device] += bytes;
    world->freed_count = 0;
    use_array(world, array->handle, operation->a);
}

static void end_array(struct world *world, struct array *array) {
    tell(world, "array end",
         array->mipmap ? cuMipmappedArrayDestroy(array->mipmap) : cuArrayDestroy(array->handle));
    world->held[world->contexts[array->context].device] -= array->bytes;
    *array = (struct array){0};
}

static void do_array_end(struct world *world, const struct operation *operation) {
    struct array *array = &world->arrays[operation->a % ARRAYS];
    if (!array->handle || array->context != world->current)
        return;
    use_array(world, array->handle, operation->b);
    settle(world); /* whether such a destruction waits is not known */
    end_array(world, array);
}

static void do_alloc_wrong(struct world *world, const struct operation *operation) {
    CUdeviceptr pointer = 0;
    size_t pitch;
    tell(world, "alloc nothing", cuMemAlloc_v2(&pointer, 0));
    tell(world, "alloc too much", cuMemAlloc_v2(&pointer, world->total + operation->a));
    tell(world, "alloc to null", cuMemAlloc_v2(NULL, 1000));
    tell(world, "pitch of 3", cuMemAllocPitch_v2(&pointer, &pitch, 100, 100, 3));
}

static void do_fill(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    int stream = world_stream(world, operation->b);
    uint64_t count = WORDS;
    if (!holds_words(block))
        return;
    world_order(world, block, stream);
    tell(world, "fill",
         launch(current(world)->fill, current(world)->streams[stream].handle,
                (void *[]){&block->pointer, &count, (void *)(uintptr_t)&operation->c}));
    block->written = true;
}

static void do_add(struct world *world, const struct operation *operation) {
    struct block *to = world_block(world, operation->a), *one = world_block(world, operation->b);
    struct block *other = world_block(world, operation->c);
    int stream = world_stream(world, operation->a >> 16);
    uint64_t count = WORDS;
    if (!holds_words(to) || !holds_words(one) || !holds_words(other) || !one->written ||
        !other->written)
        return;
    world_order(world, to, stream);
    world_order(world, one, stream);
    world_order(world, other, stream);
    tell(world, "add",
         launch(current(world)->add, current(world)->streams[stream].handle,
                (void *[]){&to->pointer, &one->pointer, &other->pointer, &count}));
    to->written = true;
}

static void do_set(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    int stream = world_stream(world, operation->b);
    if (!holds_words(block))
        return;
    if (operation->c % 2) {
        world_order(world, block, LEGACY);
        tell(world, "set", cuMemsetD8_v2(block->pointer, (unsigned char)operation->c, WORDS * 4));
    } else {
        world_order(world, block, stream);
        tell(world, "set",
             cuMemsetD32Async(block->pointer, operation->c, WORDS,
                              current(world)->streams[stream].handle));
    }
    block->written = true;
}

static void do_copy(struct world *world, const struct operation *operation) {
    struct block *to = world_block(world, operation->a), *from = world_block(world, operation->b);
    int stream = world_stream(world, operation->c);
    if (!holds_words(to) || !holds_words(from) || to == from || !from->written)
        return;
    world_order(world, to, stream);
    world_order(world, from, stream);
    tell(world, "copy",
         cuMemcpyDtoDAsync_v2(to->pointer, from->pointer, WORDS * 4,
                              current(world)->streams[stream].handle));
    to->written = true;
}

static void read_block(struct world *world, struct block *block) {
    uint32_t words[WORDS] = {0};
    if (!holds_words(block) || !block->written)
        return;
    world_order(world, block, LEGACY);
    CUresult result = cuMemcpyDtoH_v2(words, block->pointer, sizeof words);
    fprintf(world->transcript, "read %d %08x %08x\n", (int)result, words[0], words[WORDS - 1]);
}

static void do_read(struct world *world, const struct operation *operation) {
    read_block(world, world_block(world, operation->a));
}

static void do_fetch(struct world *world, const struct operation *operation) {
    struct pinned *pinned = &world->pinned[operation->a % PINNED];
    struct block *block = world_block(world, operation->b);
    int stream = world_stream(world, operation->c);
    if (!holds_words(block) || !block->written)
        return;
    if (!pinned->host) {
        if (cuMemHostAlloc((void **)&pinned->host, WORDS * 4, 0) != CUDA_SUCCESS)
            return;
        pinned->context = world->current;
    }
    if (pinned->context != world->current || pinned->pending)
        return;
    memset(pinned->host, 0, WORDS * 4);
    world_order(world, block, stream);
    tell(world, "fetch",
         cuMemcpyDtoHAsync_v2(pinned->host, block->pointer, WORDS * 4,
                              current(world)->streams[stream].handle));
    pinned->pending = true;
}

static void do_spin(struct world *world, const struct operation *operation) {
    uint64_t busy = 20000 + operation->a % 400000; /* ns */
    int stream = world_stream(world, operation->b);
    tell(world, "spin",
         launch(current(world)->spin, current(world)->streams[stream].handle, (void *[]){&busy}));
}

static void do_stream_new(struct world *world, const struct operation *operation) {
    int slot = FIRST_CREATED + (int)(operation->a % (STREAMS - FIRST_CREATED));
    struct stream *stream = &current(world)->streams[slot];
    if (stream->exists)
        return;
    stream->non_blocking = operation->b % 2;
    unsigned flags = stream->non_blocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    CUresult result = operation->c % 2 ? cuStreamCreate(&stream->handle, flags)
                                       : cuStreamCreateWithPriority(&stream->handle, flags, 0);
    tell(world, stream->non_blocking ? "non-blocking stream" : "stream", result);
    stream->exists = result == CUDA_SUCCESS;
}

static void do_stream_end(struct world *world, const struct operation *operation) {
    int slot = FIRST_CREATED + (int)(operation->a % (STREAMS - FIRST_CREATED));
    struct stream *stream = &current(world)->streams[slot];
    if (!stream->exists)
        return;
    tell(world, "stream end", cuStreamDestroy_v2(stream->handle));
    stream->exists = false;
    for (int i = 0; i < BLOCKS; i++)
        if (world->blocks[i].context == world->current && world->blocks[i].stream == slot)
            world->blocks[i].stream = LOST_STREAM;
    for (int i = 0; i < HOST_BLOCKS; i++)
        if (world->host_blocks[i].context == world->current && world->host_blocks[i].stream == slot)
            world->host_blocks[i].stream = LOST_STREAM;
    for (int i = 0; i < MANAGED_BLOCKS; i++)
        if (world->managed_blocks[i].context == world->current &&
            world->managed_blocks[i].stream == slot)
            world->managed_blocks[i].stream = LOST_STREAM;
}

static void do_event(struct world *world, const struct operation *operation) {
    struct event *event = &world->events[operation->a % EVENTS];
    int stream = world_stream(world, operation->b);
    if (!event->handle) {
        if (cuEventCreate(&event->handle, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            return;
        event->context = world->current;
    }
    if (event->context != world->current)
        return;
    CUresult result = cuEventRecord(event->handle, current(world)->streams[stream].handle);
    tell(world, "record", result);
    event->recorded = result == CUDA_SUCCESS;
}

/* A host function: CUDA refuses everything there, whatever becomes of the block meanwhile. */
static void call_host(void *data) {
    struct world *world = data;
    CUdeviceptr pointer = atomic_load(&world->asked), base;
    size_t size;
    unsigned type;
    int allowed = cuMemGetAddressRange_v2(&base, &size, pointer) != CUDA_ERROR_NOT_PERMITTED;
    allowed += cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) !=
               CUDA_ERROR_NOT_PERMITTED;
    allowed += cuMemFree_v2(pointer) != CUDA_ERROR_NOT_PERMITTED;
    atomic_fetch_add(&world->allowed, allowed);
    atomic_fetch_add(&world->called, 1);
}

static void do_host_call(struct world *world, const struct operation *operation) {
    int stream = world_stream(world, operation->a);
    if (world->calls_submitted && world->calls_context != world->current)
        return;
    const struct block *block = world_block(world, operation->b);
    atomic_store(&world->asked, block ? block->pointer : world->freed_count ? world->freed[0] : 0);
    tell(world, "host call",
         cuLaunchHostFunc(current(world)->streams[stream].handle, call_host, world));
    world->calls_submitted++;
    world->calls_context = world->current;
}

static void free_pinned_of(struct world *world, int context) {
    for (int i = 0; i < PINNED; i++)
        if (world->pinned[i].host && world->pinned[i].context == context) {
            tell(world, "free pinned", cuMemFreeHost(world->pinned[i].host));
            world->pinned[i] = (struct pinned){0};
        }
}

static void do_synchronize(struct world *world, const struct operation *operation) {
    tell(world, "synchronize", cuCtxSynchronize());
    world_settled(world, world->current);
    if (operation->a % 2)
        free_pinned_of(world, world->current);
}

static void do_information(struct world *world, const struct operation *operation) {
    size_t available = 0, total = 0;
    (void)operation;
    world_settle_pending(world);
    CUresult result = cuMemGetInfo_v2(&available, &total);
    fprintf(world->transcript, "memory %d total %zu\n", (int)result, total);
    fprintf(world->transcript, "free %zu small %d\n", available, world_small_blocks(world));
}

static void do_range(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    if (!block)
        return;
    CUdeviceptr inside = block->pointer + operation->b % block->size, base = 0;
    size_t size = 0, attribute_size = 0, beyond = 0;
    unsigned type = 99;
    tell(world, "range", cuMemGetAddressRange_v2(&base, &size, inside));
    tell(world, "range size",
         cuPointerGetAttribute(&attribute_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside));
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    tell(world, "attributes",
         cuPointerGetAttributes(2, wanted, (void *[]){&type, &beyond}, inside));
    fprintf(world->transcript, "lies %d size %zu %zu %zu type %u\n", base == block->pointer, size,
            attribute_size, beyond, type);
}

static void do_freed_range(struct world *world, const struct operation *operation) {
    if (!world->freed_count)
        return;
    CUdeviceptr pointer = world->freed[operation->a % (uint32_t)world->freed_count], base = 0;
    CUipcMemHandle handle;
    size_t size = 0;
    unsigned type = 99, on = 1;
    tell(world, "freed range", cuMemGetAddressRange_v2(&base, &size, pointer));
    tell(world, "freed type",
         cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    tell(world, "freed types", cuPointerGetAttributes(1, &wanted, (void *[]){&type}, pointer));
    fprintf(world->transcript, "type %u\n", type);
    tell(world, "freed set", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer));
    tell(world, "freed handle", cuIpcGetMemHandle(&handle, pointer));
}

static bool known_identity(const struct world *world, unsigned long long identity) {
    for (int i = 0; i < world->identity_count; i++)
        if (world->identities[i] == identity)
            return true;
    return false;
}

static void do_share(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    unsigned on = 1;
    if (!block || block->ordered) /* which ties nothing to the memory of a memory pool */
        return;
    CUresult result =
        cuPointerGetAttribute(&block->identity, CU_POINTER_ATTRIBUTE_BUFFER_ID, block->pointer);
    tell(world, "identity", result);
    fprintf(world->transcript, "seen before %d\n", known_identity(world, block->identity));
    if (operation->b % 4 == 0) {
        tell(world, "set",
             cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block->pointer));
        on = 0;
        cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block->pointer);
        fprintf(world->transcript, "synchronous %u\n", on);
        block->synchronous = on;
        world->synchronous = world->spreads;
    }
}

static void do_managed(struct world *world, const struct operation *operation) {
    CUdeviceptr managed = 0, other = 0;
    uint64_t count = WORDS;
    CUresult result = cuMemAllocManaged(&managed, WORDS * 4, CU_MEM_ATTACH_GLOBAL);
    tell(world, "managed", result);
    if (result != CUDA_SUCCESS)
        return;
    owner_begins(managed, WORDS * 4);
    tell(world, "alloc", cuMemAlloc_v2(&other, 1000));
    launch(current(world)->fill, NULL,
           (void *[]){&managed, &count, (void *)(uintptr_t)&operation->a});
    tell(world, "free", cuMemFree_v2(other));
    world->freed_count = 0;
    if (world->relies)
        world_settled(world, world->current);
    else
        cuCtxSynchronize();
    fprintf(world->transcript, "managed %08x\n", *(volatile uint32_t *)(uintptr_t)managed);
    owner_ends(managed);
    tell(world, "free", cuMemFree_v2(managed));
}

static void run_graph(struct world *world, CUgraph graph, CUstream stream, int times) {
    CUgraphExec executable;
    CUresult result = cuGraphInstantiateWithFlags(&executable, graph, 0);
    tell(world, "instantiate", result);
    if (result == CUDA_SUCCESS) {
        for (int i = 0; i < times; i++)
            tell(world, "launch", cuGraphLaunch(executable, stream));
        tell(world, "synchronize", cuStreamSynchronize(stream));
        cuGraphExecDestroy(executable);
    }
    cuGraphDestroy(graph);
}

/* Memory is asked for and freed while a stream is captured, as far as the mode allows. */
static void do_capture(struct world *world, const struct operation *operation) {
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    struct block *written = world_block(world, operation->a);
    struct block *freed = world_block(world, operation->a + 1);
    CUdeviceptr pointer = 0;
    CUgraph graph = NULL;
    CUstream stream;
    uint64_t count = WORDS;
    if (!holds_words(written) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return;
    cuCtxSynchronize();
    world_settled(world, world->current);
    tell(world, "begin", cuStreamBeginCapture_v2(stream, modes[operation->b % 3]));
    tell(world, "fill",
         launch(current(world)->fill, stream,
                (void *[]){&written->pointer, &count, (void *)(uintptr_t)&operation->c}));
    if (operation->b % 5) {
        CUresult result = cuMemAlloc_v2(&pointer, 5000);
        tell(world, "alloc in capture", result);
        if (result == CUDA_SUCCESS)
            tell(world, "free in capture", cuMemFree_v2(pointer));
        world->freed_count = 0;
    }
    bool relied = world->relies;
    world->relies = false; /* nothing may be asked now */
    if (operation->b % 7 == 0 && freed && freed != written && !freed->ordered)
        release(world, freed);
    world->relies = relied;
    tell(world, "end", cuStreamEndCapture(stream, &graph));
    if (graph) {
        run_graph(world, graph, stream, 1 + (int)(operation->c % 3));
        written->written = true;
    }
    tell(world, "stream end", cuStreamDestroy_v2(stream));
}

static void do_other_context(struct world *world, const struct operation *operation) {
    CUcontext handle;
    CUdevice device = (CUdevice)(operation->b % 2);
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    if (operation->a % 3 && world->context_count < CONTEXTS) {
        CUresult result = create(&handle, 0, device);
        tell(world, "context", result);
        if (result == CUDA_SUCCESS && world_add_context(world, handle, device))
            world->current = world->context_count - 1;
        return;
    }
    int next = (int)(operation->b % (uint32_t)world->context_count);
    if (!world->contexts[next].handle)
        return;
    if (operation->c % 2) {
        cuCtxPopCurrent_v2(&handle);
        tell(world, "push", cuCtxPushCurrent_v2(world->contexts[next].handle));
    } else {
        tell(world, "set current", cuCtxSetCurrent(world->contexts[next].handle));
    }
    world->current = next;
}

/* Makes it the current one, in which nothing goes on and nothing is pinned any more. */
static void prepare_end(struct world *world, int ending) {
    cuCtxSetCurrent(world->contexts[ending].handle);
    world->current = ending;
    cuCtxSynchronize();
    world_settled(world, ending);
    free_pinned_of(world, ending);
    for (int i = 0; i < EVENTS; i++)
        if (world->events[i].context == ending)
            world->events[i] = (struct event){0};
    for (int i = 0; i < ARRAYS; i++)
        if (world->arrays[i].handle && world->arrays[i].context == ending)
            end_array(world, &world->arrays[i]);
    for (int i = 0; i < BLOCKS; i++) /* the memory of memory pools outlives contexts */
        if (world->blocks[i].ordered && world->blocks[i].context == ending)
            release(world, &world->blocks[i]);
    for (int i = 0; i < BLOCKS; i++)
        if (world->blocks[i].pointer && world->blocks[i].context == ending)
            owner_ends(world->blocks[i].pointer);
    host_context_ending(world, ending);
    held_context_ending(world, ending);
    managed_context_ending(world, ending);
}

/* Its blocks' addresses are no memory from then on: their frees are errors. */
static void forget_blocks_of(struct world *world, int ended) {
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = &world->blocks[i];
        if (!block->pointer || block->context != ended)
            continue;
        if (!world->careful)
            tell(world, "free of a destroyed context", cuMemFree_v2(block->pointer));
        forget(world, block);
    }
    world->freed_count = 0;
}

static void do_end_context(struct world *world, const struct operation *operation) {
    int ending = 1 + (int)(operation->a % (CONTEXTS - 1));
    struct context *context = &world->contexts[ending];
    if (ending >= world->context_count || !context->handle)
        return;
    prepare_end(world, ending);
    tell(world, "context end", cuCtxDestroy_v2(context->handle));
    world->current = 0;
    tell(world, "set current", cuCtxSetCurrent(world->contexts[0].handle));
    forget_blocks_of(world, ending);
    *context = (struct context){0};
}

static void do_reset(struct world *world, const struct operation *operation) {
    (void)operation;
    prepare_end(world, 0);
    tell(world, "reset", cuDevicePrimaryCtxReset_v2(0));
    if (!world_renew_primary(world)) {
        fprintf(world->transcript, "not renewed\n");
        world->over = true;
        return;
    }
    forget_blocks_of(world, 0);
}

static void do_threads(struct world *world, const struct operation *operation) {
    if (world_is_crowded(world))
        return;
    cuCtxSynchronize();
    world_settled(world, world->current);
    struct concurrent concurrent = {.context = world->contexts[world->current].handle,
                                    .fill = world->contexts[world->current].fill,
                                    .seed = operation->b};
    world->freed_count = 0;
    concurrent_run(&concurrent, 2 + (int)(operation->a % 3));
    for (int i = 0; i < CONCURRENT_MAX; i++)
        fprintf(world->transcript, "thread %d wrong %d\n", i, concurrent.wrong[i]);
}

static void do_capture_beside(struct world *world, const struct operation *operation) {
    if (world_is_crowded(world))
        return;
    cuCtxSynchronize();
    world_settled(world, world->current);
    struct concurrent concurrent = {.context = world->contexts[world->current].handle,
                                    .fill = world->contexts[world->current].fill,
                                    .seed = operation->b};
    world->freed_count = 0;
    concurrent_capture(&concurrent, operation->a % 2 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                                     : CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i < CONCURRENT_MAX; i++)
        fprintf(world->transcript, "thread %d wrong %d\n", i, concurrent.wrong[i]);
}

static void do_fault(struct world *world, const struct operation *operation) {
    CUdeviceptr pointer;
    struct block *block = world_block(world, operation->a);
    if (!current(world)->fault)
        return;
    tell(world, "fault", launch(current(world)->fault, NULL, NULL));
    tell(world, "synchronize", cuCtxSynchronize());
    if (block)
        tell(world, "free", cuMemFree_v2(block->pointer));
    tell(world, "alloc", cuMemAlloc_v2(&pointer, 1000));
    world->over = true;
}

static void end(struct world *world) {
    world_let_go(world);
    for (int i = 0; i < BLOCKS && !world->over; i++) {
        struct block *block = &world->blocks[i];
        if (!block->pointer)
            continue;
        if (block->context != world->current)
            cuCtxSetCurrent(world->contexts[block->context].handle);
        world->current = block->context;
        read_block(world, block);
        release(world, block);
    }
    if (!world->over) {
        host_end(world);
        held_end(world);
        managed_end(world);
        tell(world, "synchronize", cuCtxSynchronize());
        do_information(world, NULL);
    }
    if (host_time()) /* which is virtual */
        fprintf(world->transcript, "time %llu calls %llu\n", host_time(), host_time_of_calls());
    fprintf(world->transcript, "hazards %llu\n", hazards());
}

void program_run(const struct program *program, FILE *transcript) {
    static void (*const functions[])(struct world *, const struct operation *) = {
#define FUNCTION(name, weight, text) do_##name,
        OPERATIONS(FUNCTION)
#undef FUNCTION
    };
    struct world *world = calloc(1, sizeof *world);
    if (!world)
        abort();
    world->transcript = transcript;
    world->relies = program->relies;
    world->roomy = program->roomy;
    world->careful = program->careful;
    world->crowds = program->crowds;
    world->spreads = program->spreads;
    if (!world_start(world)) {
        fprintf(transcript, "no device\n");
        free(world);
        return;
    }
    for (int i = 0; i < program->count && !world->over; i++) {
        if (program->left_out[i])
            continue;
        fprintf(transcript, "# %d %s\n", i, operation_name(program->operations[i].kind));
        if (program->let_go[i])
            world_let_go(world);
        held_before(world, program->operations[i].kind);
        functions[program->operations[i].kind](world, &program->operations[i]);
    }
    fprintf(transcript, "# end\n");
    end(world);
    free(world);
}
