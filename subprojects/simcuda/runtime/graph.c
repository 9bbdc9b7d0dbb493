/* Graphs that the program builds itself. Nodes and graphs are the driver's. */
#include "copy_3d.h"
#include "forms.h"
#include "registered.h"

#include <string.h>

/* What stands before a node's own parameters in every function that adds one. */
#define PLACE                                                                                      \
    cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count
#define PLACE_ARGUMENTS node, graph, dependencies, count

/* --- kernels: the program names one by the host's function --- */

static cudaError_t kernel_to_driver(const struct cudaKernelNodeParams *kernel,
                                    CUDA_KERNEL_NODE_PARAMS_v2 *of_driver) {
    memset(of_driver, 0, sizeof *of_driver);
    if (!kernel)
        return cudaErrorInvalidValue;
    of_driver->gridDimX = kernel->gridDim.x;
    of_driver->gridDimY = kernel->gridDim.y;
    of_driver->gridDimZ = kernel->gridDim.z;
    of_driver->blockDimX = kernel->blockDim.x;
    of_driver->blockDimY = kernel->blockDim.y;
    of_driver->blockDimZ = kernel->blockDim.z;
    of_driver->sharedMemBytes = kernel->sharedMemBytes;
    of_driver->kernelParams = kernel->kernelParams;
    of_driver->extra = kernel->extra;
    return registered_function(kernel->func, &of_driver->func);
}

cudaError_t cudaGraphAddKernelNode(PLACE, const struct cudaKernelNodeParams *kernel) {
    CUDA_KERNEL_NODE_PARAMS_v2 of_driver;
    ENTER();
    cudaError_t found = kernel_to_driver(kernel, &of_driver);
    return found != cudaSuccess ? state_result(found)
                                : DRIVER(driver.cuGraphAddKernelNode(PLACE_ARGUMENTS, &of_driver));
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaKernelNodeParams *kernel) {
    CUDA_KERNEL_NODE_PARAMS_v2 of_driver;
    ENTER();
    cudaError_t found = kernel_to_driver(kernel, &of_driver);
    return found != cudaSuccess ? state_result(found)
                                : DRIVER(driver.cuGraphKernelNodeSetParams(node, &of_driver));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *kernel) {
    CUDA_KERNEL_NODE_PARAMS_v2 of_driver;
    ENTER();
    cudaError_t found = kernel_to_driver(kernel, &of_driver);
    return found != cudaSuccess
               ? state_result(found)
               : DRIVER(driver.cuGraphExecKernelNodeSetParams(executable, node, &of_driver));
}

/* The function comes back as the driver's, which a program can hand on to a node as it is. */
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                         struct cudaKernelNodeParams *kernel) {
    CUDA_KERNEL_NODE_PARAMS_v2 of_driver;
    ENTER();
    if (!kernel)
        return state_result(cudaErrorInvalidValue);
    CUresult result = driver.cuGraphKernelNodeGetParams(node, &of_driver);
    if (result != CUDA_SUCCESS)
        return DRIVER(result);
    *kernel = (struct cudaKernelNodeParams){
        .func = (void *)registered_entry(of_driver.func, of_driver.kern),
        .gridDim = {of_driver.gridDimX, of_driver.gridDimY, of_driver.gridDimZ},
        .blockDim = {of_driver.blockDimX, of_driver.blockDimY, of_driver.blockDimZ},
        .sharedMemBytes = of_driver.sharedMemBytes,
        .kernelParams = of_driver.kernelParams,
        .extra = of_driver.extra};
    return cudaSuccess;
}

#define ATTRIBUTE_VALUE(value) ((CUlaunchAttributeValue *)(uintptr_t)(value))

FORWARD(cudaGraphKernelNodeGetAttribute,
        (cudaGraphNode_t node, cudaKernelNodeAttrID attribute, cudaKernelNodeAttrValue *value),
        driver.cuGraphKernelNodeGetAttribute(node, (CUlaunchAttributeID)attribute,
                                             ATTRIBUTE_VALUE(value)))
FORWARD(cudaGraphKernelNodeSetAttribute,
        (cudaGraphNode_t node, cudaKernelNodeAttrID attribute,
         const cudaKernelNodeAttrValue *value),
        driver.cuGraphKernelNodeSetAttribute(node, (CUlaunchAttributeID)attribute,
                                             ATTRIBUTE_VALUE(value)))
/* CUDA 12 names the parameters the other way round and means the same. */
FORWARD(cudaGraphKernelNodeCopyAttributes, (cudaGraphNode_t to, cudaGraphNode_t from),
        driver.cuGraphKernelNodeCopyAttributes(to, from))

/* --- copies --- */

static cudaError_t add_copy(PLACE, const struct cudaMemcpy3DParms *copy) {
    CUDA_MEMCPY3D of_driver;
    CUcontext context;
    ENTER();
    if (!copy)
        return state_result(cudaErrorInvalidValue);
    cudaError_t described = copy_3d_to_driver(copy, &of_driver);
    if (described != cudaSuccess)
        return state_result(described);
    CUresult result = driver.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS)
        result = driver.cuGraphAddMemcpyNode(PLACE_ARGUMENTS, &of_driver, context);
    return DRIVER(result);
}

/* `executable`: NULL for the node of a graph. */
static cudaError_t set_copy(cudaGraphExec_t executable, cudaGraphNode_t node,
                            const struct cudaMemcpy3DParms *copy) {
    CUDA_MEMCPY3D of_driver;
    CUcontext context;
    ENTER();
    if (!copy)
        return state_result(cudaErrorInvalidValue);
    cudaError_t described = copy_3d_to_driver(copy, &of_driver);
    if (described != cudaSuccess)
        return state_result(described);
    if (!executable)
        return DRIVER(driver.cuGraphMemcpyNodeSetParams(node, &of_driver));
    CUresult result = driver.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS)
        result = driver.cuGraphExecMemcpyNodeSetParams(executable, node, &of_driver, context);
    return DRIVER(result);
}

cudaError_t cudaGraphAddMemcpyNode(PLACE, const struct cudaMemcpy3DParms *copy) {
    return add_copy(PLACE_ARGUMENTS, copy);
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaMemcpy3DParms *copy) {
    return set_copy(NULL, node, copy);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const struct cudaMemcpy3DParms *copy) {
    return set_copy(executable, node, copy);
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *copy) {
    CUDA_MEMCPY3D of_driver;
    ENTER();
    if (!copy)
        return state_result(cudaErrorInvalidValue);
    CUresult result = driver.cuGraphMemcpyNodeGetParams(node, &of_driver);
    if (result == CUDA_SUCCESS)
        copy_3d_from_driver(&of_driver, copy);
    return DRIVER(result);
}

cudaError_t cudaGraphAddMemcpyNode1D(PLACE, void *to, const void *from, size_t bytes,
                                     enum cudaMemcpyKind kind) {
    struct cudaMemcpy3DParms copy = copy_3d_of_row(to, from, bytes, kind);
    return add_copy(PLACE_ARGUMENTS, &copy);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from,
                                           size_t bytes, enum cudaMemcpyKind kind) {
    struct cudaMemcpy3DParms copy = copy_3d_of_row(to, from, bytes, kind);
    return set_copy(NULL, node, &copy);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable, cudaGraphNode_t node,
                                               void *to, const void *from, size_t bytes,
                                               enum cudaMemcpyKind kind) {
    struct cudaMemcpy3DParms copy = copy_3d_of_row(to, from, bytes, kind);
    return set_copy(executable, node, &copy);
}

/* The part of a variable that a copy means. */
static cudaError_t part_of_symbol(const void *symbol, size_t offset, size_t bytes, void **part) {
    CUdeviceptr address;
    size_t size;
    cudaError_t result = state_enter();

    if (result == cudaSuccess)
        result = registered_variable(symbol, &address, &size);
    if (result != cudaSuccess)
        return result;
    *part = (void *)(address + offset);
    return offset <= size && bytes <= size - offset ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(PLACE, const void *symbol, const void *from,
                                           size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    void *to;
    cudaError_t found = part_of_symbol(symbol, offset, bytes, &to);
    return found != cudaSuccess ? state_result(found)
                                : cudaGraphAddMemcpyNode1D(PLACE_ARGUMENTS, to, from, bytes, kind);
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(PLACE, void *to, const void *symbol, size_t bytes,
                                             size_t offset, enum cudaMemcpyKind kind) {
    void *from;
    cudaError_t found = part_of_symbol(symbol, offset, bytes, &from);
    return found != cudaSuccess ? state_result(found)
                                : cudaGraphAddMemcpyNode1D(PLACE_ARGUMENTS, to, from, bytes, kind);
}

/* --- fills and calls of the host: described alike in both interfaces --- */

_Static_assert(sizeof(struct cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS), "one layout");
_Static_assert(sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS), "one layout");

cudaError_t cudaGraphAddMemsetNode(PLACE, const struct cudaMemsetParams *fill) {
    CUcontext context;
    ENTER();
    CUresult result = driver.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS)
        result = driver.cuGraphAddMemsetNode(PLACE_ARGUMENTS, (const CUDA_MEMSET_NODE_PARAMS *)fill,
                                             context);
    return DRIVER(result);
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const struct cudaMemsetParams *fill) {
    CUcontext context;
    ENTER();
    CUresult result = driver.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS)
        result = driver.cuGraphExecMemsetNodeSetParams(
            executable, node, (const CUDA_MEMSET_NODE_PARAMS *)fill, context);
    return DRIVER(result);
}

FORWARD(cudaGraphMemsetNodeGetParams, (cudaGraphNode_t node, struct cudaMemsetParams *fill),
        driver.cuGraphMemsetNodeGetParams(node, (CUDA_MEMSET_NODE_PARAMS *)fill))
FORWARD(cudaGraphMemsetNodeSetParams, (cudaGraphNode_t node, const struct cudaMemsetParams *fill),
        driver.cuGraphMemsetNodeSetParams(node, (const CUDA_MEMSET_NODE_PARAMS *)fill))
FORWARD(cudaGraphAddHostNode, (PLACE, const struct cudaHostNodeParams *call),
        driver.cuGraphAddHostNode(PLACE_ARGUMENTS, (const CUDA_HOST_NODE_PARAMS *)call))
FORWARD(cudaGraphHostNodeGetParams, (cudaGraphNode_t node, struct cudaHostNodeParams *call),
        driver.cuGraphHostNodeGetParams(node, (CUDA_HOST_NODE_PARAMS *)call))
FORWARD(cudaGraphHostNodeSetParams, (cudaGraphNode_t node, const struct cudaHostNodeParams *call),
        driver.cuGraphHostNodeSetParams(node, (const CUDA_HOST_NODE_PARAMS *)call))
FORWARD(cudaGraphExecHostNodeSetParams,
        (cudaGraphExec_t executable, cudaGraphNode_t node, const struct cudaHostNodeParams *call),
        driver.cuGraphExecHostNodeSetParams(executable, node, (const CUDA_HOST_NODE_PARAMS *)call))

/* --- other nodes --- */

FORWARD(cudaGraphAddEmptyNode, (PLACE), driver.cuGraphAddEmptyNode(PLACE_ARGUMENTS))
FORWARD(cudaGraphAddChildGraphNode, (PLACE, cudaGraph_t child),
        driver.cuGraphAddChildGraphNode(PLACE_ARGUMENTS, child))
FORWARD(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t *graph),
        driver.cuGraphChildGraphNodeGetGraph(node, graph))
FORWARD(cudaGraphExecChildGraphNodeSetParams,
        (cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraph_t child),
        driver.cuGraphExecChildGraphNodeSetParams(executable, node, child))
FORWARD(cudaGraphAddEventRecordNode, (PLACE, cudaEvent_t event),
        driver.cuGraphAddEventRecordNode(PLACE_ARGUMENTS, event))
FORWARD(cudaGraphAddEventWaitNode, (PLACE, cudaEvent_t event),
        driver.cuGraphAddEventWaitNode(PLACE_ARGUMENTS, event))
FORWARD(cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *event),
        driver.cuGraphEventRecordNodeGetEvent(node, event))
FORWARD(cudaGraphEventRecordNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
        driver.cuGraphEventRecordNodeSetEvent(node, event))
FORWARD(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *event),
        driver.cuGraphEventWaitNodeGetEvent(node, event))
FORWARD(cudaGraphEventWaitNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
        driver.cuGraphEventWaitNodeSetEvent(node, event))
FORWARD(cudaGraphExecEventRecordNodeSetEvent,
        (cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event),
        driver.cuGraphExecEventRecordNodeSetEvent(executable, node, event))
FORWARD(cudaGraphExecEventWaitNodeSetEvent,
        (cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event),
        driver.cuGraphExecEventWaitNodeSetEvent(executable, node, event))

_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS),
               "one layout");

FORWARD(cudaGraphAddMemAllocNode, (PLACE, struct cudaMemAllocNodeParams *allocation),
        driver.cuGraphAddMemAllocNode(PLACE_ARGUMENTS, (CUDA_MEM_ALLOC_NODE_PARAMS *)allocation))
FORWARD(cudaGraphMemAllocNodeGetParams,
        (cudaGraphNode_t node, struct cudaMemAllocNodeParams *allocation),
        driver.cuGraphMemAllocNodeGetParams(node, (CUDA_MEM_ALLOC_NODE_PARAMS *)allocation))
FORWARD(cudaGraphAddMemFreeNode, (PLACE, void *pointer),
        driver.cuGraphAddMemFreeNode(PLACE_ARGUMENTS, (CUdeviceptr)pointer))
FORWARD(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void *pointer),
        driver.cuGraphMemFreeNodeGetParams(node, pointer))
