/* Launches with programmatic stream serialization may begin before the kernel in front of them in
 * their stream has ended, if that one allows it: the order of the stream is not theirs. A free in
 * between has natively waited for it. */
#include "early_fill.h"
#include "order.h"

static struct place place;
static CUfunction early_fill;

static void start(void) {
    CUmodule module;
    place = primary_place(0);
    CHECK(cuModuleLoadData(&module, early_fill_ptx));
    CHECK(cuModuleGetFunction(&early_fill, module, "early_fill_u32"));
}

/* A fill that may begin beside the kernel before it. */
static void programmatic_fill(CUdeviceptr to, uint32_t value, CUstream stream, int allowed) {
    uint64_t count = WORDS;
    CUlaunchAttribute attribute = {
        .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        .value.programmaticStreamSerializationAllowed = allowed,
    };
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &attribute,
                             .numAttrs = 1};
    CHECK(cuLaunchKernelEx(&config, place.fill, (void *[]){&to, &count, &value}, NULL));
}

/* The freed block is filled late; the memory goes to the next owner, who fills it at once. */
static void hand_over(CUstream stream, int allowed) {
    uint64_t count = WORDS, ns = 5000000;
    uint32_t value = 3, words[WORDS] = {0};
    CUdeviceptr freed = allocate(BYTES), next;
    launch(early_fill, (void *[]){&freed, &count, &value, &ns}, stream);
    release(freed);
    next = allocate(BYTES);
    programmatic_fill(next, 7, stream, allowed);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH_v2(words, next, BYTES));
    printf("the next owner reads %u\n", words[WORDS - 1]);
}

static void in_legacy(void) {
    start();
    hand_over(NULL, 1);
}

static void in_non_blocking(void) {
    start();
    hand_over(new_stream(CU_STREAM_NON_BLOCKING), 1);
}

static void attribute_of_zero(void) { /* the order of the stream, then */
    start();
    hand_over(NULL, 0);
}

/* Behind the free comes work that runs until a flag is set: the launch does not wait for that. */
static void behind_later_work(void) {
    CUdeviceptr flag, freed;
    start();
    flag = device_flag();
    freed = allocate(BYTES);
    fill(&place, freed, 3, NULL);
    release(freed);
    wait_for_flag(&place, flag, NULL);
    programmatic_fill(place.kept, 7, NULL, 1);
    printf("behind it: %d\n", (int)cuStreamQuery(NULL));
    set_device_flag(flag);
    CHECK(cuCtxSynchronize());
}

static const struct order_case cases[] = {
    {"in_legacy", in_legacy},
    {"in_non_blocking", in_non_blocking},
    {"attribute_of_zero", attribute_of_zero},
    {"behind_later_work", behind_later_work},
};

ORDER_MAIN(cases)
