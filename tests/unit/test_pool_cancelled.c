/* Threads that the program cancels while they are in the driver: what they began is finished. */
#include "pool_test.h"

#include <pthread.h>

static void end_if_cancelled(void) {
    pthread_testcancel();
}

static void end_if_cancelled_at_free(CUdeviceptr pointer) {
    (void)pointer;
    pthread_testcancel();
}

/* 70 of 100 MiB are held, and idle but for 10 of them. */
static void start_nearly_full(const struct policy *policy) {
    struct pool_config config = pool_defaults;
    config.policy = policy;
    config.set_cancel_state = pthread_setcancelstate;
    stop(NULL);
    start_with(&config, 100 * MIB);
    alloc_at(10 * MIB, 1);
    release(alloc_at(60 * MIB, 2));
}

/* Ends in the driver, or else when the call is over. */
static void *call_while_cancelled(void *call) {
    pthread_cancel(pthread_self());
    ((void (*)(void))call)();
    pthread_testcancel();
    return NULL;
}

static void cancel_in(void (*call)(void)) {
    pthread_t thread;
    void *end;
    assert_int_equal(pthread_create(&thread, NULL, call_while_cancelled, (void *)call), 0);
    assert_int_equal(pthread_join(thread, &end), 0);
    assert_ptr_equal(end, PTHREAD_CANCELED);
    fake.on_granted = NULL;
    fake.on_free = NULL;
}

static void assert_nothing_is_under_way(void) {
    const struct device *device = TAILQ_FIRST(&pool->devices);
    assert_int_equal(device->releasing, 0);
    assert_int_equal(device->unvisited, 0);
    assert_int_equal(device->attempting, 0);
    assert_true(LIST_EMPTY(&device->sharing));
    assert_int_equal(pool->ends_under_way, 0);
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_held_bytes), fake.used);
}

static const struct policy *plain(size_t i) {
    return policies[i].source->surrender ? NULL : &policies[i];
}

static CUdeviceptr of_thread;

static void allocate_50(void) {
    of_thread = quick_alloc(50 * MIB, 3);
}

static void idle_memory_that_it_gives_back_is_not_on_its_way_for_ever(void **state) {
    (void)state;
    for (size_t i = 0; i < policy_count; i++) {
        if (!plain(i))
            continue;
        start_nearly_full(plain(i));
        fake.on_free = end_if_cancelled_at_free;
        cancel_in(allocate_50);
        assert_nothing_is_under_way();
        pool_context_ending(pool, fake.current);
    }
}

static void what_it_obtains_is_recorded(void **state) {
    (void)state;
    for (size_t i = 0; i < policy_count; i++) {
        if (!plain(i) || !policies[i].source->obtain) /* else it is natively lost as well */
            continue;
        start_nearly_full(plain(i));
        of_thread = 0;
        fake.on_granted = end_if_cancelled;
        cancel_in(allocate_50);
        assert_nothing_is_under_way();
        release(of_thread);
        assert_nothing_is_under_way();
    }
}

static void free_there(void) {
    release(of_thread);
}

static void a_block_that_goes_to_the_driver_is_not_on_its_way_for_ever(void **state) {
    (void)state;
    start_nearly_full(NULL);
    allocate_50();
    TAILQ_FIRST(&pool->devices)->pressure++;
    fake.on_free = end_if_cancelled_at_free;
    cancel_in(free_there);
    TAILQ_FIRST(&pool->devices)->pressure--;
    assert_nothing_is_under_way();
}

static void end_context(void) {
    pool_end_begins(pool);
    pool_context_ending(pool, fake.current);
    end_if_cancelled(); /* in the driver's function */
    pool_end_is_over(pool, true);
}

static void the_end_of_a_context_is_over(void **state) {
    (void)state;
    start_nearly_full(NULL);
    fake.on_free = end_if_cancelled_at_free;
    cancel_in(end_context);
    const struct device *device = TAILQ_FIRST(&pool->devices);
    assert_int_equal(device->releasing + device->ending + (int)pool->ends_under_way, 0);
    allocate_50();
    assert_int_equal(stats_get(STATS_held_bytes), 50 * MIB); /* the new context is known */
}

/* The free of a block that goes for a miss is the dearest to protect, and waits for nothing. */
static void the_end_of_a_context_gives_up_what_is_on_its_way_too_long(void **state) {
    (void)state;
    start_nearly_full(NULL);
    struct device *device = TAILQ_FIRST(&pool->devices);
    device->releasing++; /* as a thread leaves it that was cancelled in cache_making_room.c */
    device->unvisited++;
    end_context();
    assert_int_equal(device->releasing + device->ending + (int)pool->ends_under_way, 0);
    assert_int_equal(device->unvisited, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(idle_memory_that_it_gives_back_is_not_on_its_way_for_ever),
        TEST(what_it_obtains_is_recorded),
        TEST(a_block_that_goes_to_the_driver_is_not_on_its_way_for_ever),
        TEST(the_end_of_a_context_is_over),
        TEST(the_end_of_a_context_gives_up_what_is_on_its_way_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
