#include "object_memory.h"

#include "lock.h"
#include "memory.h"
#include "settings.h"

/* Bytes in use. They fill pages one after the other, so that thousands of events share a page;
 * which object lies in which page is not kept. */
static size_t used[DEVICES_MAX];

static size_t pages(size_t bytes) {
    return bytes / memory_page + (bytes % memory_page != 0);
}

static CUresult take(CUdevice device, size_t bytes) {
    size_t more = pages(used[device] + bytes) - pages(used[device]);

    if (more != 0 && !memory_take_unaddressed(device, more))
        return CUDA_ERROR_OUT_OF_MEMORY;
    used[device] += bytes;
    return CUDA_SUCCESS;
}

static void give(CUdevice device, size_t bytes) {
    size_t before = pages(used[device]);

    used[device] -= bytes;
    if (pages(used[device]) != before)
        memory_give_unaddressed(device, before - pages(used[device]));
}

CUresult object_memory_take(CUdevice device) {
    sim_check_held();
    return take(device, settings()->call_memory);
}

void object_memory_give(CUdevice device) {
    sim_check_held();
    give(device, settings()->call_memory);
}

CUresult object_memory_launch(struct CUctx_st *context) {
    sim_check_held();
    CUresult result = CUDA_SUCCESS;

    if (!context->launched)
        result = take(context->device, settings()->launch_memory);
    context->launched = result == CUDA_SUCCESS;
    return result;
}

void object_memory_context_ending(struct CUctx_st *context) {
    sim_check_held();
    if (context->launched)
        give(context->device, settings()->launch_memory);
    context->launched = false;
}
