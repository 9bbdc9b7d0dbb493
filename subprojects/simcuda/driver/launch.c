/* Kernel launches. */
#include "launch.h"
#include "context.h"
#include "cost.h"
#include "image.h"
#include "kernels.h"
#include "library.h"
#include "lock.h"
#include "module.h"
#include "object_memory.h"
#include "report.h"
#include "settings.h"
#include "stream.h"

#include <string.h>

/* Copies the parameters out of either of the forms that cuLaunchKernel takes. */
static CUresult take_parameters(struct kernel_call *call, void **parameters, void **extra) {
    const struct builtin_kernel *kernel = call->kernel;
    const void *buffer = NULL;
    size_t size = 0;

    if (kernel->parameter_count == 0)
        return CUDA_SUCCESS;
    if (parameters != NULL) {
        if (extra != NULL)
            return CUDA_ERROR_INVALID_VALUE;
        for (unsigned int i = 0; i < kernel->parameter_count; i++)
            memcpy(call->parameters + kernel_parameter_offset(kernel, i), parameters[i],
                   kernel->parameter_sizes[i]);
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; extra != NULL && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *)extra[i + 1];
    }
    if (buffer == NULL || size > KERNEL_PARAMETER_BYTES ||
        size < kernel_parameter_offset(kernel, kernel->parameter_count - 1) +
                   kernel->parameter_sizes[kernel->parameter_count - 1])
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(call->parameters, buffer, size);
    return CUDA_SUCCESS;
}

static bool valid_shape(const unsigned int grid[3], const unsigned int block[3]) {
    for (int i = 0; i < 3; i++)
        if (grid[i] == 0 || block[i] == 0 || block[i] > 1024)
            return false;
    return (uint64_t)block[0] * block[1] * block[2] <= 1024;
}

/* A block may be neither larger than the kernel allows nor take more shared memory than it was set
 * to. INVALID_VALUE for either. */
static CUresult check_needs(const struct CUfunc_st *function, const unsigned int block[3],
                            unsigned int shared_bytes) {
    unsigned int threads = block[0] * block[1] * block[2];

    return threads > (unsigned int)kernel_attribute(function,
                                                    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) ||
                   shared_bytes > (unsigned int)kernel_attribute(
                                      function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

static CUresult make_op(struct CUfunc_st *function, void **parameters, void **extra,
                        struct op **made) {
    struct kernel_call call = {.kernel = function->kernel};
    if (call.kernel == &kernel_skipped)
        report_unserved(function->declared->name);
    CUresult result = take_parameters(&call, parameters, extra);
    struct op *op;

    if (result != CUDA_SUCCESS)
        return result;
    op = op_create(call.kernel->name, call.kernel->run);
    function->loaded = true;
    op->as.kernel = call;
    op->is_overlapped = call.kernel->is_overlapped;
    call.kernel->declare(op);
    *made = op;
    return CUDA_SUCCESS;
}

CUresult launch_op(CUfunction handle, struct CUctx_st *context,
                   const CUDA_KERNEL_NODE_PARAMS_v1 *node, struct op **made) {
    sim_check_held();
    const unsigned int grid[] = {node->gridDimX, node->gridDimY, node->gridDimZ};
    const unsigned int block[] = {node->blockDimX, node->blockDimY, node->blockDimZ};
    struct CUfunc_st *function;
    CUresult result;

    if (!valid_shape(grid, block))
        return CUDA_ERROR_INVALID_VALUE;
    result = library_resolve(handle, context, &function);
    if (result == CUDA_SUCCESS)
        result = check_needs(function, block, node->sharedMemBytes);
    return result == CUDA_SUCCESS ? make_op(function, node->kernelParams, node->extra, made)
                                  : result;
}

CUresult launch_kernel(const struct launch_request *request, enum null_stream null_stream) {
    sim_check_none();
    struct CUstream_st *stream;
    struct CUfunc_st *function;
    struct op *op = NULL;
    CUresult result;

    if (request->function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!valid_shape(request->grid, request->block))
        return CUDA_ERROR_INVALID_VALUE;
    cost_spend(settings()->launch_ns);
    sim_lock();
    result = stream_current(request->stream, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = library_resolve(request->function, context_root(stream->context), &function);
    if (result == CUDA_SUCCESS)
        result = check_needs(function, request->block, request->shared_bytes);
    if (result == CUDA_SUCCESS)
        result = make_op(function, request->parameters, request->extra, &op);
    if (result == CUDA_SUCCESS && stream->capture == NULL)
        result = object_memory_launch(context_root(stream->context));
    if (result == CUDA_SUCCESS) {
        op->programmatic = request->programmatic;
        result = stream_run(stream, op, false);
    } else if (op != NULL) {
        op_drop(op);
    }
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuLaunchKernel, _ptsz,
             (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
              unsigned int block_x, unsigned int block_y, unsigned int block_z,
              unsigned int shared_bytes, CUstream stream, void **parameters, void **extra),
             launch_kernel(&(struct launch_request){.function = function,
                                                    .grid = {grid_x, grid_y, grid_z},
                                                    .block = {block_x, block_y, block_z},
                                                    .shared_bytes = shared_bytes,
                                                    .stream = stream,
                                                    .parameters = parameters,
                                                    .extra = extra},
                           null_stream))

EXPORT_FORMS(cuLaunchCooperativeKernel, _ptsz,
             (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
              unsigned int block_x, unsigned int block_y, unsigned int block_z,
              unsigned int shared_bytes, CUstream stream, void **parameters),
             launch_kernel(&(struct launch_request){.function = function,
                                                    .grid = {grid_x, grid_y, grid_z},
                                                    .block = {block_x, block_y, block_z},
                                                    .shared_bytes = shared_bytes,
                                                    .stream = stream,
                                                    .parameters = parameters},
                           null_stream))

/* Whether the launch may overlap with the kernel before it. NOT_SUPPORTED: it also records an event
 * in its midst, which is not simulated. What changes nothing here is passed over. */
static CUresult read_attributes(const CUlaunchConfig *config, bool *programmatic) {
    *programmatic = false;
    if (config->numAttrs != 0 && config->attrs == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];

        if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            return entry_not_simulated("CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT");
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            *programmatic = attribute->value.programmaticStreamSerializationAllowed != 0;
    }
    return CUDA_SUCCESS;
}

static CUresult launch_configured(const CUlaunchConfig *config, CUfunction function,
                                  void **parameters, void **extra, enum null_stream null_stream) {
    bool programmatic;
    CUresult result =
        config == NULL ? CUDA_ERROR_INVALID_VALUE : read_attributes(config, &programmatic);

    if (result != CUDA_SUCCESS)
        return result;
    return launch_kernel(
        &(struct launch_request){.function = function,
                                 .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                                 .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                                 .shared_bytes = config->sharedMemBytes,
                                 .stream = config->hStream,
                                 .programmatic = programmatic,
                                 .parameters = parameters,
                                 .extra = extra},
        null_stream);
}

EXPORT_FORMS(cuLaunchKernelEx, _ptsz,
             (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra),
             launch_configured(config, function, parameters, extra, null_stream))
