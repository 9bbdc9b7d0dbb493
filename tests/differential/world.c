/* Contexts, streams and blocks of a random program, and the order it has established among them. */
#include "world.h"

#include "concurrent.h"

#include "../../samples/kernels.h"

enum { PAGE = 2 << 20 };

void tell(struct world *world, const char *name, CUresult result) {
    fprintf(world->transcript, "%s %d\n", name, (int)result);
}

static CUfunction find_kernel(CUmodule module, const char *name) {
    CUfunction function = NULL;
    cuModuleGetFunction(&function, module, name);
    return function;
}

static struct context *fill_in(struct context *context, CUcontext handle, CUdevice device) {
    *context = (struct context){.handle = handle, .device = device};
    cuCtxSetCurrent(handle);
    if (cuModuleLoadData(&context->module, sample_kernels_ptx) != CUDA_SUCCESS)
        return NULL;
    context->fill = find_kernel(context->module, "fill_u32");
    context->add = find_kernel(context->module, "add_u32");
    context->spin = find_kernel(context->module, "spin_ns");
    context->fault = find_kernel(context->module, "fault");
    context->wait_flag = find_kernel(context->module, "wait_flag");
    context->streams[LEGACY] = (struct stream){NULL, true, false};
    context->streams[PER_THREAD_STREAM] = (struct stream){CU_STREAM_PER_THREAD, true, false};
    return context;
}

struct context *world_add_context(struct world *world, CUcontext handle, CUdevice device) {
    return fill_in(&world->contexts[world->context_count++], handle, device);
}

bool world_renew_primary(struct world *world) {
    CUcontext primary;
    if (cuDevicePrimaryCtxRetain(&primary, 0) != CUDA_SUCCESS ||
        !fill_in(&world->contexts[0], primary, 0))
        return false;
    world->contexts[0].primary = true;
    return true;
}

bool world_start(struct world *world) {
    CUcontext primary;
    size_t available;
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&primary, 0) != CUDA_SUCCESS)
        return false;
    struct context *context = world_add_context(world, primary, 0);
    if (!context || cuMemGetInfo_v2(&available, &world->total) != CUDA_SUCCESS)
        return false;
    context->primary = true;
    return true;
}

static void tell_pinned(struct world *world, int index) {
    struct pinned *pinned = &world->pinned[index];
    pinned->pending = false;
    fprintf(world->transcript, "pinned %d %08x %08x\n", index, pinned->host[0],
            pinned->host[WORDS - 1]);
}

static void tell_inside(struct world *world) {
    static const char *const names[] = {"range", "attribute", "free", "alloc", "memory"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        fprintf(world->transcript, "inside: %s %d\n", names[i], (int)world->inside.results[i]);
    world->inside.pending = false;
}

/* What the host sees now without asking the device, and what events and streams say. */
void world_settled(struct world *world, int context) {
    for (int i = 0; i < BLOCKS; i++)
        if (world->blocks[i].context == context)
            world->blocks[i].stream = -1;
    for (int i = 0; i < HOST_BLOCKS; i++)
        if (world->host_blocks[i].context == context)
            world->host_blocks[i].stream = -1;
    world->contexts[context].pending = 0;
    for (int i = 0; i < MANAGED_BLOCKS; i++)
        if (world->managed_blocks[i].context == context)
            world->managed_blocks[i].stream = -1;
    for (int i = 0; i < PINNED; i++)
        if (world->pinned[i].pending && world->pinned[i].context == context)
            tell_pinned(world, i);
    if (world->inside.pending && context == world->inside.context)
        tell_inside(world);
    if (world->calls_submitted && context == world->calls_context) {
        fprintf(world->transcript, "called %d allowed %d\n", atomic_load(&world->called),
                atomic_load(&world->allowed));
        world->calls_submitted = 0;
    }
    if (context != world->current)
        return;
    for (int i = 0; i < EVENTS; i++)
        if (world->events[i].recorded && world->events[i].context == context)
            tell(world, "event", cuEventQuery(world->events[i].handle));
    for (int i = FIRST_CREATED; i < STREAMS; i++)
        if (world->contexts[context].streams[i].exists)
            tell(world, "stream", cuStreamQuery(world->contexts[context].streams[i].handle));
}

/* Whether CUDA itself orders work in the one after earlier work in the other. */
static bool are_ordered(const struct context *context, int one, int other) {
    if (one == other)
        return true;
    int created = one == LEGACY ? other : one;
    return (one == LEGACY || other == LEGACY) && !context->streams[created].non_blocking;
}

void world_order(struct world *world, struct block *block, int stream) {
    struct context *context = &world->contexts[block->context];
    if (block->stream == LOST_STREAM ||
        ((block->synchronous || world->synchronous) &&
         world_is_held(world, block->context, stream)) ||
        (block->stream >= 0 && !are_ordered(context, block->stream, stream) &&
         world_is_held(world, block->context, block->stream)))
        world_let_go(world);
    if (block->stream == LOST_STREAM)
        cuCtxSynchronize();
    else if (block->stream >= 0 && !are_ordered(context, block->stream, stream))
        cuStreamSynchronize(context->streams[block->stream].handle);
    block->stream = stream;
}

int world_stream(struct world *world, uint32_t number) {
    const struct context *context = &world->contexts[world->current];
    int stream = (int)(number % (STREAMS * 2)); /* half of all work goes to the legacy stream */
    return stream < STREAMS && context->streams[stream].exists ? stream : LEGACY;
}

struct block *world_block(struct world *world, uint32_t number) {
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = &world->blocks[(number + (uint32_t)i) % BLOCKS];
        if (block->pointer && block->context == world->current)
            return block;
    }
    return NULL;
}

size_t world_footprint(size_t size) {
    return (size + PAGE - 1) / PAGE * PAGE;
}

size_t world_held(const struct world *world) {
    CUdevice device = world->contexts[world->current].device;
    size_t held = world->held[device];
    for (int i = 0; i < world->context_count; i++)
        held += world->contexts[i].device == device ? world->contexts[i].pending : 0;
    return held;
}

/* Some of the device is left alone: what may be lost to pages and rounding under a pool; most of it
 * where a pool may lose as much. */
static size_t most_of(const struct world *world) {
    size_t reserve = world->total / 25 + ((size_t)64 << 20);
    return world->roomy ? world->total / 8 : world->total - reserve;
}

size_t world_room(const struct world *world) {
    size_t most = most_of(world), held = world_held(world);
    return most > held ? most - held : 0;
}

bool world_is_crowded(const struct world *world) {
    return world_held(world) > most_of(world);
}

int world_small_blocks(const struct world *world) {
    int small = 0;
    for (int i = 0; i < BLOCKS; i++)
        small += world->blocks[i].pointer && world->blocks[i].size <= 1 << 20;
    return small;
}

size_t world_size_from(uint32_t number) {
    switch (number % 8) {
    case 0:
    case 1:
        return 1 + number / 8 % 2000;
    case 2:
    case 3:
        return 4096 + number / 8 % (1 << 20);
    case 4:
        return (size_t)64 << (number / 8 % 15); /* sizes that come again */
    case 5:
    case 6:
        return (1 << 20) + number / 8 % (16 << 20);
    default:
        return (16 << 20) + number / 8 % (64 << 20);
    }
}

struct block *world_empty_slot(struct world *world, uint32_t number) {
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = &world->blocks[(number + (uint32_t)i) % BLOCKS];
        if (!block->pointer)
            return block;
    }
    return NULL;
}

void world_adopt(struct world *world, struct block *block, CUdeviceptr pointer, size_t size) {
    *block =
        (struct block){.pointer = pointer, .size = size, .context = world->current, .stream = -1};
    world->held[world->contexts[world->current].device] += world_footprint(size);
    world->freed_count = 0;
    owner_begins(pointer, size);
}

void world_settle_pending(struct world *world) {
    CUcontext popped;
    for (int i = 0; i < world->context_count; i++) {
        if (!world->contexts[i].pending)
            continue;
        cuCtxPushCurrent_v2(world->contexts[i].handle);
        cuCtxSynchronize();
        cuCtxPopCurrent_v2(&popped);
        world_settled(world, i);
    }
}
