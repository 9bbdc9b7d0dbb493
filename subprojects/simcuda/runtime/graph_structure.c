/* What a graph consists of, its copies, and its executable form. */
#include "forms.h"

FORWARD(cudaGraphClone, (cudaGraph_t * clone, cudaGraph_t graph), driver.cuGraphClone(clone, graph))
FORWARD(cudaGraphNodeFindInClone,
        (cudaGraphNode_t * node, cudaGraphNode_t original, cudaGraph_t clone),
        driver.cuGraphNodeFindInClone(node, original, clone))
FORWARD(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *type),
        driver.cuGraphNodeGetType(node, (CUgraphNodeType *)type))
FORWARD(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
        driver.cuGraphGetNodes(graph, nodes, count))
FORWARD(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
        driver.cuGraphGetRootNodes(graph, nodes, count))
FORWARD(cudaGraphDestroyNode, (cudaGraphNode_t node), driver.cuGraphDestroyNode(node))

#if CUDART_VERSION >= 13000 /* CUDA 12 has edges without data by these names */
FORWARD(cudaGraphGetEdges,
        (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *data,
         size_t *count),
        driver.cuGraphGetEdges(graph, from, to, (CUgraphEdgeData *)data, count))
FORWARD(cudaGraphNodeGetDependencies,
        (cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *data, size_t *count),
        driver.cuGraphNodeGetDependencies(node, nodes, (CUgraphEdgeData *)data, count))
FORWARD(cudaGraphNodeGetDependentNodes,
        (cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *data, size_t *count),
        driver.cuGraphNodeGetDependentNodes(node, nodes, (CUgraphEdgeData *)data, count))
FORWARD(cudaGraphAddDependencies,
        (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
         const cudaGraphEdgeData *data, size_t count),
        driver.cuGraphAddDependencies(graph, from, to, (const CUgraphEdgeData *)data, count))
FORWARD(cudaGraphRemoveDependencies,
        (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
         const cudaGraphEdgeData *data, size_t count),
        driver.cuGraphRemoveDependencies(graph, from, to, (const CUgraphEdgeData *)data, count))
#else
FORWARD(cudaGraphGetEdges,
        (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count),
        driver.cuGraphGetEdges(graph, from, to, count))
FORWARD(cudaGraphNodeGetDependencies, (cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count),
        driver.cuGraphNodeGetDependencies(node, nodes, count))
FORWARD(cudaGraphNodeGetDependentNodes,
        (cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count),
        driver.cuGraphNodeGetDependentNodes(node, nodes, count))
FORWARD(cudaGraphAddDependencies,
        (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count),
        driver.cuGraphAddDependencies(graph, from, to, count))
FORWARD(cudaGraphRemoveDependencies,
        (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count),
        driver.cuGraphRemoveDependencies(graph, from, to, count))
#endif

_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS),
               "one layout");

FORWARD_FORMS(cudaGraphInstantiateWithParams, _ptsz,
              (cudaGraphExec_t * executable, cudaGraph_t graph, cudaGraphInstantiateParams *how),
              driver.cuGraphInstantiateWithParams[per_thread](executable, graph,
                                                              (CUDA_GRAPH_INSTANTIATE_PARAMS *)how))
FORWARD(cudaGraphExecGetFlags, (cudaGraphExec_t executable, unsigned long long *flags),
        driver.cuGraphExecGetFlags(executable, (cuuint64_t *)flags))
FORWARD(cudaGraphExecUpdate,
        (cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info),
        driver.cuGraphExecUpdate(executable, graph, (CUgraphExecUpdateResultInfo *)info))
FORWARD(cudaGraphNodeSetEnabled,
        (cudaGraphExec_t executable, cudaGraphNode_t node, unsigned int enabled),
        driver.cuGraphNodeSetEnabled(executable, node, enabled))
FORWARD(cudaGraphNodeGetEnabled,
        (cudaGraphExec_t executable, cudaGraphNode_t node, unsigned int *enabled),
        driver.cuGraphNodeGetEnabled(executable, node, enabled))
FORWARD(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char *path, unsigned int flags),
        driver.cuGraphDebugDotPrint(graph, path, flags))

/* --- memory of graphs, and what programs give them to keep --- */

FORWARD(cudaDeviceGraphMemTrim, (int device), driver.cuDeviceGraphMemTrim(device))
FORWARD(cudaDeviceGetGraphMemAttribute,
        (int device, enum cudaGraphMemAttributeType attribute, void *value),
        driver.cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value))
FORWARD(cudaDeviceSetGraphMemAttribute,
        (int device, enum cudaGraphMemAttributeType attribute, void *value),
        driver.cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value))
FORWARD(cudaUserObjectCreate,
        (cudaUserObject_t * object, void *data, cudaHostFn_t destroy, unsigned int references,
         unsigned int flags),
        driver.cuUserObjectCreate(object, data, destroy, references, flags))
FORWARD(cudaUserObjectRetain, (cudaUserObject_t object, unsigned int count),
        driver.cuUserObjectRetain(object, count))
FORWARD(cudaUserObjectRelease, (cudaUserObject_t object, unsigned int count),
        driver.cuUserObjectRelease(object, count))
FORWARD(cudaGraphRetainUserObject,
        (cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags),
        driver.cuGraphRetainUserObject(graph, object, count, flags))
FORWARD(cudaGraphReleaseUserObject,
        (cudaGraph_t graph, cudaUserObject_t object, unsigned int count),
        driver.cuGraphReleaseUserObject(graph, object, count))
