/* What the hooks tell the recorder. All of it costs a load and a branch while nothing is recorded.
 */
#ifndef POOLCUDA_INTERPOSE_RECORD_H
#define POOLCUDA_INTERPOSE_RECORD_H

#include "base/call_site.h"
#include "driver/cuda_api.h"
#include "trace/recorder.h"

/* The ordinal of the current context's device. To be called once the driver is in use. */
int record_device(void);

static inline CUresult record_alloc(CUresult result, const CUdeviceptr *pointer, size_t bytes,
                                    const struct call_site *site, CUstream stream) {
    if (recorder_active() && result == CUDA_SUCCESS)
        recorder_alloc(*pointer, bytes, site, record_device(), (uintptr_t)stream);
    return result;
}

/* A free that is about to be made; its number is for record_freed. */
static inline uint64_t record_free(CUdeviceptr pointer, CUstream stream) {
    return recorder_active() && pointer ? recorder_free(pointer, (uintptr_t)stream) : UINT64_MAX;
}

static inline CUresult record_freed(CUresult result, uint64_t number, CUdeviceptr pointer) {
    if (result != CUDA_SUCCESS && number != UINT64_MAX)
        recorder_free_failed(number, pointer);
    return result;
}

#endif
