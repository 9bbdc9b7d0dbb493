/* One process, two devices: device 1 runs a kernel that ends only once the host has launched work
 * on device 0, behind a free there. The free is device 0's business. */
#include "order.h"

static struct place first, second;

static CUdeviceptr block_in_use(const struct place *place) {
    CUdeviceptr block;
    CHECK(cuCtxSetCurrent(place->context));
    block = allocate(BYTES);
    fill(place, block, 3, NULL);
    return block;
}

static void start(void) {
    second = primary_place(1);
    first = primary_place(0);
}

static void finish(void) {
    CHECK(cuCtxSetCurrent(first.context));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(second.context));
    CHECK(cuCtxSynchronize());
    printf("both devices are done\n");
}

/* Device 0's kernel itself sets the flag, in pinned memory. */
static void by_kernel(void) {
    CUdeviceptr freed, flag;
    start();
    host_flag(&flag);
    freed = block_in_use(&first);
    CHECK(cuCtxSetCurrent(second.context));
    wait_for_flag(&second, flag, NULL);
    CHECK(cuCtxSetCurrent(first.context));
    release(freed);
    fill(&first, flag, 1, NULL);
    finish();
}

/* The host sets the flag, in device 1's memory, once device 0's later work is done. */
static void by_the_host(void) {
    CUdeviceptr freed, flag;
    start();
    CHECK(cuCtxSetCurrent(second.context));
    flag = device_flag();
    freed = block_in_use(&first);
    CHECK(cuCtxSetCurrent(second.context));
    wait_for_flag(&second, flag, NULL);
    CHECK(cuCtxSetCurrent(first.context));
    release(freed);
    fill(&first, first.kept, 1, NULL);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(second.context));
    set_device_flag(flag);
    finish();
}

/* The kernel on device 1 is launched behind the free: a wait that is made later must not cover it.
 */
static void launched_behind_the_free(void) {
    CUdeviceptr freed, flag;
    start();
    CHECK(cuCtxSetCurrent(second.context));
    flag = device_flag();
    freed = block_in_use(&first);
    release(freed);
    CHECK(cuCtxSetCurrent(second.context));
    wait_for_flag(&second, flag, NULL);
    CHECK(cuCtxSetCurrent(first.context));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(second.context));
    set_device_flag(flag);
    finish();
}

/* Device 0 frees and allocates all the time; device 1 is busy from the first to the last. */
static void loop_of_temporaries(void) {
    CUdeviceptr freed, flag;
    start();
    CHECK(cuCtxSetCurrent(second.context));
    flag = device_flag();
    wait_for_flag(&second, flag, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        freed = block_in_use(&first);
        release(freed);
    }
    CHECK(cuCtxSetCurrent(second.context));
    set_device_flag(flag);
    finish();
}

/* The first device reaches the second's memory, and nobody the first's. */
static void reached_from_the_other(void) {
    start();
    CHECK(cuCtxSetCurrent(first.context));
    CHECK(cuCtxEnablePeerAccess(second.context, 0));
    loop_of_temporaries();
}

static const struct order_case cases[] = {
    {"by_kernel", by_kernel},
    {"reached_from_the_other", reached_from_the_other},
    {"by_the_host", by_the_host},
    {"launched_behind_the_free", launched_behind_the_free},
    {"loop_of_temporaries", loop_of_temporaries},
};

ORDER_MAIN(cases)
