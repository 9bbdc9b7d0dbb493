/* Kernel launches. */
#include "launch.h"

#include "allocate.h"
#include "context.h"
#include "cost.h"
#include "image.h"
#include "interpret.h"
#include "kernels.h"
#include "library.h"
#include "lock.h"
#include "module.h"
#include "node_attributes.h"
#include "object_memory.h"
#include "report.h"
#include "settings.h"
#include "stream.h"

#include <stdlib.h>
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
    static const CUdevice_attribute most_blocks[] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                                                     CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                                     CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
    static const CUdevice_attribute most_threads[] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
                                                      CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                                                      CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};

    for (int i = 0; i < 3; i++)
        if (grid[i] == 0 || block[i] == 0 ||
            grid[i] > (unsigned int)device_attribute(most_blocks[i], 0) ||
            block[i] > (unsigned int)device_attribute(most_threads[i], 0))
            return false;
    return (uint64_t)block[0] * block[1] * block[2] <=
           (uint64_t)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0);
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

/* What a node answers, in place of what the program passed and may be gone. */
static void keep_told(struct kernel_call *call) {
    call->told.extra = NULL;
    call->told.kernelParams = call->kernel->parameter_count != 0 ? call->places : NULL;
    for (unsigned int i = 0; i < call->kernel->parameter_count; i++)
        call->places[i] = call->parameters + kernel_parameter_offset(call->kernel, i);
}

static void dispose(struct op *op) {
    free(op->as.kernel.attributes);
    free((void *)op->as.kernel.kept);
}

/* Room for the arguments of a kernel that has code; NULL: it has none. *bytes: of them all.
 */
static void **make_places(const struct CUfunc_st *function, size_t *count, size_t *bytes) {
    size_t offset, size;
    void **places;

    *bytes = 0;
    for (*count = 0; module_parameter(function, *count, &offset, &size); ++*count)
        *bytes = offset + size > *bytes ? offset + size : *bytes;
    if (*count == 0)
        return NULL;
    places = allocate_zeroed(*count * sizeof(void *) + *bytes);
    for (size_t i = 0; i < *count && module_parameter(function, i, &offset, &size); i++)
        places[i] = (unsigned char *)(places + *count) + offset;
    return places;
}

/* A kernel that is skipped does not look at its arguments: a program may ask a node for them. */
static void keep_arguments(struct op *op, const struct CUfunc_st *function, void **parameters) {
    size_t count, bytes, offset, size;
    void **places;

    if (function->kernel != &kernel_skipped || parameters == NULL)
        return;
    places = make_places(function, &count, &bytes);
    for (size_t i = 0; i < count && module_parameter(function, i, &offset, &size); i++)
        memcpy(places[i], parameters[i], size);
    op->as.kernel.kept = op->as.kernel.told.kernelParams = places;
}

/* What is behind CU_LAUNCH_PARAM_BUFFER_POINTER. NULL: not so much. */
static const void *extra_buffer(void **extra, size_t bytes) {
    const void *buffer = NULL;
    size_t size = 0;

    for (size_t i = 0; extra != NULL && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *)extra[i + 1];
    }
    return size >= bytes ? buffer : NULL;
}

/* A kernel that runs as its PTX says has them all. */
static CUresult take_arguments(struct kernel_call *call, const struct CUfunc_st *function,
                               void **parameters, void **extra) {
    size_t count, bytes, offset, size;
    const void *buffer;

    if (parameters != NULL && extra != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    call->kept = make_places(function, &count, &bytes);
    if (call->kept == NULL)
        return CUDA_SUCCESS;
    call->arguments = call->kept + count;
    buffer = extra_buffer(extra, bytes);
    if (parameters == NULL && buffer == NULL) {
        free((void *)call->kept);
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count && module_parameter(function, i, &offset, &size); i++)
        memcpy(call->kept[i],
               parameters != NULL ? parameters[i] : (const unsigned char *)buffer + offset, size);
    return CUDA_SUCCESS;
}

/* The kernel's own context is that of its module. */
static CUresult make_op(struct CUfunc_st *function, const CUDA_KERNEL_NODE_PARAMS_v2 *node,
                        bool cooperative, struct op **made) {
    struct kernel_call call = {.kernel = function->kernel, .told = *node, .function = function};
    if (call.kernel == &kernel_skipped)
        report_unserved(function->declared->name);
    CUresult result = call.kernel == &kernel_interpreted
                          ? take_arguments(&call, function, node->kernelParams, node->extra)
                          : take_parameters(&call, node->kernelParams, node->extra);
    struct op *op;

    if (result != CUDA_SUCCESS)
        return result;
    call.told.ctx = function->module->context;
    op =
        op_create(call.kernel == &kernel_interpreted ? interpret_name(function) : call.kernel->name,
                  call.kernel->run);
    op->node_type = CU_GRAPH_NODE_TYPE_KERNEL;
    op->dispose = dispose;
    function->loaded = true;
    op->as.kernel = call;
    keep_told(&op->as.kernel);
    if (call.kept != NULL)
        op->as.kernel.told.kernelParams = call.kept;
    op->as.kernel.cooperative = cooperative;
    if (function->runs != NULL && simt_uses_heap(function->module->program))
        op->as.kernel.heap = interpret_heap(function->module->context);
    op->is_overlapped = function->runs != NULL && simt_lets_dependents_begin(function->runs);
    call.kernel->declare(op);
    *made = op;
    return CUDA_SUCCESS;
}

CUresult launch_op(const CUDA_KERNEL_NODE_PARAMS_v2 *node, struct CUctx_st *context,
                   struct op **made) {
    sim_check_held();
    const unsigned int grid[] = {node->gridDimX, node->gridDimY, node->gridDimZ};
    const unsigned int block[] = {node->blockDimX, node->blockDimY, node->blockDimZ};
    struct CUfunc_st *function;
    CUresult result;

    if (!valid_shape(grid, block))
        return CUDA_ERROR_INVALID_VALUE;
    result = library_resolve(node->func != NULL ? node->func : (CUfunction)node->kern, context,
                             &function);
    if (result == CUDA_SUCCESS)
        result = check_needs(function, block, node->sharedMemBytes);
    if (result == CUDA_SUCCESS)
        result = make_op(function, node, false, made);
    if (result == CUDA_SUCCESS)
        keep_arguments(*made, function, node->kernelParams);
    return result;
}

/* What attributes say of a launch. */
struct launch_way {
    bool programmatic;
    bool cooperative; /* its blocks may wait for one another */
};

/* Whether the launch may overlap with the kernel before it. NOT_SUPPORTED: it also records an event
 * in its midst, which is not simulated. What changes nothing here is passed over. */
static CUresult read_attributes(const CUlaunchConfig *config, struct launch_way *way) {
    *way = (struct launch_way){false, false};
    if (config->numAttrs != 0 && config->attrs == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];

        if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            return entry_not_simulated("CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT");
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            way->programmatic = attribute->value.programmaticStreamSerializationAllowed != 0;
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            way->cooperative = attribute->value.cooperative != 0;
    }
    return CUDA_SUCCESS;
}

/* A launch as a node has it; the handle is replaced by the function that it denotes. */
static CUDA_KERNEL_NODE_PARAMS_v2 as_node(const CUlaunchConfig *config, CUfunction function,
                                          void **parameters, void **extra) {
    return (CUDA_KERNEL_NODE_PARAMS_v2){.func = function,
                                        .gridDimX = config->gridDimX,
                                        .gridDimY = config->gridDimY,
                                        .gridDimZ = config->gridDimZ,
                                        .blockDimX = config->blockDimX,
                                        .blockDimY = config->blockDimY,
                                        .blockDimZ = config->blockDimZ,
                                        .sharedMemBytes = config->sharedMemBytes,
                                        .kernelParams = parameters,
                                        .extra = extra};
}

/* What only a node needs to know. */
static void note_attributes(struct op *op, const CUlaunchConfig *config,
                            const struct CUstream_st *stream) {
    const CUlaunchAttributeValue priority = {.priority = stream->priority};

    op->as.kernel.attributes = node_attributes_of(config->attrs, config->numAttrs);
    if (stream->priority != 0)
        node_attributes_set(&op->as.kernel.attributes, CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority);
}

CUresult launch_kernel(CUfunction handle, const CUlaunchConfig *config, void **parameters,
                       void **extra, enum null_stream null_stream) {
    sim_check_none();
    struct CUstream_st *stream;
    struct CUfunc_st *function;
    struct op *op = NULL;
    struct launch_way how;
    CUresult result = config == NULL ? CUDA_ERROR_INVALID_VALUE : read_attributes(config, &how);

    if (result != CUDA_SUCCESS)
        return result;
    if (handle == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    const unsigned int grid[] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned int block[] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    if (!valid_shape(grid, block))
        return CUDA_ERROR_INVALID_VALUE;
    cost_spend(settings()->launch_ns);
    sim_lock();
    result = stream_current(config->hStream, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = library_resolve(handle, context_root(stream->context), &function);
    if (result == CUDA_SUCCESS)
        result = check_needs(function, block, config->sharedMemBytes);
    if (result == CUDA_SUCCESS) {
        CUDA_KERNEL_NODE_PARAMS_v2 node = as_node(config, function, parameters, extra);

        result = make_op(function, &node, how.cooperative, &op);
    }
    if (result == CUDA_SUCCESS && stream->capture == NULL)
        result = object_memory_launch(context_root(stream->context));
    if (result == CUDA_SUCCESS) {
        op->programmatic = how.programmatic;
        if (stream->capture != NULL) {
            note_attributes(op, config, stream);
            keep_arguments(op, function, parameters);
        }
        result = stream_run(stream, op, false);
    } else if (op != NULL) {
        op_drop(op);
    }
    sim_unlock();
    return result;
}

static CUresult launch_plain(CUfunction function, CUlaunchConfig config, bool cooperative,
                             void **parameters, void **extra, enum null_stream null_stream) {
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                   .value = {.cooperative = 1}};

    config.attrs = &attribute;
    config.numAttrs = cooperative ? 1 : 0;
    return launch_kernel(function, &config, parameters, extra, null_stream);
}

EXPORT_FORMS(cuLaunchKernel, _ptsz,
             (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
              unsigned int block_x, unsigned int block_y, unsigned int block_z,
              unsigned int shared_bytes, CUstream stream, void **parameters, void **extra),
             launch_plain(function,
                          (CUlaunchConfig){grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                           shared_bytes, stream, NULL, 0},
                          false, parameters, extra, null_stream))

EXPORT_FORMS(cuLaunchCooperativeKernel, _ptsz,
             (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
              unsigned int block_x, unsigned int block_y, unsigned int block_z,
              unsigned int shared_bytes, CUstream stream, void **parameters),
             launch_plain(function,
                          (CUlaunchConfig){grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                           shared_bytes, stream, NULL, 0},
                          true, parameters, NULL, null_stream))

EXPORT_FORMS(cuLaunchKernelEx, _ptsz,
             (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra),
             launch_kernel(function, config, parameters, extra, null_stream))
