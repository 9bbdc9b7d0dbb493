/* cudaGetDeviceProperties: what the driver's attributes say; every other member is 0. */
#include "state.h"

#include <string.h>

/* Members whose values are attributes of the driver: PROPERTY(member, CU_DEVICE_ATTRIBUTE_...).
 * Only members that CUDA 12 and CUDA 13 have. */
#define PROPERTIES                                                                                 \
    PROPERTY(major, COMPUTE_CAPABILITY_MAJOR)                                                      \
    PROPERTY(minor, COMPUTE_CAPABILITY_MINOR)                                                      \
    PROPERTY(warpSize, WARP_SIZE)                                                                  \
    PROPERTY(multiProcessorCount, MULTIPROCESSOR_COUNT)                                            \
    PROPERTY(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK)                                            \
    PROPERTY(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR)                          \
    PROPERTY(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR)                            \
    PROPERTY(maxThreadsDim[0], MAX_BLOCK_DIM_X)                                                    \
    PROPERTY(maxThreadsDim[1], MAX_BLOCK_DIM_Y)                                                    \
    PROPERTY(maxThreadsDim[2], MAX_BLOCK_DIM_Z)                                                    \
    PROPERTY(maxGridSize[0], MAX_GRID_DIM_X)                                                       \
    PROPERTY(maxGridSize[1], MAX_GRID_DIM_Y)                                                       \
    PROPERTY(maxGridSize[2], MAX_GRID_DIM_Z)                                                       \
    PROPERTY(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK)                                       \
    PROPERTY(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)                            \
    PROPERTY(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)                     \
    PROPERTY(regsPerBlock, MAX_REGISTERS_PER_BLOCK)                                                \
    PROPERTY(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR)                              \
    PROPERTY(totalConstMem, TOTAL_CONSTANT_MEMORY)                                                 \
    PROPERTY(memPitch, MAX_PITCH)                                                                  \
    PROPERTY(textureAlignment, TEXTURE_ALIGNMENT)                                                  \
    PROPERTY(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT)                                       \
    PROPERTY(surfaceAlignment, SURFACE_ALIGNMENT)                                                  \
    PROPERTY(l2CacheSize, L2_CACHE_SIZE)                                                           \
    PROPERTY(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH)                                              \
    PROPERTY(asyncEngineCount, ASYNC_ENGINE_COUNT)                                                 \
    PROPERTY(concurrentKernels, CONCURRENT_KERNELS)                                                \
    PROPERTY(integrated, INTEGRATED)                                                               \
    PROPERTY(ECCEnabled, ECC_ENABLED)                                                              \
    PROPERTY(canMapHostMemory, CAN_MAP_HOST_MEMORY)                                                \
    PROPERTY(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)           \
    PROPERTY(hostRegisterSupported, HOST_REGISTER_SUPPORTED)                                       \
    PROPERTY(unifiedAddressing, UNIFIED_ADDRESSING)                                                \
    PROPERTY(managedMemory, MANAGED_MEMORY)                                                        \
    PROPERTY(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS)                                   \
    PROPERTY(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS)                                         \
    PROPERTY(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED)                                         \
    PROPERTY(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED)                               \
    PROPERTY(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED)                             \
    PROPERTY(cooperativeLaunch, COOPERATIVE_LAUNCH)                                                \
    PROPERTY(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED)                                    \
    PROPERTY(pciBusID, PCI_BUS_ID)                                                                 \
    PROPERTY(pciDeviceID, PCI_DEVICE_ID)                                                           \
    PROPERTY(pciDomainID, PCI_DOMAIN_ID)

/* As cudaDeviceGetAttribute this needs the driver, not a context. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    CUdevice handle;
    int value = 0;
    cudaError_t loaded = driver_load();
    if (loaded != cudaSuccess)
        return state_result(loaded);
    if (!properties)
        return state_result(cudaErrorInvalidValue);
    if (driver.cuDeviceGet(&handle, device) != CUDA_SUCCESS)
        return state_result(cudaErrorInvalidDevice);
    memset(properties, 0, sizeof *properties);
    CUresult result = driver.cuDeviceGetName(properties->name, sizeof properties->name, handle);
    if (result == CUDA_SUCCESS)
        result = driver.cuDeviceTotalMem(&properties->totalGlobalMem, handle);
    if (result == CUDA_SUCCESS)
        result = driver.cuDeviceGetUuid((CUuuid *)&properties->uuid, handle);
#define PROPERTY(member, attribute)                                                                \
    if (driver.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_##attribute, handle) ==            \
        CUDA_SUCCESS)                                                                              \
        properties->member = value;
    PROPERTIES
#undef PROPERTY
    return DRIVER(result);
}
