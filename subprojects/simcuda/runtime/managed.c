/* What a program says about managed memory. CUDA 13 names places where CUDA 12 had devices. */
#include "forms.h"

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

FORWARD_FORMS(cudaMemPrefetchAsync, _ptsz,
              (const void *memory, size_t bytes, PLACE PREFETCH_FLAGS, cudaStream_t stream),
              NO_FLAGS ? driver.cuMemPrefetchAsync[per_thread](POINTER(memory), bytes,
                                                               device_at(place), stream)
                       : CUDA_ERROR_INVALID_VALUE)

FORWARD_FORMS(cudaStreamAttachMemAsync, _ptsz,
              (cudaStream_t stream, void *memory, size_t bytes, unsigned int flags),
              driver.cuStreamAttachMemAsync[per_thread](stream, POINTER(memory), bytes, flags))

cudaError_t cudaMemRangeGetAttribute(void *data, size_t size, enum cudaMemRangeAttribute attribute,
                                     const void *memory, size_t bytes) {
    ENTER();
    return DRIVER(driver.cuMemRangeGetAttribute(data, size, (CUmem_range_attribute)attribute,
                                                POINTER(memory), bytes));
}
