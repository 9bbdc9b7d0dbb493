/* A libcuda.so.1 that hands out addresses and does nothing else, at a fixed small cost: under it
 * what a soak costs in time, instructions and host memory is the pool's.
 *
 * Each of the 8 devices has a region (2^38 addresses) of addresses for every power of two from 512
 * B to 128 MiB. Freed addresses are handed out again, the last first, as a real driver's lowest
 * are; nothing is allocated on the host after the start. Results are SUCCESS unless a region is
 * used up (OUT_OF_MEMORY) or an address was not handed out (INVALID_VALUE). */
#include "driver/cuda_api.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { DEVICES = 8, LEAST_SHIFT = 9, CLASSES = 19, BLOCKS = 1 << 15 };

static const uint64_t region_bytes = (uint64_t)1 << 38, device_bytes = (uint64_t)80 << 30;
static const uint64_t first_address = (uint64_t)1 << 42;

/* Invariant: below `made` every number is either handed out or in free_numbers. */
static struct region {
    pthread_mutex_t lock;
    uint32_t made, free_count;
    uint16_t free_numbers[BLOCKS];
} regions[DEVICES][CLASSES];

static char contexts[DEVICES];
/* initial-exec: else each use is a call, which would count as the pool's */
#define OF_THREAD static __thread __attribute__((tls_model("initial-exec")))
OF_THREAD CUcontext current;

static int device_of(CUcontext context) {
    return (int)((char *)context - contexts);
}

__attribute__((constructor)) static void make_locks(void) {
    for (int d = 0; d < DEVICES; d++)
        for (int c = 0; c < CLASSES; c++)
            pthread_mutex_init(&regions[d][c].lock, NULL);
}

static int class_of(size_t bytes) {
    int class = 0;
    while (class < CLASSES && ((size_t)1 << (LEAST_SHIFT + class)) < bytes)
        class ++;
    return class;
}

/* The address of block `number`: a device's regions lie one after another. */
static CUdeviceptr address_of(int device, int class, uint32_t number) {
    return first_address + ((uint64_t)device * CLASSES + (uint64_t) class) * region_bytes +
           ((uint64_t)number << (LEAST_SHIFT + class));
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    int class = class_of(bytes);
    if (!current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (class == CLASSES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct region *region = &regions[device_of(current)][class];
    pthread_mutex_lock(&region->lock);
    bool recycled = region->free_count > 0, possible = recycled || region->made < BLOCKS;
    uint32_t number = recycled   ? region->free_numbers[--region->free_count]
                      : possible ? region->made++
                                 : 0;
    pthread_mutex_unlock(&region->lock);
    if (possible)
        *pointer = address_of(device_of(current), class, number);
    return possible ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
    uint64_t place = (pointer - first_address) / region_bytes;
    if (pointer < first_address || place >= (uint64_t)DEVICES * CLASSES)
        return pointer ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    struct region *region = &regions[place / CLASSES][place % CLASSES];
    uint32_t number =
        (uint32_t)((pointer - first_address) % region_bytes >> (LEAST_SHIFT + place % CLASSES));
    pthread_mutex_lock(&region->lock);
    bool possible = number < region->made && region->free_count < region->made;
    if (possible)
        region->free_numbers[region->free_count++] = (uint16_t)number;
    pthread_mutex_unlock(&region->lock);
    return possible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                            unsigned int element) {
    (void)element;
    *pitch = (width + 511) / 512 * 512;
    return cuMemAlloc_v2(pointer, *pitch * height);
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    *available = device_bytes / 2; /* what is taken is not counted: the memory never runs out */
    *total = device_bytes;
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags) {
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    *context = (CUcontext)&contexts[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
    (void)device;
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    current = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = current;
    return CUDA_SUCCESS;
}

/* A stack of depth two is enough: the pool pushes one and takes it off again. */
OF_THREAD CUcontext below;

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    below = current;
    current = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    if (context)
        *context = current;
    current = below;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    *device = current ? device_of(current) : 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    (void)device;
    *bytes = device_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    (void)attribute;
    (void)device;
    *value = 0;
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8_v2(CUdeviceptr pointer, unsigned char value, size_t bytes) {
    (void)pointer;
    (void)value;
    (void)bytes;
    return CUDA_SUCCESS;
}

/* Events have passed as soon as they are recorded. */
CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    (void)flags;
    *event = (CUevent)contexts;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    (void)event;
    (void)stream;
    return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext context, CUevent event) {
    (void)context;
    (void)event;
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}
