/* Allocation and free. The frames between the program and the driver are kept as deep as in
 * NVIDIA's runtime (three for cudaMalloc, two for cudaFree), because finding the program behind
 * them is what the tests of the pool's sites are about. */
#include "state.h"

#define FRAME      __attribute__((noinline))
#define SITE()     ((uintptr_t)__builtin_return_address(0))
#define POINTER(p) ((CUdeviceptr)(uintptr_t)(p))

static void owner_begins(CUdeviceptr pointer, size_t bytes, uintptr_t site) {
    if (driver_owner_begin && pointer)
        driver_owner_begin(pointer, bytes, site);
}

FRAME static cudaError_t ask_driver(CUdeviceptr *pointer, size_t bytes) {
    CUresult result = driver.cuMemAlloc(pointer, bytes);
    return (cudaError_t)result;
}

FRAME static cudaError_t allocate(CUdeviceptr *pointer, size_t bytes) {
    cudaError_t result = bytes ? ask_driver(pointer, bytes) : cudaSuccess;
    return state_result(result);
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    CUdeviceptr fresh = 0;
    ENTER();
    if (!pointer)
        return state_result(cudaErrorInvalidValue);
    cudaError_t result = allocate(&fresh, bytes);
    if (result == cudaSuccess) {
        owner_begins(fresh, bytes, SITE());
        *pointer = (void *)fresh;
    }
    return result;
}

FRAME static cudaError_t ask_driver_pitched(CUdeviceptr *pointer, size_t *pitch, size_t width,
                                            size_t height) {
    unsigned int element = 4; /* the least that cuMemAllocPitch takes */
    CUresult result = driver.cuMemAllocPitch(pointer, pitch, width, height, element);
    return (cudaError_t)result;
}

FRAME static cudaError_t allocate_pitched(CUdeviceptr *pointer, size_t *pitch, size_t width,
                                          size_t height) {
    cudaError_t result =
        width && height ? ask_driver_pitched(pointer, pitch, width, height) : cudaSuccess;
    return state_result(result);
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    CUdeviceptr fresh = 0;
    ENTER();
    if (!pointer || !pitch)
        return state_result(cudaErrorInvalidValue);
    cudaError_t result = allocate_pitched(&fresh, pitch, width, height);
    if (result == cudaSuccess) {
        owner_begins(fresh, *pitch * height, SITE());
        *pointer = (void *)fresh;
    }
    return result;
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitched, struct cudaExtent extent) {
    CUdeviceptr fresh = 0;
    size_t pitch = 0, rows;
    ENTER();
    if (!pitched || __builtin_mul_overflow(extent.height, extent.depth, &rows))
        return state_result(cudaErrorInvalidValue);
    cudaError_t result = allocate_pitched(&fresh, &pitch, extent.width, rows);
    if (result == cudaSuccess) {
        owner_begins(fresh, pitch * rows, SITE());
        *pitched = (struct cudaPitchedPtr){(void *)fresh, pitch, extent.width, extent.height};
    }
    return result;
}

FRAME static cudaError_t give_back(CUdeviceptr pointer) {
    CUresult result = driver.cuMemFree(pointer);
    return state_result((cudaError_t)result);
}

/* After a free that failed: what is still the program's block remains its own. */
static void own_again(CUdeviceptr pointer, uintptr_t site) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    if (driver.cuMemGetAddressRange(&base, &bytes, pointer) == CUDA_SUCCESS && base == pointer)
        owner_begins(base, bytes, site);
}

/* For the hazard detector the program's ownership ends when it calls, not when the wait is over. */
cudaError_t cudaFree(void *pointer) {
    ENTER();
    if (!pointer)
        return cudaSuccess;
    if (driver_owner_end)
        driver_owner_end(POINTER(pointer), SITE());
    cudaError_t result = give_back(POINTER(pointer));
    if (result != cudaSuccess && driver_owner_begin)
        own_again(POINTER(pointer), SITE());
    return result;
}

cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags) {
    ENTER();
    cudaError_t result = DRIVER(driver.cuMemAllocManaged((CUdeviceptr *)pointer, bytes, flags));
    if (result == cudaSuccess)
        owner_begins(POINTER(*pointer), bytes, SITE());
    return result;
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags) {
    ENTER();
    cudaError_t result = DRIVER(driver.cuMemHostAlloc(pointer, bytes, flags));
    if (result == cudaSuccess)
        owner_begins(POINTER(*pointer), bytes, SITE());
    return result;
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
    return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *pointer) {
    ENTER();
    if (!pointer)
        return cudaSuccess;
    if (driver_owner_end)
        driver_owner_end(POINTER(pointer), SITE());
    cudaError_t result = DRIVER(driver.cuMemFreeHost(pointer));
    if (result != cudaSuccess && driver_owner_begin)
        own_again(POINTER(pointer), SITE());
    return result;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags) {
    ENTER();
    return DRIVER(driver.cuMemHostGetDevicePointer((CUdeviceptr *)device, host, flags));
}

cudaError_t cudaHostRegister(void *host, size_t bytes, unsigned int flags) {
    ENTER();
    return DRIVER(driver.cuMemHostRegister(host, bytes, flags));
}

cudaError_t cudaHostUnregister(void *host) {
    ENTER();
    return DRIVER(driver.cuMemHostUnregister(host));
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    ENTER();
    return DRIVER(driver.cuMemGetInfo(available, total));
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer) {
    ENTER();
    return DRIVER(driver.cuIpcGetMemHandle((CUipcMemHandle *)handle, POINTER(pointer)));
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int flags) {
    CUipcMemHandle driver_handle;
    ENTER();
    __builtin_memcpy(&driver_handle, &handle, sizeof driver_handle);
    return DRIVER(driver.cuIpcOpenMemHandle((CUdeviceptr *)pointer, driver_handle, flags));
}

cudaError_t cudaIpcCloseMemHandle(void *pointer) {
    ENTER();
    return DRIVER(driver.cuIpcCloseMemHandle(POINTER(pointer)));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                     const void *pointer) {
    unsigned int kind = 0, managed = 0;
    int device = -1;
    ENTER();
    if (!attributes)
        return state_result(cudaErrorInvalidValue);
    *attributes = (struct cudaPointerAttributes){.device = cudaInvalidDeviceId,
                                                 .hostPointer = (void *)(uintptr_t)pointer};
    if (driver.cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, POINTER(pointer)) !=
        CUDA_SUCCESS)
        return cudaSuccess; /* memory that CUDA does not know is an answer */
    driver.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, POINTER(pointer));
    attributes->device = device;
    driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, POINTER(pointer));
    attributes->type = managed                      ? cudaMemoryTypeManaged
                       : kind == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeDevice;
    attributes->devicePointer = (void *)(uintptr_t)pointer;
    if (attributes->type == cudaMemoryTypeDevice)
        attributes->hostPointer = NULL;
    return cudaSuccess;
}
