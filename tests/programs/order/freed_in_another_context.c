/* A kernel writes to a block of one context; the block is freed while another is current. Memory of
 * the first is allocated again and written to, and must hold what was written last. */
#include "order.h"

static void reused(void) {
    struct place owner = primary_place(0), other = created_place();
    CUdeviceptr memory;
    uint32_t word = 0;
    CHECK(cuCtxSetCurrent(owner.context));
    for (uint32_t i = 1; i <= 8; i++) {
        memory = allocate(BYTES);
        keep_busy(&owner, 20 * 1000 * 1000, NULL);
        fill(&owner, memory, 100 * i, NULL);
        CHECK(cuCtxSetCurrent(other.context));
        release(memory);
        CHECK(cuCtxSetCurrent(owner.context));
        CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
        memory = allocate(BYTES);
        fill(&owner, memory, i, stream);
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuCtxSynchronize());
        CHECK(cuMemcpyDtoH_v2(&word, memory, sizeof word));
        printf("%u ", word);
        release(memory);
        CHECK(cuStreamDestroy_v2(stream));
    }
    printf("\n");
}

static const struct order_case cases[] = {{"reused", reused}};
ORDER_MAIN(cases)
