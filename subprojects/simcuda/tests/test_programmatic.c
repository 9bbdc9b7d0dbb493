/* Programmatic launches: what they are not ordered after, as the hazard detector sees it. */
#include "test_sim.h"

enum { COUNT = 256, BYTES = COUNT * 4 };

static const char early_ptx[] = ".version 7.8\n"
                                ".target sm_90\n"
                                ".address_size 64\n"
                                ".visible .entry early_fill_u32(.param .u64 to,\n"
                                " .param .u64 count, .param .u32 value, .param .u64 ns) {\n"
                                "  griddepcontrol.launch_dependents;\n" FILL_BODY;

static CUfunction early_fill;

static int set_up(void **state) {
    CUmodule module;

    set_up_context(state);
    assert_ok(cuModuleLoadData(&module, early_ptx));
    assert_ok(cuModuleGetFunction(&early_fill, module, "early_fill_u32"));
    return 0;
}

static CUresult launch_with(CUstream stream, CUfunction function, CUlaunchAttribute *attributes,
                            unsigned int count, void **parameters) {
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = attributes,
                             .numAttrs = count};

    return cuLaunchKernelEx(&config, function, parameters, NULL);
}

static void launch_early(CUstream stream, CUdeviceptr to, int programmatic) {
    uint64_t count = COUNT, ns = 0;
    uint32_t value = 1;
    CUlaunchAttribute attribute = {
        .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        .value.programmaticStreamSerializationAllowed = programmatic,
    };

    assert_ok(launch_with(stream, early_fill, &attribute, 1, (void *[]){&to, &count, &value, &ns}));
}

static void launch_programmatic(CUstream stream, CUdeviceptr to) {
    uint64_t count = COUNT;
    uint32_t value = 2;
    CUlaunchAttribute attributes[] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY},
        {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
         .value.programmaticStreamSerializationAllowed = 1},
    };

    assert_ok(launch_with(stream, test_kernel("fill_u32"), attributes, 2,
                          (void *[]){&to, &count, &value}));
}

/* What comes between the former owner's kernel and the next owner's. */
enum between { NOTHING, RECORD, RECORD_AND_WAIT, KERNEL, MEMSET, EARLY_KERNEL, OTHERS_EVENT };

static void submit_between(enum between between, CUstream stream, CUdeviceptr elsewhere) {
    CUevent event;

    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    switch (between) {
    case NOTHING:
        break;
    case RECORD:
    case RECORD_AND_WAIT:
        assert_ok(cuEventRecord(event, stream));
        if (between == RECORD_AND_WAIT)
            assert_ok(cuStreamWaitEvent(stream, event, 0));
        break;
    case KERNEL:
        assert_ok(launch_fill(stream, elsewhere, COUNT, 3));
        break;
    case MEMSET:
        assert_ok(cuMemsetD32Async(elsewhere, 3, COUNT, stream));
        break;
    case EARLY_KERNEL:
        launch_early(stream, elsewhere, 1);
        break;
    case OTHERS_EVENT:
        assert_ok(cuEventRecord(event, NULL));
        assert_ok(cuStreamWaitEvent(stream, event, 0));
        break;
    }
    assert_ok(cuEventDestroy_v2(event));
}

static uint64_t hazards_with(enum between between) {
    uint64_t before = simcuda_hazards();
    CUdeviceptr pointer, elsewhere;
    CUstream stream;

    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuMemAlloc_v2(&pointer, BYTES));
    assert_ok(cuMemAlloc_v2(&elsewhere, BYTES));
    simcuda_owner_begin(pointer, BYTES, 1);
    launch_early(stream, pointer, 0);
    simcuda_owner_end(pointer, 2);
    submit_between(between, stream, elsewhere);
    simcuda_owner_begin(pointer, BYTES, 3);
    launch_programmatic(stream, pointer);
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuMemFree_v2(elsewhere));
    assert_ok(cuStreamDestroy_v2(stream));
    return simcuda_hazards() - before;
}

static void test_a_programmatic_launch_is_not_ordered_after_the_kernel_before_it(void **state) {
    (void)state;
    assert_int_equal(hazards_with(NOTHING), 1);
    assert_int_equal(hazards_with(RECORD), 1);
    assert_int_equal(hazards_with(OTHERS_EVENT), 1);
    assert_int_equal(hazards_with(EARLY_KERNEL), 1); /* which itself may run beside the first */
}

static void test_a_programmatic_launch_comes_after_what_does_not_allow_it(void **state) {
    (void)state;
    assert_int_equal(hazards_with(RECORD_AND_WAIT), 0);
    assert_int_equal(hazards_with(KERNEL), 0);
    assert_int_equal(hazards_with(MEMSET), 0);
}

/* Whatever comes behind both in the stream is ordered after both, and so is who waits for it. */
static void test_work_behind_a_programmatic_launch_is_ordered_after_all(void **state) {
    uint64_t before = simcuda_hazards();
    CUdeviceptr pointers[2];
    CUstream stream;

    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 2; i++) {
        assert_ok(cuMemAlloc_v2(&pointers[i], BYTES));
        simcuda_owner_begin(pointers[i], BYTES, 1);
    }
    launch_early(stream, pointers[0], 0);
    launch_programmatic(stream, pointers[1]);
    for (int i = 0; i < 2; i++) {
        simcuda_owner_end(pointers[i], 2);
        simcuda_owner_begin(pointers[i], BYTES, 3);
        assert_ok(launch_fill(stream, pointers[i], COUNT, 4));
    }
    assert_int_equal(simcuda_hazards(), before);
    launch_early(stream, pointers[0], 0);
    launch_programmatic(stream, pointers[1]);
    assert_ok(cuStreamSynchronize(stream));
    for (int i = 0; i < 2; i++) {
        simcuda_owner_end(pointers[i], 4);
        simcuda_owner_begin(pointers[i], BYTES, 5);
        launch_programmatic(stream, pointers[i]);
        assert_ok(cuMemFree_v2(pointers[i]));
    }
    assert_int_equal(simcuda_hazards(), before);
    assert_ok(cuStreamDestroy_v2(stream));
}

/* The free waits for the stream with a timeline of its own, as it does for every other one. */
static void test_a_free_waits_for_a_programmatic_launch(void **state) {
    uint64_t before = simcuda_hazards();
    CUdeviceptr pointer;

    (void)state;
    assert_ok(cuMemAlloc_v2(&pointer, BYTES));
    launch_early(NULL, pointer, 0);
    launch_programmatic(NULL, pointer);
    assert_ok(cuMemFree_v2(pointer));
    assert_int_equal(simcuda_hazards(), before);
}

static void test_events_within_a_launch_are_not_simulated(void **state) {
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    uint64_t ns = 0;

    (void)state;
    assert_int_equal(launch_with(NULL, test_kernel("spin_ns"), &attribute, 1, (void *[]){&ns}),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(launch_with(NULL, test_kernel("spin_ns"), NULL, 1, (void *[]){&ns}),
                     CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_programmatic_launch_is_not_ordered_after_the_kernel_before_it),
        cmocka_unit_test(test_a_programmatic_launch_comes_after_what_does_not_allow_it),
        cmocka_unit_test(test_work_behind_a_programmatic_launch_is_ordered_after_all),
        cmocka_unit_test(test_a_free_waits_for_a_programmatic_launch),
        cmocka_unit_test(test_events_within_a_launch_are_not_simulated),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down_context);
}
