/* Launches: of what <<<>>> became, and by name. Each has a form whose default stream is the
 * thread's own. */
#include "forms.h"
#include "registered.h"

#include <limits.h>
#include <stdlib.h>

/* What stands between <<< and >>>, from the push until the kernel's host function pops it. */
struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    struct configuration *below;
};

static _Thread_local struct configuration *configurations;

/* The caller leaves out the kernel's host function if this is not 0. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     struct CUstream_st *stream) {
    struct configuration *pushed = malloc(sizeof *pushed);

    if (!pushed) {
        state_result(cudaErrorMemoryAllocation);
        return 1;
    }
    *pushed = (struct configuration){grid, block, shared, stream, configurations};
    configurations = pushed;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    struct configuration *pushed = configurations;

    if (!pushed)
        return state_result(cudaErrorMissingConfiguration);
    *grid = pushed->grid;
    *block = pushed->block;
    *shared = pushed->shared;
    *(cudaStream_t *)stream = pushed->stream;
    configurations = pushed->below;
    free(pushed);
    return cudaSuccess;
}

static int attribute_of_device(CUdevice_attribute attribute) {
    int value = INT_MAX;

    driver.cuDeviceGetAttribute(&value, attribute, state_device());
    return value;
}

#define LIMIT(attribute) ((unsigned int)attribute_of_device(CU_DEVICE_ATTRIBUTE_MAX_##attribute))

/* Whether no kernel at all could be launched so. */
static bool is_no_configuration(dim3 grid, dim3 block) {
    return !grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z ||
           grid.x > LIMIT(GRID_DIM_X) || grid.y > LIMIT(GRID_DIM_Y) || grid.z > LIMIT(GRID_DIM_Z) ||
           block.x > LIMIT(BLOCK_DIM_X) || block.y > LIMIT(BLOCK_DIM_Y) ||
           block.z > LIMIT(BLOCK_DIM_Z) ||
           (unsigned long long)block.x * block.y * block.z > LIMIT(THREADS_PER_BLOCK);
}

/* The driver has one code for all that is wrong with a launch, the runtime three. */
static cudaError_t launched(CUresult result, const void *entry, dim3 grid, dim3 block) {
    if (result == CUDA_ERROR_INVALID_HANDLE) {
        CUfunction function;
        cudaError_t of_entry = registered_function(entry, &function);

        return state_result(of_entry != cudaSuccess ? of_entry : cudaErrorInvalidResourceHandle);
    }
    if (result == CUDA_ERROR_INVALID_VALUE && is_no_configuration(grid, block))
        return state_result(cudaErrorInvalidConfiguration);
    return state_result((cudaError_t)result);
}

/* What to launch: the kernel itself, which a driver takes for its function in the current context
 * (cuLaunchKernel). A call that asks for the function may load it, and so may wait. */
static cudaError_t found(const void *entry, size_t shared, CUfunction *function) {
    CUkernel kernel = NULL;
    cudaError_t result = state_enter();

    if (result == cudaSuccess && shared > UINT_MAX)
        result = cudaErrorInvalidValue;
    if (result == cudaSuccess)
        result = registered_kernel(entry, &kernel);
    *function = (CUfunction)kernel;
    return result;
}

static cudaError_t launch(const void *entry, dim3 grid, dim3 block, void **arguments, size_t shared,
                          cudaStream_t stream, bool per_thread) {
    CUfunction function;
    cudaError_t result = found(entry, shared, &function);

    if (result != cudaSuccess)
        return state_result(result);
    return launched(driver.cuLaunchKernel[per_thread](function, grid.x, grid.y, grid.z, block.x,
                                                      block.y, block.z, (unsigned int)shared,
                                                      stream, arguments, NULL),
                    entry, grid, block);
}

static cudaError_t launch_cooperative(const void *entry, dim3 grid, dim3 block, void **arguments,
                                      size_t shared, cudaStream_t stream, bool per_thread) {
    CUfunction function;
    cudaError_t result = found(entry, shared, &function);

    if (result != cudaSuccess)
        return state_result(result);
    return launched(driver.cuLaunchCooperativeKernel[per_thread](
                        function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                        (unsigned int)shared, stream, arguments),
                    entry, grid, block);
}

/* Both interfaces number attributes of launches alike and lay them out alike [driver_types.h,
 * cuda.h]. */
_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "one layout");

CUlaunchConfig launch_configuration(const cudaLaunchConfig_t *from) {
    return (CUlaunchConfig){.gridDimX = from->gridDim.x,
                            .gridDimY = from->gridDim.y,
                            .gridDimZ = from->gridDim.z,
                            .blockDimX = from->blockDim.x,
                            .blockDimY = from->blockDim.y,
                            .blockDimZ = from->blockDim.z,
                            .sharedMemBytes = (unsigned int)from->dynamicSmemBytes,
                            .hStream = from->stream,
                            .attrs = (CUlaunchAttribute *)from->attrs,
                            .numAttrs = from->numAttrs};
}

static cudaError_t launch_configured(const cudaLaunchConfig_t *configuration, const void *entry,
                                     void **arguments, bool per_thread) {
    CUfunction function;

    if (!configuration)
        return state_result(cudaErrorInvalidValue);
    cudaError_t result = found(entry, configuration->dynamicSmemBytes, &function);
    if (result != cudaSuccess)
        return state_result(result);
    CUlaunchConfig of_driver = launch_configuration(configuration);
    return launched(driver.cuLaunchKernelEx[per_thread](&of_driver, function, arguments, NULL),
                    entry, configuration->gridDim, configuration->blockDim);
}

FORMS(cudaLaunchKernel, _ptsz,
      (const void *entry, dim3 grid, dim3 block, void **arguments, size_t shared,
       cudaStream_t stream),
      launch(entry, grid, block, arguments, shared, stream, per_thread))
FORMS(__cudaLaunchKernel, _ptsz,
      (cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
       cudaStream_t stream),
      launch(kernel, grid, block, arguments, shared, stream, per_thread))
FORMS(cudaLaunchCooperativeKernel, _ptsz,
      (const void *entry, dim3 grid, dim3 block, void **arguments, size_t shared,
       cudaStream_t stream),
      launch_cooperative(entry, grid, block, arguments, shared, stream, per_thread))
FORMS(cudaLaunchKernelExC, _ptsz,
      (const cudaLaunchConfig_t *configuration, const void *entry, void **arguments),
      launch_configured(configuration, entry, arguments, per_thread))
