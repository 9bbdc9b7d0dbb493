/* A context leaves much memory idle and is busy with work that came after its frees; another
 * context of the same device frees, which natively waits for that one's own work. */
#include "order.h"

enum { MUCH = 200 << 20, BLOCKS = 4 };

static void of_two_contexts(void) {
    struct place busy = primary_place(0), other = created_place();
    CUdeviceptr flag, blocks[BLOCKS];
    volatile uint32_t *host;
    CHECK(cuCtxSetCurrent(busy.context));
    host = host_flag(&flag);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = allocate(MUCH); /* more than may lie idle for long */
    for (int i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    (void)allocate(BYTES); /* finds deferred blocks idle */
    wait_for_flag(&busy, flag, NULL);
    CHECK(cuCtxSetCurrent(other.context));
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = allocate(MUCH);
    for (int i = 0; i < BLOCKS; i++) {
        fill(&other, blocks[i], 3, NULL);
        release(blocks[i]);
    }
    set_flag(host);
    CHECK(cuCtxSetCurrent(busy.context));
    CHECK(cuCtxSynchronize());
    printf("the frees did not wait\n");
}

static const struct order_case cases[] = {{"of_two_contexts", of_two_contexts}};

ORDER_MAIN(cases)
