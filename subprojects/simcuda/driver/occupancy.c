/* How many blocks of a kernel fit on a multiprocessor: by its threads, blocks, registers and shared
 * memory, as the device's attributes say. */
#include "kernel_attributes.h"
#include "library.h"
#include "lock.h"
#include "module.h"
#include "settings.h"
#include "stream.h"

#include <limits.h>

enum { WARPS_UNIT = 4 };    /* a multiprocessor's quarters have warps and registers of their own */
enum { SHARED_UNIT = 128 }; /* bytes */
enum { CLUSTER_PORTABLE = 8, CLUSTER_MOST = 16 }; /* blocks */

/* What counts of a kernel, read with the lock and used without it. */
struct needs {
    size_t threads; /* the most in a block */
    size_t registers;
    size_t shared;
    size_t dynamic; /* the most that a launch may add to it */
};

static struct needs needs_of(const struct CUfunc_st *function) {
    return (struct needs){
        (size_t)kernel_attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        (size_t)kernel_attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS),
        (size_t)kernel_attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
        (size_t)kernel_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)};
}

static size_t limit(CUdevice_attribute attribute) {
    return (size_t)device_attribute(attribute, 0); /* the devices are alike */
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t by_warps(const struct needs *needs, size_t block_size) {
    size_t warp = limit(CU_DEVICE_ATTRIBUTE_WARP_SIZE), warps = (block_size + warp - 1) / warp;
    size_t room = limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / warp;
    size_t with_registers = limit(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR) /
                            (size_t)kernel_warp_registers((int)needs->registers) / WARPS_UNIT *
                            WARPS_UNIT;

    return least(room, with_registers) / warps;
}

static size_t by_shared(const struct needs *needs, size_t dynamic) {
    size_t taken =
        needs->shared + dynamic + limit(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);

    taken = (taken + SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT;
    return taken != 0 ? limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / taken
                      : SIZE_MAX;
}

/* 0: such a launch would be refused. */
static size_t active_blocks(const struct needs *needs, size_t block_size, size_t dynamic) {
    if (block_size > needs->threads || dynamic > needs->dynamic)
        return 0;
    return least(limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
                 least(by_warps(needs, block_size), by_shared(needs, dynamic)));
}

static CUresult read_needs(CUfunction handle, struct needs *needs) {
    struct CUfunc_st *function;
    CUresult result;

    sim_lock();
    result = kernel_of_handle(handle, &function);
    if (result == CUDA_SUCCESS)
        *needs = needs_of(function);
    sim_unlock();
    return result;
}

/* CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE changes nothing where caches take no registers' place. */
static CUresult max_active_blocks(int *count, CUfunction function, int block_size, size_t dynamic,
                                  unsigned int flags) {
    struct needs needs;
    CUresult result;

    if (count == NULL || block_size <= 0 || (flags & ~1u) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = read_needs(function, &needs);
    if (result == CUDA_SUCCESS)
        *count = (int)active_blocks(&needs, (size_t)block_size, dynamic);
    return result;
}

SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction function,
                                                                int block_size, size_t dynamic) {
    ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    return max_active_blocks(count, function, block_size, dynamic, CU_OCCUPANCY_DEFAULT);
}

SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *count, CUfunction function, int block_size, size_t dynamic, unsigned int flags) {
    ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
    return max_active_blocks(count, function, block_size, dynamic, flags);
}

/* The block size with the most threads on a multiprocessor, the largest of several. `dynamic_of` is
 * the program's and called without the lock. */
static CUresult potential_block_size(int *grid_size, int *block_size, CUfunction function,
                                     CUoccupancyB2DSize dynamic_of, size_t dynamic, int most,
                                     unsigned int flags) {
    const size_t warp = limit(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    size_t best = 0;
    struct needs needs;
    CUresult result;

    if (grid_size == NULL || block_size == NULL || most < 0 || (flags & ~1u) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = read_needs(function, &needs);
    if (result != CUDA_SUCCESS)
        return result;
    *grid_size = *block_size = 0;
    size_t size = most != 0 ? least((size_t)most, needs.threads) : needs.threads;
    for (; size != 0; size = (size - 1) / warp * warp) {
        size_t blocks =
            active_blocks(&needs, size, dynamic_of != NULL ? dynamic_of((int)size) : dynamic);

        if (blocks * size <= best)
            continue;
        best = blocks * size;
        *block_size = (int)size;
        *grid_size = (int)(blocks * limit(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    }
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *grid_size, int *block_size,
                                                     CUfunction function,
                                                     CUoccupancyB2DSize dynamic_of, size_t dynamic,
                                                     int most) {
    ENTER(cuOccupancyMaxPotentialBlockSize);
    return potential_block_size(grid_size, block_size, function, dynamic_of, dynamic, most,
                                CU_OCCUPANCY_DEFAULT);
}

SIM_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid_size, int *block_size,
                                                              CUfunction function,
                                                              CUoccupancyB2DSize dynamic_of,
                                                              size_t dynamic, int most,
                                                              unsigned int flags) {
    ENTER(cuOccupancyMaxPotentialBlockSizeWithFlags);
    return potential_block_size(grid_size, block_size, function, dynamic_of, dynamic, most, flags);
}

SIM_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamic, CUfunction function,
                                                            int blocks, int block_size) {
    struct needs needs;
    CUresult result;
    size_t room, taken;

    ENTER(cuOccupancyAvailableDynamicSMemPerBlock);
    if (dynamic == NULL || blocks <= 0 || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = read_needs(function, &needs);
    if (result != CUDA_SUCCESS)
        return result;
    if ((size_t)blocks > active_blocks(&needs, (size_t)block_size, 0))
        return CUDA_ERROR_INVALID_VALUE;
    room = limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / (size_t)blocks /
           SHARED_UNIT * SHARED_UNIT;
    taken = needs.shared + limit(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    *dynamic = least(room - taken, needs.dynamic);
    return CUDA_SUCCESS;
}

/* --- clusters --- */

/* What a configuration is about, where its stream runs. Lock held. */
static CUresult configured(const CUlaunchConfig *config, CUfunction handle,
                           struct CUfunc_st **function) {
    sim_check_held();
    struct CUstream_st *stream;
    CUresult result = stream_current(config->hStream, NULL_IS_LEGACY, &stream);

    return result == CUDA_SUCCESS ? library_resolve(handle, context_root(stream->context), function)
                                  : result;
}

/* The blocks of a cluster that the kernel requires; 0: it requires none. Lock held. */
static size_t required_cluster(const struct CUfunc_st *function) {
    sim_check_held();
    size_t size = 1;

    for (int i = 0; i < 3; i++)
        size *= (size_t)kernel_attribute(
            function, (CUfunction_attribute)(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i));
    return size;
}

/* Devices without clusters have those of one block (assumed). Lock held. */
static size_t largest_cluster(const struct CUfunc_st *function) {
    sim_check_held();
    if (limit(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0)
        return 1;
    return kernel_attribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) != 0
               ? CLUSTER_MOST
               : CLUSTER_PORTABLE;
}

/* 0: the configuration has none. */
static size_t configured_cluster(const CUlaunchConfig *config) {
    for (unsigned int i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            return (size_t)config->attrs[i].value.clusterDim.x *
                   config->attrs[i].value.clusterDim.y * config->attrs[i].value.clusterDim.z;
    return 0;
}

static bool is_configuration(const CUlaunchConfig *config) {
    return config != NULL && (config->numAttrs == 0 || config->attrs != NULL) &&
           config->blockDimX != 0 && config->blockDimY != 0 && config->blockDimZ != 0;
}

SIM_EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction handle,
                                                       const CUlaunchConfig *config) {
    struct CUfunc_st *function;
    CUresult result;

    ENTER(cuOccupancyMaxPotentialClusterSize);
    if (size == NULL || !is_configuration(config))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = configured(config, handle, &function);
    if (result == CUDA_SUCCESS) {
        size_t required = required_cluster(function);

        *size = (int)(required != 0 ? required : largest_cluster(function));
    }
    sim_unlock();
    return result;
}

/* As if any multiprocessors could hold one cluster together (assumed). Lock held. */
static CUresult max_active_clusters(int *count, const struct CUfunc_st *function,
                                    const CUlaunchConfig *config) {
    sim_check_held();
    const struct needs needs = needs_of(function);
    size_t required = required_cluster(function), size = configured_cluster(config);
    size_t block = (size_t)config->blockDimX * config->blockDimY * config->blockDimZ;

    if (size == 0 && required == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((size != 0 && required != 0 && size != required) ||
        (size != 0 ? size : required) > largest_cluster(function))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    *count = (int)(active_blocks(&needs, block, config->sharedMemBytes) *
                   limit(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) / (size != 0 ? size : required));
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction handle,
                                                 const CUlaunchConfig *config) {
    struct CUfunc_st *function;
    CUresult result;

    ENTER(cuOccupancyMaxActiveClusters);
    if (count == NULL || !is_configuration(config))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = configured(config, handle, &function);
    if (result == CUDA_SUCCESS)
        result = max_active_clusters(count, function, config);
    sim_unlock();
    return result;
}
