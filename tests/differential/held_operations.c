#include "held_operations.h"

#include "../programs/order/early_fill.h"
#include "concurrent.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct context *current(struct world *world) {
    return &world->contexts[world->current];
}

static CUstream stream_of(const struct world *world, int context, int stream) {
    return world->contexts[context].streams[stream].handle;
}

static CUresult launch(CUfunction function, CUstream stream, void **arguments) {
    return cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}

static bool holds_words(const struct block *block) {
    return block && block->size >= WORDS * sizeof(uint32_t);
}

bool world_is_held(const struct world *world, int context, int stream) {
    const struct hold *hold = &world->hold;
    const struct stream *streams = world->contexts[context].streams;
    if (!hold->active || context != hold->context)
        return false;
    return stream == hold->stream ||
           (!streams[stream].non_blocking && !streams[hold->stream].non_blocking);
}

/* Whether an operation, natively, waits for nothing that may be held. Some of them look again, when
 * they know what they are about: world_order, and whoever frees. */
static bool goes_on_beside(enum operation_kind kind) {
    switch (kind) {
    case OP_alloc:
    case OP_alloc_large:
    case OP_alloc_pitch:
    case OP_alloc_wrong:
    case OP_release:
    case OP_fill:
    case OP_add:
    case OP_set:
    case OP_copy:
    case OP_spin:
    case OP_stream_new:
    case OP_event:
    case OP_host_call:
    case OP_range:
    case OP_information:
    case OP_other_context:
    case OP_hold:
    case OP_ask_held:
    case OP_work_beside:
    case OP_call_beside:
    case OP_capture_held:
    case OP_early:
    case OP_overlap:
    case OP_ask_inside:
    case OP_host_work:
        return true;
    default:
        return false;
    }
}

void held_before(struct world *world, enum operation_kind kind) {
    if (!goes_on_beside(kind))
        world_let_go(world);
}

static bool take_flag(struct world *world, struct hold *hold, bool pinned, CUdeviceptr *flag) {
    struct context *context = current(world);
    void *memory;
    if (pinned) {
        if (cuMemHostAlloc(&memory, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS ||
            cuMemHostGetDevicePointer_v2(flag, memory, 0) != CUDA_SUCCESS)
            return false;
        hold->pinned = memory;
        *hold->pinned = 0;
        return true;
    }
    if (!context->flag) {
        if (cuMemAlloc_v2(&context->flag, WORDS * 4) != CUDA_SUCCESS ||
            cuMemsetD32_v2(context->flag, 0, WORDS) != CUDA_SUCCESS ||
            cuStreamSynchronize(NULL) != CUDA_SUCCESS)
            return false;
        owner_begins(context->flag, WORDS * 4);
        world->held[context->device] += world_footprint(WORDS * 4);
        world->freed_count = 0;
    }
    *flag = context->flag;
    return true;
}

void do_hold(struct world *world, const struct operation *operation) {
    struct hold hold = {.active = true, .context = world->current};
    CUdeviceptr flag;
    if (world->hold.active)
        return;
    hold.stream = world_stream(world, operation->a);
    if (!current(world)->wait_flag || !take_flag(world, &hold, operation->b % 4 == 0, &flag))
        return;
    tell(world, "hold",
         launch(current(world)->wait_flag, stream_of(world, world->current, hold.stream),
                (void *[]){&flag}));
    world->hold = hold;
}

/* Sets the context's flag, and clears it for the next time, by a stream that waits for no other. */
static void pass_flag(struct world *world, const struct hold *hold) {
    CUdeviceptr flag = world->contexts[hold->context].flag;
    CUstream stream;
    if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return;
    tell(world, "set flag", cuMemsetD32Async(flag, 1, 1, stream));
    tell(world, "flag is set", cuStreamSynchronize(stream));
    cuStreamSynchronize(stream_of(world, hold->context, hold->stream));
    cuMemsetD32Async(flag, 0, 1, stream);
    cuStreamSynchronize(stream);
    cuStreamDestroy_v2(stream);
}

void world_let_go(struct world *world) {
    struct hold hold = world->hold;
    CUcontext popped;
    if (!hold.active)
        return;
    world->hold.active = false;
    fprintf(world->transcript, "let go\n");
    cuCtxPushCurrent_v2(world->contexts[hold.context].handle);
    if (hold.pinned) {
        store_flag(hold.pinned);
        cuMemFreeHost(hold.pinned);
    } else {
        pass_flag(world, &hold);
    }
    cuCtxPopCurrent_v2(&popped);
}

void do_let_go(struct world *world, const struct operation *operation) {
    (void)operation; /* held_before has done it */
    (void)world;
}

void held_context_ending(struct world *world, int context) {
    struct context *ending = &world->contexts[context];
    if (!ending->flag)
        return;
    owner_ends(ending->flag);
    world->held[ending->device] -= world_footprint(WORDS * 4);
    ending->flag = 0;
}

void held_end(struct world *world) {
    for (int i = 0; i < world->context_count; i++) {
        CUdeviceptr flag = world->contexts[i].flag;
        if (!world->contexts[i].handle || !flag)
            continue;
        held_context_ending(world, i);
        tell(world, "free flag", cuMemFree_v2(flag));
    }
}

void do_ask_held(struct world *world, const struct operation *operation) {
    const struct hold *hold = &world->hold;
    CUstream stream = stream_of(world, hold->context, hold->stream);
    CUevent event;
    if (!hold->active || hold->context != world->current)
        return;
    tell(world, "stream", cuStreamQuery(stream));
    if (operation->a % 2 || cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return;
    tell(world, "record", cuEventRecord(event, stream));
    tell(world, "event", cuEventQuery(event));
    if (operation->a % 4 == 0) { /* the stream waits for itself, and that is behind it anyway */
        tell(world, "wait", cuStreamWaitEvent(stream, event, 0));
    }
    tell(world, "event end", cuEventDestroy_v2(event));
}

/* A stream of the current context that does not wait for the held one; -1: none. */
static int stream_beside(const struct world *world, uint32_t number) {
    for (int i = 0; i < STREAMS; i++) {
        int stream = (int)((number + (uint32_t)i) % STREAMS);
        if (world->contexts[world->current].streams[stream].exists &&
            !world_is_held(world, world->current, stream))
            return stream;
    }
    return -1;
}

void do_work_beside(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    int stream = stream_beside(world, operation->b);
    uint32_t words[WORDS] = {0};
    uint64_t count = WORDS;
    if (!holds_words(block) || stream < 0)
        return;
    CUstream handle = stream_of(world, world->current, stream);
    world_order(world, block, stream);
    tell(world, "fill",
         launch(current(world)->fill, handle,
                (void *[]){&block->pointer, &count, (void *)(uintptr_t)&operation->c}));
    block->written = true;
    CUresult result = cuMemcpyDtoHAsync_v2(words, block->pointer, sizeof words, handle);
    if (result == CUDA_SUCCESS)
        result = cuStreamSynchronize(handle);
    fprintf(world->transcript, "beside %d %08x %08x\n", (int)result, words[0], words[WORDS - 1]);
}

void do_call_beside(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->b);
    static const uint32_t words[WORDS];
    CUfunction function;
    CUevent event;
    unsigned flags;
    switch (operation->a % 6) {
    case 0:
        tell(world, "function", cuModuleGetFunction(&function, current(world)->module, "fill_u32"));
        break;
    case 1:
        tell(world, "event", cuEventCreate(&event, 0));
        tell(world, "event end", cuEventDestroy_v2(event));
        break;
    case 2: /* pageable memory, so little that it is staged */
        if (!holds_words(block))
            break;
        world_order(world, block, LEGACY);
        tell(world, "copy", cuMemcpyHtoDAsync_v2(block->pointer, words, sizeof words, NULL));
        block->written = true;
        break;
    case 3:
        tell(world, "flags", cuStreamGetFlags(NULL, &flags));
        break;
    case 4:
        tell(world, "too much", cuMemAlloc_v2(&(CUdeviceptr){0}, (size_t)1 << 45));
        break;
    default:
        if (cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            break;
        tell(world, "record", cuEventRecord(event, NULL));
        tell(world, "wait", cuStreamWaitEvent(NULL, event, 0));
        tell(world, "event end", cuEventDestroy_v2(event));
    }
}

void do_capture_held(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    CUgraph graph = NULL;
    CUstream stream;
    uint64_t count = WORDS;
    if (!holds_words(block) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return;
    tell(world, "begin",
         cuStreamBeginCapture_v2(stream, operation->b % 2 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                                          : CU_STREAM_CAPTURE_MODE_GLOBAL));
    tell(world, "fill",
         launch(current(world)->fill, stream,
                (void *[]){&block->pointer, &count, (void *)(uintptr_t)&operation->c}));
    tell(world, "end", cuStreamEndCapture(stream, &graph));
    if (graph)
        tell(world, "graph end", cuGraphDestroy(graph));
    tell(world, "stream end", cuStreamDestroy_v2(stream));
}

static struct concurrent concurrent_of(struct world *world, const struct operation *operation) {
    const struct context *context = current(world);
    world->freed_count = 0;
    return (struct concurrent){.context = context->handle,
                               .fill = context->fill,
                               .wait_flag = context->wait_flag,
                               .device = context->device,
                               .seed = operation->b};
}

static void tell_wrong(struct world *world, const struct concurrent *concurrent) {
    for (int i = 0; i < CONCURRENT_MAX; i++)
        fprintf(world->transcript, "thread %d wrong %d\n", i, concurrent->wrong[i]);
}

void do_threads_held(struct world *world, const struct operation *operation) {
    if (world_is_crowded(world))
        return;
    struct concurrent concurrent = concurrent_of(world, operation);
    cuCtxSynchronize();
    world_settled(world, world->current);
    concurrent_held(&concurrent, operation->a % 2);
    tell_wrong(world, &concurrent);
}

void do_forks(struct world *world, const struct operation *operation) {
    struct concurrent concurrent = concurrent_of(world, operation);
    cuCtxSynchronize();
    world_settled(world, world->current);
    fflush(world->transcript);
    concurrent_forks(&concurrent);
    tell_wrong(world, &concurrent);
}

void do_host_work(struct world *world, const struct operation *operation) {
    (void)world;
    work_by_host(operation->a % 500000);
}

/* The kernel needs a newer device than the others: it is in a module of its own. */
static bool load_early(struct context *context) {
    CUmodule module;
    return context->early_fill ||
           (cuModuleLoadData(&module, early_fill_ptx) == CUDA_SUCCESS &&
            cuModuleGetFunction(&context->early_fill, module, "early_fill_u32") == CUDA_SUCCESS);
}

void do_early(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    int stream = world_stream(world, operation->b);
    uint64_t count = WORDS, ns = operation->c % 200000;
    if (!holds_words(block) || !load_early(current(world)))
        return;
    world_order(world, block, stream);
    tell(world, "early fill",
         launch(current(world)->early_fill, stream_of(world, world->current, stream),
                (void *[]){&block->pointer, &count, (void *)(uintptr_t)&operation->c, &ns}));
    block->written = true;
}

/* Not of a block that the kernel before may still be at: nothing but a wait would order the two. */
void do_overlap(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    int stream = world_stream(world, operation->b);
    uint64_t count = WORDS;
    CUlaunchAttribute attribute = {
        .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        .value.programmaticStreamSerializationAllowed = 1,
    };
    CUlaunchConfig config = {.gridDimX = 4,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream_of(world, world->current, stream),
                             .attrs = &attribute,
                             .numAttrs = 1};
    if (!holds_words(block) || block->stream == stream)
        return;
    world_order(world, block, stream);
    tell(world, "overlapping fill",
         cuLaunchKernelEx(&config, current(world)->fill,
                          (void *[]){&block->pointer, &count, (void *)(uintptr_t)&operation->c},
                          NULL));
    block->written = true;
}

static void call_inside(void *data) {
    struct inside *inside = data;
    CUdeviceptr base, pointer;
    size_t size, total;
    unsigned type;
    inside->results[0] = cuMemGetAddressRange_v2(&base, &size, inside->block);
    inside->results[1] =
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside->block);
    inside->results[2] = cuMemFree_v2(inside->block);
    inside->results[3] = cuMemAlloc_v2(&pointer, 1000);
    inside->results[4] = cuMemGetInfo_v2(&size, &total);
}

void do_ask_inside(struct world *world, const struct operation *operation) {
    struct block *block = world_block(world, operation->a);
    int stream = world_stream(world, operation->b);
    if (!block || world->inside.pending)
        return;
    world->inside =
        (struct inside){.pending = true, .context = world->current, .block = block->pointer};
    tell(world, "function of the host",
         cuLaunchHostFunc(stream_of(world, world->current, stream), call_inside, &world->inside));
}

void do_churn(struct world *world, const struct operation *operation) {
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    CUcontext context;
    CUdeviceptr pointers[3];
    int wrong = 0;
    for (uint32_t i = 0; i < 1 + operation->a % 8; i++) {
        if (create(&context, 0, (CUdevice)(operation->b % 2)) != CUDA_SUCCESS) {
            wrong++;
            continue;
        }
        for (int j = 0; j < 3; j++) {
            wrong += cuMemAlloc_v2(&pointers[j], 4096 << (operation->c % 5)) != CUDA_SUCCESS;
            wrong += cuMemsetD32Async(pointers[j], i, 1024, NULL) != CUDA_SUCCESS;
        }
        wrong += cuMemFree_v2(pointers[operation->c % 3]) != CUDA_SUCCESS;
        wrong += cuCtxDestroy_v2(context) != CUDA_SUCCESS;
    }
    tell(world, "set current", cuCtxSetCurrent(current(world)->handle));
    fprintf(world->transcript, "contexts that went wrong: %d\n", wrong);
    world->freed_count = 0;
}

void do_plugin(struct world *world, const struct operation *operation) {
    char program[4000], path[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    void *library;
    int (*wrong)(void);
    (void)operation;
    if (length < 0)
        return;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    snprintf(path, sizeof path, "%s/libplugin.so", program);
    library = dlopen(path, RTLD_NOW);
    fprintf(world->transcript, "plugin %d\n", library != NULL);
    world->freed_count = 0;
    if (!library)
        return;
    *(void **)&wrong = dlsym(library, "plugin_wrong");
    fprintf(world->transcript, "in its constructor: wrong %d\n", wrong ? wrong() : -1);
    dlclose(library);
}
