/* The detector knows what kernels access that run as their PTX says: nobody declares it. What is
 * not theirs faults. */
#include "test_ptx.h"

#include "simcuda.h"

#include <unistd.h>

/* `k` writes where its argument points to, `reads` reads there; `behind` finds the address in
 * memory; `waits` writes once a word that stands before is not 0. */
static const char text[] = PTX_HEAD
    ".extern .func nobodys();\n"
    ".func recurse()\n{\n.local .b8 own[1024];\ncall recurse, ();\nret;\n}\n" PTX_KERNEL(
        "k", "", "st.global.u32 [%out], %t;\n") PTX_KERNEL("reads", ".reg .u32 %r;\n",
                                                           "ld.global.u32 %r, [%out];\n")
        PTX_KERNEL("behind", ".reg .u64 %l;\n", "ld.global.u64 %l, [%base]; st.u32 [%l+64], 1;\n")
            PTX_KERNEL("far", "", "st.global.u32 [%out+1048576], %t;\n")
                PTX_KERNEL("odd", "", "st.global.u32 [%out+2], %t;\n")
                    PTX_KERNEL("beyond", ".shared .u32 area;\n", "st.shared.u32 [area+4096], 1;\n")
                        PTX_KERNEL("locals", ".local .u32 own;\n", "st.local.u32 [own+4096], 1;\n")
                            PTX_KERNEL("traps", "", "trap;\n")
                                PTX_KERNEL("lost", "", "call nobodys, ();\n")
                                    PTX_KERNEL("deep", "", "call recurse, ();\n");

static CUmodule module;

static int load(void **state) {
    set_up_context(state);
    module = load_ptx(text);
    return 0;
}

static void start(const char *name, CUstream stream, CUdeviceptr to) {
    CUfunction function;

    assert_ok(cuModuleGetFunction(&function, module, name));
    assert_ok(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, (void *[]){&to}, NULL));
}

/* Two streams that nothing orders, and memory that goes from one owner to the next. */
struct scene {
    CUstream streams[2];
    CUdeviceptr block;
    uint64_t hazards;
};

static struct scene begin_scene(void) {
    struct scene scene;

    for (int i = 0; i < 2; i++)
        assert_ok(cuStreamCreate(&scene.streams[i], CU_STREAM_NON_BLOCKING));
    assert_ok(cuMemAlloc_v2(&scene.block, 4096));
    assert_ok(cuCtxSynchronize());
    scene.hazards = simcuda_hazards();
    return scene;
}

static uint64_t end_scene(struct scene *scene) {
    uint64_t found;

    assert_ok(cuCtxSynchronize());
    found = simcuda_hazards() - scene->hazards;
    for (int i = 0; i < 2; i++)
        assert_ok(cuStreamDestroy_v2(scene->streams[i]));
    assert_ok(cuMemFree_v2(scene->block));
    return found;
}

static void hand_over(const struct scene *scene, size_t offset, size_t size) {
    simcuda_owner_end(scene->block + offset, 2);
    simcuda_owner_begin(scene->block + offset, size, 3);
}

static void test_reuse_too_early_is_found(void **state) {
    struct scene scene = begin_scene();
    struct gate gate = gate_close(scene.streams[0]);

    (void)state;
    simcuda_owner_begin(scene.block, 1024, 1);
    start("k", scene.streams[0], scene.block);
    hand_over(&scene, 0, 1024); /* before the kernel has even begun */
    start("k", scene.streams[1], scene.block);
    gate_open(gate);
    assert_int_equal(end_scene(&scene), 1);
    gate_remove(gate);
}

static void test_reuse_is_found_whichever_kernel_runs_first(void **state) {
    struct scene scene = begin_scene();

    (void)state;
    simcuda_owner_begin(scene.block, 1024, 1);
    start("k", scene.streams[0], scene.block);
    assert_ok(cuStreamSynchronize(scene.streams[1])); /* which orders nothing */
    hand_over(&scene, 0, 1024);
    start("reads", scene.streams[1], scene.block);
    assert_int_equal(end_scene(&scene), 1);
}

static void test_ordered_reuse_is_none(void **state) {
    struct scene scene = begin_scene();
    CUevent event;

    (void)state;
    assert_ok(cuEventCreate(&event, 0));
    simcuda_owner_begin(scene.block, 1024, 1);
    start("k", scene.streams[0], scene.block);
    assert_ok(cuEventRecord(event, scene.streams[0]));
    assert_ok(cuStreamWaitEvent(scene.streams[1], event, 0));
    hand_over(&scene, 0, 1024);
    start("k", scene.streams[1], scene.block);
    assert_ok(cuCtxSynchronize());
    hand_over(&scene, 0, 1024);
    start("k", scene.streams[0], scene.block);
    assert_int_equal(end_scene(&scene), 0);
    assert_ok(cuEventDestroy_v2(event));
}

static void test_two_readers_are_none(void **state) {
    struct scene scene = begin_scene();

    (void)state;
    simcuda_owner_begin(scene.block, 1024, 1);
    start("reads", scene.streams[0], scene.block);
    hand_over(&scene, 0, 1024);
    start("reads", scene.streams[1], scene.block);
    assert_int_equal(end_scene(&scene), 0);
}

/* The kernel touches 256 bytes: the owner behind them has nothing to do with it. */
static void test_only_what_was_touched_counts(void **state) {
    struct scene scene = begin_scene();

    (void)state;
    simcuda_owner_begin(scene.block, 256, 1);
    simcuda_owner_begin(scene.block + 256, 256, 1);
    start("k", scene.streams[0], scene.block);
    hand_over(&scene, 256, 256);
    start("k", scene.streams[1], scene.block + 256);
    assert_int_equal(end_scene(&scene), 0);
}

static void test_an_address_from_memory_is_followed(void **state) {
    struct scene scene = begin_scene();
    struct gate gate;
    CUdeviceptr pointer;

    (void)state;
    assert_ok(cuMemAlloc_v2(&pointer, 512));
    assert_ok(cuMemcpyHtoD_v2(pointer, &scene.block, sizeof scene.block));
    assert_ok(cuCtxSynchronize());
    gate = gate_close(scene.streams[0]);
    simcuda_owner_begin(scene.block, 1024, 1);
    start("behind", scene.streams[0], pointer);
    hand_over(&scene, 0, 1024);
    start("k", scene.streams[1], scene.block);
    assert_ok(cuStreamSynchronize(scene.streams[1]));
    gate_open(gate);
    assert_int_equal(end_scene(&scene), 1);
    gate_remove(gate);
    assert_ok(cuMemFree_v2(pointer));
}

/* A stream-ordered free waits for its own stream alone. */
static void test_a_release_that_is_not_ordered_is_found(void **state) {
    struct scene scene = begin_scene();
    struct gate gate = gate_close(scene.streams[0]);
    CUdeviceptr pooled;

    (void)state;
    assert_ok(cuMemAllocAsync(&pooled, 4096, scene.streams[1]));
    assert_ok(cuStreamSynchronize(scene.streams[1]));
    start("k", scene.streams[0], pooled);
    assert_ok(cuMemFreeAsync(pooled, scene.streams[1]));
    assert_ok(cuStreamSynchronize(scene.streams[1]));
    gate_open(gate);
    (void)cuStreamSynchronize(scene.streams[0]); /* the memory may be gone by then */
    assert_int_equal(simcuda_hazards() - scene.hazards, 1);
}

/* --- faults: each ends the context, so they have one of their own --- */

static CUresult fault_of(const char *name) {
    CUdeviceptr block;
    CUcontext context;
    CUresult result;
    CUmodule loaded;

    assert_ok(cuCtxCreate_v2(&context, 0, 1));
    loaded = load_ptx(text);
    assert_ok(cuMemAlloc_v2(&block, 4096));
    result = run_kernel(loaded, name, 1, 32, 0, block);
    assert_int_equal(cuCtxSynchronize(), result); /* it stays */
    cuCtxDestroy_v2(context);
    return result;
}

static void test_what_is_not_the_kernels_faults(void **state) {
    (void)state;
    assert_int_equal(fault_of("far"), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(fault_of("odd"), CUDA_ERROR_MISALIGNED_ADDRESS);
    assert_int_equal(fault_of("beyond"), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(fault_of("locals"), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(fault_of("traps"), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(fault_of("deep"), CUDA_ERROR_HARDWARE_STACK_ERROR);
    assert_int_equal(fault_of("lost"), CUDA_ERROR_INVALID_PC);
    assert_int_equal(fault_of("k"), CUDA_SUCCESS);
}

/* With SIMCUDA_MEMCHECK=1, which meson.build sets for this test. */
static void test_a_fault_is_named(void **state) {
    char line[512] = "", *found = NULL;
    FILE *kept = tmpfile();
    int standard = dup(2);

    (void)state;
    assert_non_null(kept);
    dup2(fileno(kept), 2);
    assert_int_equal(fault_of("far"), CUDA_ERROR_ILLEGAL_ADDRESS);
    dup2(standard, 2);
    close(standard);
    rewind(kept);
    while (found == NULL && fgets(line, sizeof line, kept) != NULL)
        found = strstr(line, "simcuda: far: illegal address writes 0x");
    fclose(kept);
    assert_non_null(found);
    assert_non_null(strstr(line, "of its PTX, in far, block (0, 0, 0), thread (0, 0, 0); "));
    assert_non_null(strstr(line, "bytes behind the allocation of 4096 bytes at 0x"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reuse_too_early_is_found),
        cmocka_unit_test(test_reuse_is_found_whichever_kernel_runs_first),
        cmocka_unit_test(test_ordered_reuse_is_none),
        cmocka_unit_test(test_two_readers_are_none),
        cmocka_unit_test(test_only_what_was_touched_counts),
        cmocka_unit_test(test_an_address_from_memory_is_followed),
        cmocka_unit_test(test_what_is_not_the_kernels_faults),
        cmocka_unit_test(test_a_fault_is_named),
        cmocka_unit_test(test_a_release_that_is_not_ordered_is_found), /* it may end the context */
    };

    return cmocka_run_group_tests(tests, load, NULL);
}
