/* What kernels need, their settings, and how many of their blocks fit on a multiprocessor. */
#include "registered.h"
#include "state.h"

#include <limits.h>
#include <string.h>

/* Ends a function of the runtime that did not find its kernel. */
#define FIND(entry, function)                                                                      \
    do {                                                                                           \
        ENTER();                                                                                   \
        cudaError_t found = registered_function(entry, function);                                  \
        if (found != cudaSuccess)                                                                  \
            return state_result(found);                                                            \
    } while (0)

#define ATTRIBUTES                                                                                 \
    ATTRIBUTE(sharedSizeBytes, SHARED_SIZE_BYTES)                                                  \
    ATTRIBUTE(constSizeBytes, CONST_SIZE_BYTES)                                                    \
    ATTRIBUTE(localSizeBytes, LOCAL_SIZE_BYTES)                                                    \
    ATTRIBUTE(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK)                                           \
    ATTRIBUTE(numRegs, NUM_REGS)                                                                   \
    ATTRIBUTE(ptxVersion, PTX_VERSION)                                                             \
    ATTRIBUTE(binaryVersion, BINARY_VERSION)                                                       \
    ATTRIBUTE(cacheModeCA, CACHE_MODE_CA)                                                          \
    ATTRIBUTE(maxDynamicSharedSizeBytes, MAX_DYNAMIC_SHARED_SIZE_BYTES)                            \
    ATTRIBUTE(preferredShmemCarveout, PREFERRED_SHARED_MEMORY_CARVEOUT)                            \
    ATTRIBUTE(clusterDimMustBeSet, CLUSTER_SIZE_MUST_BE_SET)                                       \
    ATTRIBUTE(requiredClusterWidth, REQUIRED_CLUSTER_WIDTH)                                        \
    ATTRIBUTE(requiredClusterHeight, REQUIRED_CLUSTER_HEIGHT)                                      \
    ATTRIBUTE(requiredClusterDepth, REQUIRED_CLUSTER_DEPTH)                                        \
    ATTRIBUTE(clusterSchedulingPolicyPreference, CLUSTER_SCHEDULING_POLICY_PREFERENCE)             \
    ATTRIBUTE(nonPortableClusterSizeAllowed, NON_PORTABLE_CLUSTER_SIZE_ALLOWED)

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *entry) {
    CUfunction function;
    int value = 0;
    CUresult result = CUDA_SUCCESS;
    FIND(entry, &function);
    if (!attributes)
        return state_result(cudaErrorInvalidValue);
    memset(attributes, 0, sizeof *attributes);
#define ATTRIBUTE(member, name)                                                                    \
    if (result == CUDA_SUCCESS) {                                                                  \
        result = driver.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_##name, function);            \
        attributes->member = value;                                                                \
    }
    ATTRIBUTES
#undef ATTRIBUTE
    return DRIVER(result);
}

/* Both interfaces number what can be set alike [driver_types.h, cuda.h]. */
cudaError_t cudaFuncSetAttribute(const void *entry, enum cudaFuncAttribute attribute, int value) {
    CUfunction function;
    FIND(entry, &function);
    return DRIVER(driver.cuFuncSetAttribute(function, (CUfunction_attribute)attribute, value));
}

cudaError_t cudaFuncSetCacheConfig(const void *entry, enum cudaFuncCache configuration) {
    CUfunction function;
    FIND(entry, &function);
    return DRIVER(driver.cuFuncSetCacheConfig(function, (CUfunc_cache)configuration));
}

/* Without effect on all devices since Volta, and deprecated for that. */
cudaError_t cudaFuncSetSharedMemConfig(const void *entry, enum cudaSharedMemConfig configuration) {
    CUfunction function;
    FIND(entry, &function);
    return (unsigned int)configuration <= cudaSharedMemBankSizeEightByte
               ? cudaSuccess
               : state_result(cudaErrorInvalidValue);
}

#if CUDART_VERSION >= 12030
cudaError_t cudaFuncGetName(const char **name, const void *entry) {
    CUfunction function;
    FIND(entry, &function);
    return DRIVER(driver.cuFuncGetName(name, function));
}
#endif

#if CUDART_VERSION >= 12040
cudaError_t cudaFuncGetParamInfo(const void *entry, size_t index, size_t *offset, size_t *size) {
    CUfunction function;
    FIND(entry, &function);
    return DRIVER(driver.cuFuncGetParamInfo(function, index, offset, size));
}
#endif

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *entry,
                                                                   int block, size_t shared,
                                                                   unsigned int flags) {
    CUfunction function;
    FIND(entry, &function);
    return DRIVER(driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks, function, block, shared, flags));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *entry, int block,
                                                          size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, entry, block, shared,
                                                                  cudaOccupancyDefault);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared, const void *entry, int blocks,
                                                      int block) {
    CUfunction function;
    FIND(entry, &function);
    return DRIVER(driver.cuOccupancyAvailableDynamicSMemPerBlock(shared, function, blocks, block));
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *entry,
                                                 const cudaLaunchConfig_t *configuration) {
    CUfunction function;
    FIND(entry, &function);
    if (!configuration || configuration->dynamicSmemBytes > UINT_MAX)
        return state_result(cudaErrorInvalidValue);
    CUlaunchConfig of_driver = launch_configuration(configuration);
    return DRIVER(driver.cuOccupancyMaxPotentialClusterSize(size, function, &of_driver));
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *entry,
                                           const cudaLaunchConfig_t *configuration) {
    CUfunction function;
    FIND(entry, &function);
    if (!configuration || configuration->dynamicSmemBytes > UINT_MAX)
        return state_result(cudaErrorInvalidValue);
    CUlaunchConfig of_driver = launch_configuration(configuration);
    return DRIVER(driver.cuOccupancyMaxActiveClusters(clusters, function, &of_driver));
}
