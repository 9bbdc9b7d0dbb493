/* What a program says about managed memory. CUDA 13 names places where CUDA 12 had devices. */
#include "state.h"

#define POINTER(p) ((CUdeviceptr)(uintptr_t)(p))

#if CUDART_VERSION >= 13000
#define PLACE struct cudaMemLocation place
/* No node of the host: INVALID_DEVICE, of which there is none by that number. */
static CUdevice device_at(struct cudaMemLocation place) {
    switch (place.type) {
    case cudaMemLocationTypeDevice:
        return place.id;
    case cudaMemLocationTypeHost:
        return CU_DEVICE_CPU;
    default:
        return CU_DEVICE_INVALID;
    }
}
#define PREFETCH_FLAGS , unsigned int flags
#define NO_FLAGS       (flags == 0)
#else
#define PLACE int place
static CUdevice device_at(int place) {
    return place;
}
#define PREFETCH_FLAGS
#define NO_FLAGS true
#endif

cudaError_t cudaMemAdvise(const void *memory, size_t bytes, enum cudaMemoryAdvise advice, PLACE) {
    ENTER();
    return DRIVER(
        driver.cuMemAdvise(POINTER(memory), bytes, (CUmem_advise)advice, device_at(place)));
}

cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes, PLACE PREFETCH_FLAGS,
                                 cudaStream_t stream) {
    ENTER();
    if (!NO_FLAGS)
        return state_result(cudaErrorInvalidValue);
    return DRIVER(driver.cuMemPrefetchAsync[0](POINTER(memory), bytes, device_at(place), stream));
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *memory, size_t bytes,
                                     unsigned int flags) {
    ENTER();
    return DRIVER(driver.cuStreamAttachMemAsync[0](stream, POINTER(memory), bytes, flags));
}

cudaError_t cudaMemRangeGetAttribute(void *data, size_t size, enum cudaMemRangeAttribute attribute,
                                     const void *memory, size_t bytes) {
    ENTER();
    return DRIVER(driver.cuMemRangeGetAttribute(data, size, (CUmem_range_attribute)attribute,
                                                POINTER(memory), bytes));
}
