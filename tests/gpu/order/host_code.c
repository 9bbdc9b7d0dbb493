/* What the driver's functions say in a host function and in a callback of a stream. */
#include "probes.h"

struct seen {
    CUcontext context;
    CUdeviceptr block, base;
    size_t size;
    CUresult current, freed, range, attribute;
};

static void look(struct seen *seen) {
    CUcontext owner = NULL;
    seen->current = cuCtxGetCurrent(&seen->context);
    seen->range = cuMemGetAddressRange_v2(&seen->base, &seen->size, seen->block);
    seen->attribute = cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, seen->block);
    seen->freed = cuMemFree_v2(seen->block);
}

static void host_function(void *data) {
    look(data);
}

static void callback(CUstream stream, CUresult result, void *data) {
    (void)stream;
    (void)result;
    look(data);
}

static void tell(const char *id, const char *question, const struct start *start,
                 const struct seen *seen) {
    const char *which = seen->context == NULL             ? "no context"
                        : seen->context == start->context ? "the stream's context"
                                                          : "another context";
    answer(id, question,
           "cuCtxGetCurrent %s, %s; cuMemGetAddressRange %s; cuPointerGetAttribute %s; "
           "cuMemFree %s",
           code_name(seen->current), which, code_name(seen->range), code_name(seen->attribute),
           code_name(seen->freed));
}

void probe_host_functions(void) {
    struct start start = start_device();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct seen first = {.block = allocate(BYTES)}, second = {.block = allocate(BYTES)};
    CHECK(cuLaunchHostFunc(stream, host_function, &first));
    CHECK(cuStreamSynchronize(stream));
    tell("16.1", "in a host function", &start, &first);
    CHECK(cuStreamAddCallback(stream, callback, &second, 0));
    CHECK(cuStreamSynchronize(stream));
    tell("16.2", "in a callback of a stream", &start, &second);
}
