/* What the tests of graphs share: graphs of fills and sums of single words. */
#ifndef SIMCUDA_TEST_GRAPH_H
#define SIMCUDA_TEST_GRAPH_H

#include "test_sim.h"

static inline CUdeviceptr allocate_word(void) {
    CUdeviceptr word;

    assert_ok(cuMemAlloc_v2(&word, 4096));
    assert_ok(cuMemsetD32_v2(word, 0, 1024));
    return word;
}

static inline uint32_t read_word(CUdeviceptr word) {
    uint32_t value;

    assert_ok(cuMemcpyDtoH_v2(&value, word, sizeof value));
    return value;
}

static inline CUgraph create_graph(void) {
    CUgraph graph;

    assert_ok(cuGraphCreate(&graph, 0));
    return graph;
}

static inline CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec executable;

    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
}

static inline CUgraphNode add_empty(CUgraph graph) {
    CUgraphNode node;

    assert_ok(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    return node;
}

static inline CUDA_KERNEL_NODE_PARAMS_v2 kernel_node(const char *name, void **parameters) {
    return (CUDA_KERNEL_NODE_PARAMS_v2){.func = test_kernel(name),
                                        .gridDimX = 1,
                                        .gridDimY = 1,
                                        .gridDimZ = 1,
                                        .blockDimX = 32,
                                        .blockDimY = 1,
                                        .blockDimZ = 1,
                                        .kernelParams = parameters};
}

/* A kernel that sets a word, behind `after` if that is not NULL. */
static inline CUgraphNode add_fill(CUgraph graph, CUgraphNode after, CUdeviceptr to,
                                   uint32_t value) {
    uint64_t count = 1;
    CUDA_KERNEL_NODE_PARAMS_v2 parameters =
        kernel_node("fill_u32", (void *[]){&to, &count, &value});
    CUgraphNode node;

    assert_ok(cuGraphAddKernelNode_v2(&node, graph, &after, after != NULL ? 1 : 0, &parameters));
    return node;
}

static inline CUDA_MEMSET_NODE_PARAMS_v1 memset_node(CUdeviceptr to, uint32_t value) {
    return (CUDA_MEMSET_NODE_PARAMS_v1){
        .dst = to, .value = value, .elementSize = 4, .width = 1, .height = 1};
}

static inline CUDA_MEMCPY3D copy_node(CUdeviceptr to, CUdeviceptr from) {
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .WidthInBytes = 4,
                           .Height = 1,
                           .Depth = 1};
}

static inline void run_graph(CUgraphExec executable) {
    assert_ok(cuGraphLaunch(executable, NULL));
    assert_ok(cuStreamSynchronize(NULL));
}

/* Instantiates, runs once, and destroys both. */
static inline void run_once(CUgraph graph) {
    CUgraphExec executable = instantiate(graph);

    run_graph(executable);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
}

#endif
