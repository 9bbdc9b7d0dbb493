/* Launches in the way of CUDA 3: block, shared memory and parameters are set for the function,
 * and then it is launched. */
#include "allocate.h"
#include "launch.h"
#include "lock.h"
#include "module.h"
#include "texture.h"

#include <string.h>

/* What was set for a function, that launches by state alone look at. Invariant: size <= sizeof
 * parameters. */
struct launch_state {
    unsigned int block[3];
    unsigned int shared_bytes;
    size_t size; /* of the parameters */
    unsigned char parameters[4096];
};

/* INVALID_HANDLE: it is no function. Lock not held on
 * entry; for CUDA_SUCCESS it is the caller's on return. */
static CUresult begin(CUfunction handle, struct launch_state **state) {
    sim_check_none();
    struct CUfunc_st *function;

    sim_lock();
    function = module_find_function(handle);
    if (function == NULL || function->module->context == NULL) {
        sim_unlock();
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (function->launch_state == NULL)
        function->launch_state = allocate_zeroed(sizeof *function->launch_state);
    *state = function->launch_state;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
    struct launch_state *state;
    CUresult result;

    ENTER(cuFuncSetBlockShape);
    if (x <= 0 || y <= 0 || z <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = begin(function, &state);
    if (result != CUDA_SUCCESS)
        return result;
    state->block[0] = (unsigned int)x;
    state->block[1] = (unsigned int)y;
    state->block[2] = (unsigned int)z;
    sim_unlock();
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncSetSharedSize(CUfunction function, unsigned int bytes) {
    struct launch_state *state;
    CUresult result;

    ENTER(cuFuncSetSharedSize);
    result = begin(function, &state);
    if (result != CUDA_SUCCESS)
        return result;
    state->shared_bytes = bytes;
    sim_unlock();
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuParamSetSize(CUfunction function, unsigned int bytes) {
    struct launch_state *state;
    CUresult result;

    ENTER(cuParamSetSize);
    if (bytes > sizeof state->parameters)
        return CUDA_ERROR_INVALID_VALUE;
    result = begin(function, &state);
    if (result != CUDA_SUCCESS)
        return result;
    state->size = bytes;
    sim_unlock();
    return CUDA_SUCCESS;
}

static CUresult set_parameter(CUfunction function, int offset, const void *value, size_t size) {
    struct launch_state *state;
    CUresult result;

    if (value == NULL || offset < 0 || size > sizeof state->parameters ||
        (size_t)offset > sizeof state->parameters - size)
        return CUDA_ERROR_INVALID_VALUE;
    result = begin(function, &state);
    if (result != CUDA_SUCCESS)
        return result;
    memcpy(state->parameters + offset, value, size);
    sim_unlock();
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuParamSeti(CUfunction function, int offset, unsigned int value) {
    ENTER(cuParamSeti);
    return set_parameter(function, offset, &value, sizeof value);
}

SIM_EXPORT CUresult cuParamSetf(CUfunction function, int offset, float value) {
    ENTER(cuParamSetf);
    return set_parameter(function, offset, &value, sizeof value);
}

SIM_EXPORT CUresult cuParamSetv(CUfunction function, int offset, void *value, unsigned int size) {
    ENTER(cuParamSetv);
    return set_parameter(function, offset, value, size);
}

/* A module's textures are its kernels' anyway. */
SIM_EXPORT CUresult cuParamSetTexRef(CUfunction function, int unit, CUtexref texture) {
    struct launch_state *state;
    CUresult result;

    ENTER(cuParamSetTexRef);
    if (unit != CU_PARAM_TR_DEFAULT)
        return CUDA_ERROR_INVALID_VALUE;
    result = begin(function, &state);
    if (result != CUDA_SUCCESS)
        return result;
    result =
        texture_is_of_module(texture, function->module) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return result;
}

static CUresult launch(CUfunction function, int width, int height, CUstream stream,
                       enum null_stream null_stream) {
    struct launch_state *state, copy;
    CUresult result;

    if (width <= 0 || height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = begin(function, &state);
    if (result != CUDA_SUCCESS)
        return result;
    copy = *state;
    sim_unlock();
    return launch_kernel(function,
                         &(CUlaunchConfig){.gridDimX = (unsigned int)width,
                                           .gridDimY = (unsigned int)height,
                                           .gridDimZ = 1,
                                           .blockDimX = copy.block[0],
                                           .blockDimY = copy.block[1],
                                           .blockDimZ = copy.block[2],
                                           .sharedMemBytes = copy.shared_bytes,
                                           .hStream = stream},
                         NULL,
                         (void *[]){CU_LAUNCH_PARAM_BUFFER_POINTER, copy.parameters,
                                    CU_LAUNCH_PARAM_BUFFER_SIZE, &copy.size, CU_LAUNCH_PARAM_END},
                         null_stream);
}

SIM_EXPORT CUresult cuLaunch(CUfunction function) {
    ENTER(cuLaunch);
    return launch(function, 1, 1, NULL, NULL_IS_LEGACY);
}

SIM_EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height) {
    ENTER(cuLaunchGrid);
    return launch(function, width, height, NULL, NULL_IS_LEGACY);
}

SIM_EXPORT CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
    ENTER(cuLaunchGridAsync);
    return launch(function, width, height, stream, NULL_IS_LEGACY);
}
