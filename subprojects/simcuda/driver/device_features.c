/* What programs ask of devices that the simulated ones have not, or have none of: the answers say
 * so, as a driver's do for such devices. */
#include "context.h"
#include "lock.h"
#include "memory.h"
#include "settings.h"

#include <string.h>

/* Only Windows has them. */
SIM_EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned int *nodes, CUdevice device) {
    ENTER(cuDeviceGetLuid);
    if (luid == NULL || nodes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return device_check(device) == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED
                                                : CUDA_ERROR_INVALID_DEVICE;
}

/* Shares of the multiprocessors, which MPS gives out. */
SIM_EXPORT CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type,
                                                   CUdevice device) {
    ENTER(cuDeviceGetExecAffinitySupport);
    if (supported == NULL || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        return CUDA_ERROR_INVALID_VALUE;
    *supported = 0;
    return device_check(device);
}

SIM_EXPORT CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuCtxGetExecAffinity);
    if (affinity == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    sim_unlock();
    if (result != CUDA_SUCCESS)
        return result;
    return type == CU_EXEC_AFFINITY_TYPE_SM_COUNT ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
                                                  : CUDA_ERROR_INVALID_VALUE;
}

/* No line of the second-level cache ever persists: the devices say that they have none of it. */
SIM_EXPORT CUresult cuCtxResetPersistingL2Cache(void) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuCtxResetPersistingL2Cache);
    sim_lock();
    result = context_current(&context);
    sim_unlock();
    return result == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : result;
}

/* Nobody profiles the simulated device. */
static CUresult switch_profiler(void) {
    struct CUctx_st *context;
    CUresult result;

    sim_lock();
    result = context_current(&context);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuProfilerStart(void) {
    ENTER(cuProfilerStart);
    return switch_profiler();
}

SIM_EXPORT CUresult cuProfilerStop(void) {
    ENTER(cuProfilerStop);
    return switch_profiler();
}

/* GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS says that this is not there. */
SIM_EXPORT CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                               CUflushGPUDirectRDMAWritesScope scope) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuFlushGPUDirectRDMAWrites);
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
         scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    sim_unlock();
    return result == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : result;
}

SIM_EXPORT CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device) {
    ENTER(cuDeviceGetProperties);
    if (properties == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
#define OF(attribute) device_attribute(CU_DEVICE_ATTRIBUTE_##attribute, device)
    *properties = (CUdevprop){
        .maxThreadsPerBlock = OF(MAX_THREADS_PER_BLOCK),
        .maxThreadsDim = {OF(MAX_BLOCK_DIM_X), OF(MAX_BLOCK_DIM_Y), OF(MAX_BLOCK_DIM_Z)},
        .maxGridSize = {OF(MAX_GRID_DIM_X), OF(MAX_GRID_DIM_Y), OF(MAX_GRID_DIM_Z)},
        .sharedMemPerBlock = OF(MAX_SHARED_MEMORY_PER_BLOCK),
        .totalConstantMemory = OF(TOTAL_CONSTANT_MEMORY),
        .SIMDWidth = OF(WARP_SIZE),
        .memPitch = OF(MAX_PITCH),
        .regsPerBlock = OF(MAX_REGISTERS_PER_BLOCK),
        .clockRate = OF(CLOCK_RATE),
        .textureAlign = OF(TEXTURE_ALIGNMENT)};
#undef OF
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000

/* No operation is atomic across devices, nor between a device and the host, as the attributes
 * NATIVE_ATOMIC_SUPPORTED say. */
static CUresult no_atomics(unsigned int *capabilities, const CUatomicOperation *operations,
                           unsigned int count) {
    if (capabilities == NULL || operations == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++)
        if ((unsigned int)operations[i] >= CU_ATOMIC_OPERATION_MAX)
            return CUDA_ERROR_INVALID_VALUE;
    memset(capabilities, 0, count * sizeof *capabilities);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
                                                      const CUatomicOperation *operations,
                                                      unsigned int count, CUdevice device) {
    ENTER(cuDeviceGetHostAtomicCapabilities);
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    return no_atomics(capabilities, operations, count);
}

SIM_EXPORT CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
                                                     const CUatomicOperation *operations,
                                                     unsigned int count, CUdevice from,
                                                     CUdevice to) {
    ENTER(cuDeviceGetP2PAtomicCapabilities);
    if (device_check(from) != CUDA_SUCCESS || device_check(to) != CUDA_SUCCESS || from == to)
        return CUDA_ERROR_INVALID_DEVICE;
    return no_atomics(capabilities, operations, count);
}

#endif
