/* Graphs as a whole: their edges, copies of them, circles, and the file that shows them. */
#include "test_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUdeviceptr word;

static void test_edges_are_told(void **state) {
    CUgraph graph = create_graph();
    CUgraphNode first = add_empty(graph), second = add_empty(graph), third, nodes[3], to[3];
    size_t count = 0;

    (void)state;
    assert_ok(cuGraphAddEmptyNode(&third, graph, (CUgraphNode[]){second, first}, 2));
    assert_ok(cuGraphGetEdges(graph, NULL, NULL, &count));
    assert_int_equal(count, 2);
    count = 3;
    assert_ok(cuGraphGetEdges(graph, nodes, to, &count));
    assert_int_equal(count, 2);
    assert_ptr_equal(nodes[0], second);
    assert_ptr_equal(nodes[1], first);
    assert_ptr_equal(to[0], third);
    assert_null(nodes[2]);
    assert_null(to[2]);
    count = 3;
    assert_ok(cuGraphGetRootNodes(graph, nodes, &count));
    assert_int_equal(count, 2);
    assert_ptr_equal(nodes[0], first);
    count = 1;
    assert_ok(cuGraphNodeGetDependencies(third, nodes, &count)); /* as many as there is room for */
    assert_int_equal(count, 1);
    assert_ptr_equal(nodes[0], second);
    assert_ok(cuGraphNodeGetDependentNodes(first, NULL, &count));
    assert_int_equal(count, 1);
    assert_ok(cuGraphNodeGetDependentNodes(first, nodes, &count));
    assert_ptr_equal(nodes[0], third);
    assert_int_equal(cuGraphGetEdges(graph, nodes, NULL, &count), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphGetEdges(graph, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
    assert_int_equal(cuGraphNodeGetDependencies(third, NULL, &count), CUDA_ERROR_INVALID_VALUE);
}

static void test_edges_are_added_and_removed(void **state) {
    CUgraph graph = create_graph(), elsewhere = create_graph();
    CUgraphNode first = add_fill(graph, NULL, word, 1), second = add_fill(graph, NULL, word, 2);
    CUgraphNode stranger = add_empty(elsewhere);
    size_t count;

    (void)state;
    assert_ok(cuGraphAddDependencies(graph, NULL, NULL, 0));
    assert_ok(cuGraphAddDependencies(graph, &second, &first, 1)); /* against their creation */
    assert_int_equal(cuGraphAddDependencies(graph, &second, &first, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddDependencies(graph, &first, &first, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddDependencies(graph, &stranger, &first, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphRemoveDependencies(graph, &first, &second, 1),
                     CUDA_ERROR_INVALID_VALUE);
    /* all or none */
    assert_int_equal(cuGraphRemoveDependencies(graph, (CUgraphNode[]){second, first},
                                               (CUgraphNode[]){first, second}, 2),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphGetEdges(graph, NULL, NULL, &count));
    assert_int_equal(count, 1);
    run_once(graph);
    assert_int_equal(read_word(word), 1);
    assert_ok(cuGraphDestroy(elsewhere));
}

#if CUDA_VERSION >= 12030
static void test_programmatic_edges_are_between_kernels(void **state) {
    CUgraph graph = create_graph();
    CUgraphNode first = add_fill(graph, NULL, word, 1), second = add_fill(graph, NULL, word, 2);
    CUgraphNode empty = add_empty(graph), node;
    CUgraphEdgeData data = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                            .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC},
                    told, wrong = {.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    size_t count = 1;

    (void)state;
    assert_int_equal(cuGraphAddDependencies_v2(graph, &first, &empty, &data, 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddDependencies_v2(graph, &first, &second, &wrong, 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphAddDependencies_v2(graph, &first, &second, &data, 1));
    assert_int_equal(cuGraphNodeGetDependencies(second, &node, &count), CUDA_ERROR_LOSSY_QUERY);
    assert_int_equal(cuGraphNodeGetDependencies_v2(second, NULL, &told, &count),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphNodeGetDependencies_v2(second, &node, &told, &count));
    assert_memory_equal(&told, &data, sizeof data);
    assert_ok(cuGraphNodeGetDependentNodes_v2(first, &node, &told, &count));
    assert_ptr_equal(node, second);
    assert_ok(cuGraphGetEdges_v2(graph, &first, &node, &told, &count));
    assert_int_equal(cuGraphRemoveDependencies(graph, &first, &second, 1),
                     CUDA_ERROR_INVALID_VALUE); /* a plain one is not there */
    assert_ok(cuGraphRemoveDependencies_v2(graph, &first, &second, &data, 1));
    assert_ok(cuGraphDestroy(graph));
}
#endif

static void test_a_circle_cannot_be_instantiated(void **state) {
    CUgraph graph = create_graph(), outer = create_graph();
    CUgraphNode first = add_empty(graph), second, failed = NULL, nested;
    CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {.flags = 0};
    CUgraphExec executable;

    (void)state;
    assert_ok(cuGraphAddEmptyNode(&second, graph, &first, 1));
    assert_ok(cuGraphAddDependencies(graph, &second, &first, 1));
    assert_int_equal(cuGraphInstantiateWithParams(&executable, graph, &parameters),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(parameters.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    assert_true(parameters.hErrNode_out == first || parameters.hErrNode_out == second);
    assert_int_equal(cuGraphInstantiate_v2(&executable, graph, &failed, NULL, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_non_null(failed);
    assert_ok(cuGraphAddChildGraphNode(&nested, outer, NULL, 0, graph));
    assert_int_equal(cuGraphInstantiateWithFlags(&executable, outer, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphRemoveDependencies(graph, &second, &first, 1));
    assert_ok(cuGraphInstantiateWithParams(&executable, graph, &parameters));
    assert_int_equal(parameters.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    assert_null(parameters.hErrNode_out);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(outer));
}

static void test_a_long_chain_against_its_creation(void **state) {
    enum { LENGTH = 20000 };
    CUgraph graph = create_graph();
    CUgraphNode before = add_fill(graph, NULL, word, 1), last = before;

    (void)state;
    for (int i = 1; i < LENGTH; i++) {
        CUgraphNode node = i + 1 == LENGTH ? add_fill(graph, NULL, word, 2) : add_empty(graph);

        assert_ok(cuGraphAddDependencies(graph, &node, &last, 1));
        last = node;
    }
    run_once(graph);
    assert_int_equal(read_word(word), 1);
}

static void test_a_removed_node_takes_its_edges_along(void **state) {
    CUgraph graph = create_graph();
    CUgraphNode first = add_fill(graph, NULL, word, 1), second = add_fill(graph, first, word, 2);
    CUgraphNode third = add_fill(graph, second, word, 3);
    size_t count;

    (void)state;
    assert_ok(cuGraphDestroyNode(second));
    assert_int_equal(cuGraphDestroyNode(second), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 2);
    assert_ok(cuGraphGetEdges(graph, NULL, NULL, &count));
    assert_int_equal(count, 0);
    assert_ok(cuGraphAddDependencies(graph, &third, &first, 1));
    run_once(graph);
    assert_int_equal(read_word(word), 1);
}

static void test_a_clone_goes_its_own_way(void **state) {
    CUgraph graph = create_graph(), child = create_graph(), clone, second;
    CUgraphNode fill = add_fill(child, NULL, word, 4), nested, node, found, in_child;
    CUgraphExec executable;
    size_t count = 1;

    (void)state;
    assert_ok(cuGraphAddChildGraphNode(&nested, graph, NULL, 0, child));
    assert_ok(cuGraphClone(&clone, graph));
    assert_ok(cuGraphNodeFindInClone(&found, nested, clone));
    assert_ptr_not_equal(found, nested);
    assert_int_equal(cuGraphNodeFindInClone(&node, found, graph), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphNodeFindInClone(&node, fill, clone), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphChildGraphNodeGetGraph(nested, &second));
    assert_ok(cuGraphGetNodes(second, &in_child, &count));
    assert_ok(cuGraphNodeFindInClone(&node, in_child, clone)); /* in graphs in it, too */
    add_fill(clone, found, word, 5);
    run_once(graph);
    assert_int_equal(read_word(word), 4);
    executable = instantiate(clone);
    assert_ok(cuGraphDestroyNode(found));
    assert_int_equal(cuGraphNodeFindInClone(&node, nested, clone), CUDA_ERROR_INVALID_VALUE);
    run_graph(executable);
    assert_int_equal(read_word(word), 5);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(clone));
    assert_ok(cuGraphDestroy(child));
}

/* Where the graph's file of its nodes has them, too. */
static void assert_printed(CUgraph graph, const char *expected) {
    char path[] = "/tmp/simcuda-graph-XXXXXX", text[4096];
    int descriptor = mkstemp(path);
    size_t length;
    FILE *file;

    assert_true(descriptor >= 0);
    assert_ok(cuGraphDebugDotPrint(graph, path, 0));
    file = fdopen(descriptor, "re");
    assert_non_null(file);
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    unlink(path);
    text[length] = '\0';
    assert_non_null(strstr(text, expected));
}

static void test_graphs_and_nodes_have_numbers(void **state) {
    CUgraph graph = create_graph(), child = create_graph(), copy, containing;
    CUgraphNode first = add_empty(graph), nested, inner;
    unsigned int id, copy_id, executable_id, local, inner_local;
    unsigned long long tools, inner_tools;
    CUgraphExec executable;
    size_t count = 1;
    char name[64];

    (void)state;
    add_fill(child, NULL, word, 1);
    assert_ok(cuGraphAddChildGraphNode(&nested, graph, &first, 1, child));
    assert_ok(cuGraphChildGraphNodeGetGraph(nested, &copy));
    assert_ok(cuGraphGetNodes(copy, &inner, &count));
    assert_ok(cuGraphGetId(graph, &id));
    assert_ok(cuGraphGetId(copy, &copy_id));
    assert_int_not_equal(id, copy_id);
    assert_ok(cuGraphNodeGetContainingGraph(inner, &containing));
    assert_ptr_equal(containing, copy);
    assert_ok(cuGraphNodeGetContainingGraph(nested, &containing));
    assert_ptr_equal(containing, graph);
    assert_ok(cuGraphNodeGetLocalId(nested, &local));
    snprintf(name, sizeof name, "\"graph_%u_node_%u\"", id, local);
    assert_printed(graph, name);
    assert_ok(cuGraphNodeGetLocalId(inner, &inner_local));
    snprintf(name, sizeof name, "\"graph_%u_node_%u\"", copy_id, inner_local);
    assert_printed(graph, name);
    assert_ok(cuGraphNodeGetToolsId(nested, &tools));
    assert_ok(cuGraphNodeGetToolsId(inner, &inner_tools));
    assert_true(tools != inner_tools);
    executable = instantiate(graph);
    assert_ok(cuGraphExecGetId(executable, &executable_id));
    assert_int_not_equal(executable_id, id);
    assert_ok(cuGraphExecDestroy(executable));
    assert_int_equal(cuGraphExecGetId(executable, &id), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphGetId(graph, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphNodeGetLocalId(nested, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(child));
    assert_int_equal(cuGraphGetId(graph, &id), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphNodeGetToolsId(nested, &tools), CUDA_ERROR_INVALID_VALUE);
}

static void test_a_graph_is_printed(void **state) {
    char path[] = "/tmp/simcuda-graph-XXXXXX", text[4096];
    int descriptor = mkstemp(path);
    CUgraph graph = create_graph();
    CUgraphNode node;
    size_t length;
    FILE *file;

    (void)state;
    assert_true(descriptor >= 0);
    close(descriptor);
    assert_ok(cuGraphAddEmptyNode(&node, graph, &(CUgraphNode){add_fill(graph, NULL, word, 1)}, 1));
    assert_ok(cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    file = fopen(path, "re");
    assert_non_null(file);
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    assert_non_null(strstr(text, "digraph dot {"));
    assert_non_null(strstr(text, "fill_u32"));
    assert_non_null(strstr(text, "->"));
    assert_int_equal(cuGraphDebugDotPrint(graph, "/nowhere/at/all", 0),
                     CUDA_ERROR_OPERATING_SYSTEM);
    assert_int_equal(cuGraphDebugDotPrint(graph, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
    unlink(path);
}

static int set_up(void **state) {
    int result = set_up_context(state);

    word = allocate_word();
    return result;
}

static int tear_down(void **state) {
    assert_ok(cuMemFree_v2(word));
    return tear_down_context(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges_are_told),
        cmocka_unit_test(test_edges_are_added_and_removed),
#if CUDA_VERSION >= 12030
        cmocka_unit_test(test_programmatic_edges_are_between_kernels),
#endif
        cmocka_unit_test(test_a_circle_cannot_be_instantiated),
        cmocka_unit_test(test_a_long_chain_against_its_creation),
        cmocka_unit_test(test_a_removed_node_takes_its_edges_along),
        cmocka_unit_test(test_a_clone_goes_its_own_way),
        cmocka_unit_test(test_graphs_and_nodes_have_numbers),
        cmocka_unit_test(test_a_graph_is_printed),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
