/* Free; a kernel in the legacy stream that runs until a flag in device memory is set; a stream is
 * made, and the flag is set through it. Natively the free's wait is over before the kernel comes.
 */
#include "order.h"

static struct place place;
static CUdeviceptr flag;

/* The free that could owe a wait for too much; behind it the kernel. */
static CUstream stream_made_beside_the_kernel(void) {
    CUdeviceptr freed;
    place = primary_place(0);
    flag = device_flag();
    freed = allocate(BYTES);
    fill(&place, freed, 3, NULL);
    release(freed);
    wait_for_flag(&place, flag, NULL);
    return new_stream(CU_STREAM_NON_BLOCKING); /* a blocking one's work would wait for the kernel */
}

static void finish(CUstream stream) {
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuCtxSynchronize());
    printf("the kernel has ended\n");
}

static void by_memset(void) {
    CUstream stream = stream_made_beside_the_kernel();
    CHECK(cuMemsetD32Async(flag, 1, 1, stream));
    finish(stream);
}

static void by_kernel(void) {
    CUstream stream = stream_made_beside_the_kernel();
    fill(&place, flag, 1, stream);
    finish(stream);
}

static void by_copy(void) { /* of pageable memory, which is little enough to be staged */
    static const uint32_t one = 1;
    CUstream stream = stream_made_beside_the_kernel();
    CHECK(cuMemcpyHtoDAsync_v2(flag, &one, sizeof one, stream));
    finish(stream);
}

static const struct order_case cases[] = {
    {"by_memset", by_memset},
    {"by_kernel", by_kernel},
    {"by_copy", by_copy},
};

ORDER_MAIN(cases)
