/* User objects: they are destroyed once nobody refers to them any more, on another thread. */
#include "test_graph.h"

#include <limits.h>
#include <pthread.h>
#include <time.h>

/* What an object's destruction leaves. */
struct end {
    int destroyed; /* how often */
    pthread_t thread;
    CUresult answer; /* of a call of CUDA's there */
};

static void destroy(void *data) {
    struct end *end = data;

    end->thread = pthread_self();
    end->answer = cuCtxSynchronize();
    __atomic_store_n(&end->destroyed, end->destroyed + 1, __ATOMIC_RELEASE);
}

static CUuserObject create(struct end *end, unsigned int references) {
    CUuserObject object;

    *end = (struct end){.destroyed = 0};
    assert_ok(
        cuUserObjectCreate(&object, end, destroy, references, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return object;
}

static bool is_destroyed(struct end *end) {
    return __atomic_load_n(&end->destroyed, __ATOMIC_ACQUIRE) != 0;
}

static void wait_for(struct end *end) {
    const struct timespec pause = {.tv_nsec = 100000};

    while (!is_destroyed(end))
        nanosleep(&pause, NULL);
    assert_int_equal(end->destroyed, 1);
}

/* Objects are destroyed one after another: one that was not destroyed before another one is not. */
static void assert_not_destroyed(struct end *end) {
    struct end other;

    assert_ok(cuUserObjectRelease(create(&other, 1), 1));
    wait_for(&other);
    assert_false(is_destroyed(end));
}

static void test_the_last_reference_counts(void **state) {
    struct end end;
    CUuserObject object = create(&end, 2);

    (void)state;
    assert_ok(cuUserObjectRetain(object, 3));
    assert_ok(cuUserObjectRelease(object, 4));
    assert_not_destroyed(&end);
    assert_ok(cuUserObjectRelease(object, 1));
    wait_for(&end);
    assert_false(pthread_equal(end.thread, pthread_self()));
    assert_int_equal(end.answer, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
}

static void test_objects_that_cannot_be(void **state) {
    struct end end;
    CUuserObject object;
    CUgraph graph = create_graph();

    (void)state;
    assert_int_equal(cuUserObjectCreate(&object, &end, destroy, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuUserObjectCreate(&object, &end, NULL, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuUserObjectCreate(&object, &end, destroy, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
        CUDA_ERROR_INVALID_VALUE);
    object = create(&end, 1);
    assert_int_equal(cuUserObjectRetain(object, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuUserObjectRetain(object, (unsigned int)INT_MAX + 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuUserObjectRelease(object, 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphRetainUserObject(graph, object, 1, 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphRetainUserObject(NULL, object, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphReleaseUserObject(graph, object, 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuUserObjectRelease(object, 1));
    wait_for(&end);
    assert_ok(cuGraphDestroy(graph));
}

static void test_graphs_retain_and_release(void **state) {
    struct end end;
    CUuserObject object = create(&end, 1);
    CUgraph graph = create_graph(), clone;

    (void)state;
    assert_ok(cuGraphRetainUserObject(graph, object, 2, 0));
    assert_ok(cuUserObjectRelease(object, 1));
    assert_ok(cuGraphReleaseUserObject(graph, object, 1));
    assert_int_equal(cuGraphReleaseUserObject(graph, object, 2), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphClone(&clone, graph));
    assert_ok(cuGraphReleaseUserObject(graph, object, 1));
    assert_not_destroyed(&end);
    assert_ok(cuGraphDestroy(clone));
    wait_for(&end);
    assert_ok(cuGraphDestroy(graph));
}

static void test_a_reference_moves_into_a_graph(void **state) {
    struct end end;
    CUuserObject object = create(&end, 1);
    CUgraph graph = create_graph();

    (void)state;
    assert_ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    assert_not_destroyed(&end);
    assert_ok(cuGraphDestroy(graph));
    wait_for(&end);
}

static void test_a_launch_under_way_keeps_it(void **state) {
    CUdeviceptr word = allocate_word();
    struct end end;
    CUuserObject object = create(&end, 1);
    CUgraph graph = create_graph();
    CUgraphExec executable;
    struct gate gate;
    CUstream stream;

    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    add_fill(graph, NULL, word, 1);
    assert_ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    executable = instantiate(graph);
    assert_ok(cuGraphDestroy(graph));
    assert_not_destroyed(&end);
    gate = gate_close(stream);
    assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuGraphExecDestroy(executable));
    assert_not_destroyed(&end);
    gate_open(gate);
    assert_ok(cuStreamSynchronize(stream));
    wait_for(&end);
    gate_remove(gate);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuMemFree_v2(word));
}

static void test_an_update_replaces_references(void **state) {
    struct end first, second;
    CUgraph graph = create_graph(), next = create_graph();
    CUgraphExecUpdateResultInfo info;
    CUgraphExec executable;

    (void)state;
    assert_ok(cuGraphRetainUserObject(graph, create(&first, 1), 1, CU_GRAPH_USER_OBJECT_MOVE));
    assert_ok(cuGraphRetainUserObject(next, create(&second, 1), 1, CU_GRAPH_USER_OBJECT_MOVE));
    executable = instantiate(graph);
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphExecUpdate_v2(executable, next, &info));
    wait_for(&first);
    assert_ok(cuGraphDestroy(next));
    assert_not_destroyed(&second);
    assert_ok(cuGraphExecDestroy(executable));
    wait_for(&second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_reference_counts),
        cmocka_unit_test(test_objects_that_cannot_be),
        cmocka_unit_test(test_graphs_retain_and_release),
        cmocka_unit_test(test_a_reference_moves_into_a_graph),
        cmocka_unit_test(test_a_launch_under_way_keeps_it),
        cmocka_unit_test(test_an_update_replaces_references),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
