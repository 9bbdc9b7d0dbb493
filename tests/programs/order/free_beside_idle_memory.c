/* More memory is idle than may lie so for long, and a free gives it back to the driver. That must
 * wait for nothing that the free itself need not wait for. */
#include "order.h"

#include <stdatomic.h>

enum { MUCH = 200 << 20, BLOCKS = 4 };

/* A context leaves much memory idle and is busy with work that came after its frees; another
 * context of the same device frees, which natively waits for that one's own work. */
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

struct later {
    struct place place;
    CUdeviceptr flag;
    CUstream stream;
    atomic_bool begun, launched, freed;
};

/* As long as the free has not begun to wait, what is launched would be earlier work. */
static void await_launch(void *data) {
    struct later *later = data;
    while (waiting_threads() == 0 && !atomic_load(&later->freed))
        sched_yield();
    atomic_store(&later->begun, true);
    while (!atomic_load(&later->launched))
        sched_yield();
}

static void *launch_later_work(void *data) {
    struct later *later = data;
    CHECK(cuCtxSetCurrent(later->place.context));
    while (!atomic_load(&later->begun))
        sched_yield();
    wait_for_flag(&later->place, later->flag, later->stream);
    atomic_store(&later->launched, true);
    return NULL;
}

static CUdeviceptr plain(void) {
    return allocate((size_t)6 * (MUCH / 2));
}

static CUdeviceptr in_rows(void) {
    CUdeviceptr block;
    size_t pitch;
    CHECK(cuMemAllocPitch_v2(&block, &pitch, BYTES, 16, 4));
    return block;
}

/* The free waits for a function of the host, during which another thread launches a kernel that
 * waits for what comes after the free. Blocks grow, so that none of them is used again. */
static void free_before_later_work(CUdeviceptr (*last)(void)) {
    static struct later later;
    CUstream before;
    CUdeviceptr block;
    pthread_t thread;
    later.place = primary_place(0);
    later.flag = device_flag();
    later.stream = new_stream(CU_STREAM_NON_BLOCKING);
    before = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 1; i < 6; i++)
        release(allocate((size_t)i * (MUCH / 2)));
    CHECK(cuLaunchHostFunc(before, await_launch, &later));
    block = last(); /* gives nothing back: the context is busy */
    pthread_create(&thread, NULL, launch_later_work, &later);
    CHECK(cuMemFree_v2(block));
    atomic_store(&later.freed, true);
    set_device_flag(later.flag);
    pthread_join(thread, NULL);
    CHECK(cuCtxSynchronize());
    printf("the frees did not wait\n");
}

static void beside_later_work(void) {
    free_before_later_work(plain);
}

static void of_pitched_memory_beside_later_work(void) {
    free_before_later_work(in_rows);
}

static const struct order_case cases[] = {
    {"of_two_contexts", of_two_contexts},
    {"beside_later_work", beside_later_work},
    {"of_pitched_memory_beside_later_work", of_pitched_memory_beside_later_work},
};

ORDER_MAIN(cases)
