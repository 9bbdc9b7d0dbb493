/* Kernels put into graphs by hand, cooperative launches, and what the driver tells of arguments. */
#include "test_sim.h"

static CUmodule module;
static CUfunction fill;

static int set_up(void **state) {
    int result = set_up_context(state);

    assert_ok(cuModuleLoadData(&module, kernels_ptx));
    assert_ok(cuModuleGetFunction(&fill, module, "fill_u32"));
    return result;
}

/* A node that fills a word: its parameters live as long as the struct. */
struct filling {
    CUdeviceptr to;
    uint64_t count;
    uint32_t value;
    void *parameters[3];
    CUDA_KERNEL_NODE_PARAMS_v2 node;
};

static CUDA_KERNEL_NODE_PARAMS_v2 *fill_node(struct filling *filling, CUdeviceptr to,
                                             uint32_t value) {
    *filling = (struct filling){.to = to, .count = 1, .value = value};
    filling->parameters[0] = &filling->to;
    filling->parameters[1] = &filling->count;
    filling->parameters[2] = &filling->value;
    filling->node = (CUDA_KERNEL_NODE_PARAMS_v2){.func = fill,
                                                 .gridDimX = 1,
                                                 .gridDimY = 1,
                                                 .gridDimZ = 1,
                                                 .blockDimX = 1,
                                                 .blockDimY = 1,
                                                 .blockDimZ = 1,
                                                 .kernelParams = filling->parameters};
    return &filling->node;
}

static uint32_t run(CUgraphExec executable, CUdeviceptr word) {
    uint32_t value;

    assert_ok(cuGraphLaunch(executable, NULL));
    assert_ok(cuMemcpyDtoH_v2(&value, word, sizeof value));
    return value;
}

static void test_nodes_run_behind_what_they_depend_on(void **state) {
    struct filling first, second;
    CUgraphNode one, other;
    CUgraphExec executable;
    CUdeviceptr word;
    CUgraph graph;
    size_t count = 0;

    (void)state;
    assert_ok(cuMemAlloc_v2(&word, 4096));
    assert_ok(cuGraphCreate(&graph, 0));
    assert_ok(cuGraphAddKernelNode_v2(&one, graph, NULL, 0, fill_node(&first, word, 5)));
    assert_ok(cuGraphAddKernelNode_v2(&other, graph, &one, 1, fill_node(&second, word, 6)));
    assert_ok(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 2);
    first.value = second.value = 9; /* arguments were copied */
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_int_equal(run(executable, word), 6);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuMemFree_v2(word));
}

static void test_a_changed_node_is_another_kernel(void **state) {
    struct filling filling;
    CUgraphExec before, after;
    CUgraphNode node;
    CUdeviceptr word;
    CUgraph graph;

    (void)state;
    assert_ok(cuMemAlloc_v2(&word, 4096));
    assert_ok(cuGraphCreate(&graph, 0));
    assert_ok(cuGraphAddKernelNode(
        &node, graph, NULL, 0, (CUDA_KERNEL_NODE_PARAMS_v1 *)(void *)fill_node(&filling, word, 5)));
    assert_ok(cuGraphInstantiateWithFlags(&before, graph, 0));
    assert_ok(cuGraphKernelNodeSetParams_v2(node, fill_node(&filling, word, 6)));
    assert_ok(cuGraphInstantiateWithFlags(&after, graph, 0));
    assert_int_equal(run(before, word), 5);
    assert_int_equal(run(after, word), 6);
    assert_ok(cuGraphExecKernelNodeSetParams_v2(before, node, fill_node(&filling, word, 7)));
    assert_int_equal(run(before, word), 7);
    assert_int_equal(run(after, word), 6);
    assert_ok(cuGraphExecDestroy(before));
    assert_ok(cuGraphExecDestroy(after));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuMemFree_v2(word));
}

static void test_nodes_that_cannot_be(void **state) {
    struct filling filling;
    CUgraphNode node, none = NULL;
    CUgraph graph;

    (void)state;
    fill_node(&filling, 0, 0);
    assert_ok(cuGraphCreate(&graph, 0));
    assert_int_equal(cuGraphAddKernelNode_v2(&node, NULL, NULL, 0, &filling.node),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddKernelNode_v2(&node, graph, &none, 1, &filling.node),
                     CUDA_ERROR_INVALID_VALUE);
    filling.node.gridDimX = 0;
    assert_int_equal(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &filling.node),
                     CUDA_ERROR_INVALID_VALUE);
    filling.node.gridDimX = 1;
    filling.node.func = NULL;
    assert_int_equal(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &filling.node),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuGraphKernelNodeSetParams_v2(none, &filling.node), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
}

static void test_a_cooperative_launch_is_one(void **state) {
    struct filling filling;
    CUdeviceptr word;
    uint32_t value;

    (void)state;
    assert_ok(cuMemAlloc_v2(&word, 4096));
    fill_node(&filling, word, 8);
    assert_ok(cuLaunchCooperativeKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, filling.parameters));
    assert_ok(cuMemcpyDtoH_v2(&value, word, sizeof value));
    assert_int_equal(value, 8);
    assert_ok(cuMemFree_v2(word));
}

static void test_the_driver_tells_of_arguments(void **state) {
    size_t offset, size, count;
    CUlibrary library;
    CUkernel kernel;

    (void)state;
    assert_ok(cuFuncGetParamInfo(fill, 2, &offset, &size));
    assert_int_equal(offset, 16);
    assert_int_equal(size, 4);
    assert_ok(cuFuncGetParamInfo(fill, 1, &offset, NULL));
    assert_int_equal(offset, 8);
    assert_int_equal(cuFuncGetParamInfo(fill, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuFuncGetParamCount(fill, &count));
    assert_int_equal(count, 3);
    assert_int_equal(cuFuncGetParamCount(fill, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernel(&kernel, library, "fill_u32"));
    assert_int_equal(cuFuncGetParamInfo((CUfunction)kernel, 0, &offset, &size),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuFuncGetParamCount((CUfunction)kernel, &count), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuKernelGetParamInfo(kernel, 2, &offset, &size));
    assert_int_equal(size, 4);
    count = 0;
    assert_ok(cuKernelGetParamCount(kernel, &count));
    assert_int_equal(count, 3);
    assert_ok(cuLibraryUnload(library));
    assert_int_equal(cuKernelGetParamCount(kernel, &count), CUDA_ERROR_INVALID_HANDLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_run_behind_what_they_depend_on),
        cmocka_unit_test(test_a_changed_node_is_another_kernel),
        cmocka_unit_test(test_nodes_that_cannot_be),
        cmocka_unit_test(test_a_cooperative_launch_is_one),
        cmocka_unit_test(test_the_driver_tells_of_arguments),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
