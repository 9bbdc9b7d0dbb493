/* Contexts and devices, forks, host memory that runs out, many steps and many threads. */
#include "order/order.h"
#include "peers/own_open.h"
#include "pool/ledger_parts.h"
#include "pool_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

static bool calloc_fails;
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return calloc_fails ? NULL : __real_calloc(count, size);
}

static void a_context_that_ends_gives_its_idle_memory_back_and_forgets_the_rest(void **state) {
    (void)state;
    CUdeviceptr live = alloc(1000), idle = alloc(2000);
    release(idle);
    pool_context_ending(pool, fake.current);
    assert_int_equal(fake_size(idle), 0);
    assert_int_equal(stats_get(STATS_held_bytes), 0);
    release(live); /* to the driver, which answers */
    assert_int_equal(stats_get(STATS_free_unknown), 1);
    assert_int_equal(try_free(live), CUDA_ERROR_INVALID_VALUE);
}

static void the_same_handle_after_an_end_is_a_new_context(void **state) {
    (void)state;
    release(alloc(1000));
    pool_context_ending(pool, fake.current);
    int allocs = fake.allocs;
    release(alloc(1000));
    assert_int_equal(fake.allocs, allocs + 1);
    alloc(1000);
    assert_int_equal(fake.allocs, allocs + 1);
}

static void end_current(void) {
    fake.on_alloc = NULL;
    pool_context_ending(pool, fake.current);
}

static void an_allocation_under_way_while_its_context_ends_is_not_recorded(void **state) {
    (void)state;
    release(alloc(5000)); /* the context is known */
    fake.on_alloc = end_current;
    CUdeviceptr block = alloc(100000);
    assert_int_equal(stats_get(STATS_live_blocks), 0);
    release(block);
    assert_int_equal(stats_get(STATS_free_unknown), 1);
}

static CUdeviceptr leaving; /* idle, in a context of its own */

/* Idle in a context of its own: more than is left beside it. */
static void leave_idle_in_other_context(const struct policy *policy) {
    struct pool_config config = pool_defaults;
    config.policy = policy;
    stop(NULL);
    start_with(&config, 100 * MIB);
    alloc_at(10 * MIB, 1);
    fake.current = fake_context(0, 2);
    leaving = alloc_at(60 * MIB, 2);
    release(leaving);
    fake.current = fake_context(0, 1);
}

/* The driver frees it with its context, and may give its address to others at once. */
static void fail_if_leaving(CUdeviceptr pointer) {
    assert_int_not_equal(pointer, leaving);
}

static void end_other_while_it_gives_back(void) {
    if (!TAILQ_FIRST(&pool->devices)->releasing)
        return;
    fake.on_query = NULL;
    pool_end_begins(pool);
    pool_context_ending(pool, fake_context(0, 2));
    assert_int_equal(fake_driver()->mem_free(leaving), CUDA_SUCCESS);
    pool_end_is_over(pool, true);
    fake.on_free = fail_if_leaving;
}

static void no_block_is_given_back_whose_context_has_ended_meanwhile(void **state) {
    (void)state;
    leave_idle_in_other_context(NULL);
    fake.on_query = end_other_while_it_gives_back;
    alloc_at(50 * MIB, 3);
    assert_null(fake.on_query);
    assert_int_equal(stats_get(STATS_held_bytes), fake.used);
}

static pthread_t destroyer;
static atomic_bool is_ended;

/* As cuCtxDestroy does: the driver frees a moment after the pool has let go. */
static void *destroy_other(void *data) {
    static const struct timespec moment = {.tv_nsec = 20000000};
    pool_end_begins(pool);
    pool_context_ending(pool, fake_context(0, 2));
    atomic_store(&is_ended, true);
    nanosleep(&moment, NULL);
    assert_int_equal(fake_driver()->mem_free(leaving), CUDA_SUCCESS);
    pool_end_is_over(pool, true);
    return data;
}

static void begin_to_destroy_other(void) {
    is_ended = false;
    assert_int_equal(pthread_create(&destroyer, NULL, destroy_other, NULL), 0);
    while (!atomic_load(&is_ended))
        sched_yield();
}

static void destroy_other_while_it_gives_back(void) {
    if (!TAILQ_FIRST(&pool->devices)->releasing)
        return;
    fake.on_query = NULL;
    begin_to_destroy_other();
}

/* The thread that gives idle memory back comes too late for a context that ends, and that thread
 * has looked for idle memory too early: only the driver frees it then. */
static void
an_allocation_waits_for_idle_memory_that_is_left_to_the_end_of_its_context(void **state) {
    (void)state;
    leave_idle_in_other_context(NULL);
    fake.on_query = destroy_other_while_it_gives_back;
    alloc_at(50 * MIB, 3);
    assert_null(fake.on_query);
    pthread_join(destroyer, NULL);
    assert_int_equal(TAILQ_FIRST(&pool->devices)->releasing, 0);
    assert_int_equal(stats_get(STATS_held_bytes), fake.used);
}

static bool has_regions(const struct policy *policy) {
    return !strcmp(policy->name, "bfc") || !strcmp(policy->name, "segments");
}

/* What policies with regions have idle is all left to the driver. */
static void an_allocation_waits_for_regions_that_go_with_their_context(void **state) {
    (void)state;
    for (size_t i = 0; i < policy_count; i++) {
        if (!has_regions(&policies[i]))
            continue;
        leave_idle_in_other_context(&policies[i]);
        begin_to_destroy_other();
        alloc_at(50 * MIB, 3);
        pthread_join(destroyer, NULL);
        assert_int_equal(TAILQ_FIRST(&pool->devices)->releasing, 0);
        assert_int_equal(stats_get(STATS_held_bytes), fake.used);
    }
}

/* Live in the other context as well, at the beginning of what the driver has given, beside idle
 * memory: where a policy cuts, that is no allocation of its own. */
static CUdeviceptr live_in_other_context(const struct policy *policy) {
    leave_idle_in_other_context(policy);
    fake.current = fake_context(0, 2);
    CUdeviceptr live = quick_alloc(1000, 3);
    release(quick_alloc(1000, 4));
    fake.current = fake_context(0, 1);
    return live;
}

/* The thread's own context has been destroyed, or lost by work of its own. */
static void a_context_is_not_lost_by_an_error_of_the_one_that_its_memory_is_freed_in(void **state) {
    (void)state;
    static const CUresult errors[] = {CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ILLEGAL_ADDRESS};
    for (size_t i = 0; i < 2 * policy_count; i++) {
        if (policies[i / 2].source->surrender) /* by other calls */
            continue;
        CUdeviceptr live = live_in_other_context(&policies[i / 2]);
        size_t held = stats_get(STATS_held_bytes);
        fake.free_result = errors[i % 2];
        assert_int_equal(pool_release(pool, 0, SIZE_MAX), 0);
        fake.free_result = CUDA_SUCCESS;
        fake.current = fake_context(0, 2);
        release(live);
        int allocs = fake.allocs;
        assert_int_equal(quick_alloc(1000, 3), live);
        assert_int_equal(fake.allocs, allocs);
        assert_int_equal(stats_get(STATS_held_bytes), held);
        assert_int_equal(stats_get(STATS_held_bytes), fake.used);
    }
}

static CUdeviceptr of_another;

/* Another thread frees its block while the driver refuses a free of the same address. */
static void free_there(CUdeviceptr pointer) {
    CUcontext own = fake.current;
    (void)pointer;
    fake.on_free = NULL;
    fake.free_result = CUDA_SUCCESS;
    fake.current = fake_context(0, 1);
    int frees = fake.frees;
    release(of_another);
    assert_int_equal(fake.frees, frees);
    fake.current = own;
    fake.free_result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static void a_free_in_a_context_that_is_gone_takes_no_block_of_another_thread(void **state) {
    (void)state;
    of_another = quick_alloc(1000, 3);
    fake.current = fake_context(0, 2); /* not known any more */
    fake.free_result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    fake.on_free = free_there;
    assert_int_equal(pool_free(pool, of_another), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_null(fake.on_free);
    fake.free_result = CUDA_SUCCESS;
    fake.current = fake_context(0, 1);
    assert_true(pool_is_valid(pool));
    assert_int_equal(quick_alloc(1000, 3), of_another);
    assert_int_equal(stats_get(STATS_held_bytes), fake.used);
}

/* A wrong belief in a lost context must not take the memory of others. */
static void the_free_of_a_part_in_a_lost_context_frees_no_region(void **state) {
    (void)state;
    for (size_t i = 0; i < policy_count; i++) {
        if (!has_regions(&policies[i]))
            continue;
        CUdeviceptr live = live_in_other_context(&policies[i]);
        fake.current = fake_context(0, 2);
        lose_current_context();
        uint64_t used = fake.used;
        assert_int_equal(try_free(live), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(fake.used, used);
    }
}

static void end_while_waiting(void) {
    fake.on_wait = NULL;
    pool_context_ending(pool, fake.current);
}

static void a_free_under_way_while_its_context_ends_keeps_nothing(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    fake.on_wait = end_while_waiting;
    release(block);
    assert_int_equal(stats_get(STATS_held_bytes), 0);
    assert_int_equal(fake_size(block), 0); /* the context lived on: the driver got the memory */
}

static CUcontext pushed_context;
static pthread_t ender;
static atomic_bool has_ended;
static int pushes;

static void *end_pushed_context(void *data) {
    pool_context_ending(pool, pushed_context);
    atomic_store(&has_ended, true);
    return data;
}

/* Leaves the other thread the time in which it would end the context, could it. */
static void end_while_pushing(CUcontext context) {
    static const struct timespec moment = {.tv_nsec = 20000000};
    fake.on_push = NULL;
    pushed_context = context;
    assert_int_equal(pthread_create(&ender, NULL, end_pushed_context, NULL), 0);
    nanosleep(&moment, NULL);
    assert_false(has_ended);
}

static void a_context_does_not_end_while_another_thread_makes_it_current(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    fake.current = fake_context(0, 2);
    alloc(1000); /* that context is known, too */
    has_ended = false;
    fake.on_push = end_while_pushing;
    release(block);
    pthread_join(ender, NULL);
    assert_true(has_ended);
    assert_null(fake.on_push);
}

static void count_push(CUcontext context) {
    assert_ptr_equal(context, fake_context(0, 1));
    pushes++;
}

static void a_context_that_may_be_ending_is_not_made_current(void **state) {
    (void)state;
    CUdeviceptr blocks[] = {alloc(1000), alloc(2000)};
    fake.current = fake_context(1, 1);
    alloc(1000);
    pushes = 0;
    fake.on_push = count_push;
    pool_primary_releasing(pool, 0);
    release(blocks[0]); /* by the driver, which knows whether the context is there */
    assert_int_equal(pushes, 0);
    assert_int_equal(fake_size(blocks[0]), 0);
    pool_primary_released(pool, 0); /* it was not the last release */
    release(blocks[1]);
    assert_true(pushes > 0);
    assert_int_equal(fake_size(blocks[1]), 2048);
}

static void begin_release(void) {
    pool_end_begins(pool);
    pool_primary_releasing(pool, 0);
}

static void end_release(void) {
    pool_primary_released(pool, 0);
    pool_end_is_over(pool, true);
}

static void release_primary(bool stays) {
    begin_release();
    fake.primary_active = stays;
    end_release();
}

static void a_release_that_is_not_the_last_ends_nothing(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    release(block);
    release_primary(true);
    assert_int_equal(alloc(1000), block);
}

static void a_context_that_may_be_ending_hands_nothing_out(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    release(block);
    begin_release();
    begin_release(); /* by another thread */
    CUdeviceptr past = alloc(1000);
    assert_int_not_equal(past, block);
    release(past);
    assert_int_equal(fake_size(past), 0);
    end_release();
    assert_int_not_equal(alloc(1000), block);
    end_release();
    assert_int_equal(alloc(1000), block);
}

/* Another thread has retained it anew before the driver could be asked whether it is active. */
static void a_context_that_takes_the_place_of_a_released_one_gets_nothing_of_it(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000), live = alloc(3000);
    release(block);
    int frees = fake.frees;
    begin_release();
    fake.primary_changes++;
    end_release();
    assert_int_equal(fake.frees, frees);
    assert_int_equal(stats_get(STATS_held_bytes), 0);
    assert_int_not_equal(alloc(1000), block);
    release(live);
    assert_int_equal(stats_get(STATS_free_unknown), 1);
}

static void after_the_last_release_all_memory_is_forgotten_and_none_freed(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000), live = alloc(3000);
    release(block);
    int frees = fake.frees;
    release_primary(false);
    assert_int_equal(fake.frees, frees);
    assert_int_equal(stats_get(STATS_held_bytes), 0);
    assert_true(pool_is_valid(pool));
    release(live);
    assert_int_equal(stats_get(STATS_free_unknown), 1);
}

static void a_created_context_outlives_its_devices_primary_one(void **state) {
    (void)state;
    pool_context_created(pool, fake.current);
    CUdeviceptr block = alloc(1000);
    release(block);
    pool_primary_ending(pool, 0);
    assert_int_equal(alloc(1000), block);
}

static void a_free_waits_for_its_own_context_alone(void **state) {
    (void)state;
    CUdeviceptr one = alloc(1000);
    fake.current = fake_context(0, 2);
    alloc(1000);
    release(one);
    assert_int_equal(fake.event_waits, 1);
    assert_ptr_equal(fake.fenced_context, fake_context(0, 1));
    assert_int_equal(fake.waits, 0);
}

static void *copy_between_contexts(void *unused) {
    (void)unused;
    assert_true(pool_reaches(pool, CU_STREAM_LEGACY, NULL, 0, false, "cuMemcpyPeer"));
    pool_crossed(pool, CU_STREAM_LEGACY);
    return NULL;
}

/* The copy is done once it has been asked about for a while. */
static void *end_copy(void *unused) {
    while (__atomic_load_n(&fake.event_queries, __ATOMIC_RELAXED) < 3)
        futex_pause();
    __atomic_store_n(&fake.quiet, true, __ATOMIC_RELAXED);
    return unused;
}

/* The context's own wait is one for a fence, and each free makes it. */
static void assert_waits_for_copy(CUdeviceptr block) {
    pthread_t thread;
    int waits = fake.event_waits;
    fake.quiet = false;
    fake.event_queries = 0;
    pthread_create(&thread, NULL, end_copy, NULL);
    release(block);
    assert_true(__atomic_load_n(&fake.quiet, __ATOMIC_RELAXED));
    pthread_join(thread, NULL);
    assert_int_equal(fake.event_waits, waits + 1);
    assert_int_equal(fake.waits, 0);
}

static void a_free_waits_for_a_copy_between_contexts_once(void **state) {
    (void)state;
    CUdeviceptr one = alloc(1000);
    fake.current = fake_context(0, 2);
    CUdeviceptr two = alloc(1000);
    copy_between_contexts(NULL);
    assert_ptr_equal(fake.fenced_context, fake_context(0, 2));
    release(two);
    assert_int_equal(fake.event_waits, 2); /* for the context's work, and for the copy */
    fake.current = fake_context(0, 1);
    release(one);
    assert_int_equal(fake.event_waits, 3);
    assert_int_equal(fake.event_queries + fake.waits, 0);
}

static void a_free_of_the_other_context_waits_for_a_copy_between_them(void **state) {
    (void)state;
    CUdeviceptr one = alloc(1000);
    fake.current = fake_context(0, 2);
    alloc(1000);
    copy_between_contexts(NULL);
    fake.current = fake_context(0, 1);
    assert_waits_for_copy(one);
}

static void a_free_waits_for_another_threads_copy_between_contexts(void **state) {
    (void)state;
    pthread_t thread;
    CUdeviceptr block = alloc(1000);
    fake.current = fake_context(0, 2);
    alloc(1000);
    pthread_create(&thread, NULL, copy_between_contexts, NULL);
    pthread_join(thread, NULL);
    fake.current = fake_context(0, 1);
    assert_waits_for_copy(block);
}

/* It has neither memory nor streams. */
static void a_copy_in_a_context_that_was_not_met_before_is_waited_for_as_any(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    fake.current = fake_context(0, 2);
    alloc(1000);
    fake.current = fake_context(0, 3);
    copy_between_contexts(NULL);
    fake.current = fake_context(0, 1);
    assert_waits_for_copy(block);
}

/* Its event ends with it. */
static void a_copy_in_a_context_that_ends_is_waited_for_no_more(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    fake.current = fake_context(0, 2);
    pool_context_created(pool, fake.current);
    copy_between_contexts(NULL);
    fake.quiet = false;
    fake.event_queries = 0;
    pool_context_ending(pool, fake.current);
    fake.current = fake_context(0, 1);
    release(block);
    assert_int_equal(fake.event_queries, 0);
}

static void a_context_that_only_exists_is_one_to_copy_from(void **state) {
    (void)state;
    assert_int_equal(order_word, 0);
    alloc(1000);
    pool_context_created(pool, fake_context(0, 2));
    assert_int_equal(order_word, ORDER_CONTEXTS);
    assert_false(order_is_only(&pool->order, fake.current));
}

static void where_contexts_reach_each_others_memory_a_free_waits_for_all(void **state) {
    (void)state;
    alloc(1000);
    fake.current = fake_context(0, 2);
    CUdeviceptr two = alloc(1000);
    pool_reason_stays(pool, WAIT_REASON_peer);
    release(two);
    assert_int_equal(fake.event_waits + fake.waits, 2);
}

static void
where_anothers_memory_is_reached_a_free_of_ones_own_waits_for_its_own_context(void **state) {
    (void)state;
    alloc(1000);
    CUdeviceptr own = alloc(2000);
    fake.current = fake_context(1, 1);
    CUdeviceptr reached = alloc(1000);
    fake.current = fake_context(0, 1);
    pool_peer_reaches(pool, fake_context(1, 1));
    assert_ptr_equal(fake.current, fake_context(0, 1));
    fake.waits = fake.event_waits = 0;
    release(own);
    assert_true(fake.event_waits + fake.waits <= 1);
    fake.waits = fake.event_waits = 0;
    release(reached);
    assert_int_equal(fake.event_waits + fake.waits, 2);
    pool_peer_reaches(pool, NULL); /* nobody knows whose */
    own = alloc(3000);
    fake.waits = fake.event_waits = 0;
    release(own);
    assert_int_equal(fake.event_waits + fake.waits, 2);
}

static void with_more_contexts_than_can_be_waited_for_a_block_is_really_freed(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    for (int number = 2; number < 80; number++) {
        fake.current = fake_context(0, number);
        alloc_at(100000, 2); /* nothing that the block could have served */
    }
    pool_reason_stays(pool, WAIT_REASON_peer);
    release(block);
    assert_int_equal(fake_size(block), 0);
}

static void memory_of_one_context_does_not_serve_another(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    release(block);
    fake.current = fake_context(0, 2);
    assert_int_not_equal(alloc(1000), block);
}

static void devices_are_kept_apart(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 20 * MIB);
    CUdeviceptr first = alloc(16 * MIB);
    release(first);
    fake.current = fake_context(1, 2);
    CUdeviceptr second = alloc(16 * MIB);
    release(second);
    alloc(18 * MIB); /* takes the second device's idle memory, not the first's */
    assert_int_equal(fake_size(second), 0);
    assert_int_not_equal(fake_size(first), 0);
    pool_primary_ending(pool, 1);
    assert_int_not_equal(fake_size(first), 0);
    pool_primary_ending(pool, 0);
    assert_int_equal(fake_size(first), 0);
    assert_true(pool_is_valid(pool));
}

static void out_of_memory_takes_from_every_context_of_the_device(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 20 * MIB);
    release(alloc(16 * MIB));
    fake.current = fake_context(0, 2);
    alloc(18 * MIB);
}

static void a_forked_child_forgets_everything_and_frees_nothing(void **state) {
    (void)state;
    CUdeviceptr live = alloc(1000), idle = alloc(5000);
    release(idle);
    int frees = fake.frees;
    go_on_as_child();
    assert_true(pool_is_valid(pool));
    assert_int_equal(fake.frees, frees);
    assert_int_not_equal(alloc(5000), idle);
    assert_int_not_equal(fake_size(live), 0);
}

static void without_host_memory_allocations_go_on_unrecorded(void **state) {
    (void)state;
    calloc_fails = true;
    CUdeviceptr pointer = 0;
    CUresult result = pool_malloc(pool, &pointer, 1000, &(struct call_site){{1}, 1});
    calloc_fails = false;
    assert_int_equal(result, CUDA_SUCCESS);
    assert_true(pool_is_valid(pool));
    release(pointer);
    assert_int_equal(fake.used, 0);
}

static void an_address_that_the_driver_gives_anew_replaces_its_stale_record(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    /* Something freed it past the pool, and the driver gives the address again. */
    pool_lock(pool);
    struct context *context = LIST_FIRST(&pool->contexts);
    struct site *own = context->sites;
    assert_non_null(ledger_add(pool, context, own, block, 2048, 2048));
    pool_unlock(pool);
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_live_blocks), 1);
}

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Every block handed out is large enough, overlaps no other, and the ledger is right at every step.
 */
static void a_long_random_run_keeps_every_invariant(void **state) {
    (void)state;
    enum { SLOTS = 48, STEPS = 6000 };
    CUdeviceptr live[SLOTS] = {0};
    uint32_t seed = 7;
    stop(NULL);
    start_with(&pool_defaults, 300 * MIB);
    for (int step = 0; step < STEPS; step++) {
        uint32_t slot = next_random(&seed) % SLOTS, what = next_random(&seed) % 1000;
        fake.quiet = what % 3;
        if (what == 0)
            pool_release(pool, 0, next_random(&seed) % (64 * MIB));
        else if (what == 1)
            pool_taint(pool, live[slot], POOL_TAINT_IPC);
        if (live[slot]) {
            release(live[slot]);
            live[slot] = 0;
            continue;
        }
        size_t bytes = 1 + next_random(&seed) % (what < 500 ? 64 * KIB : 24 * MIB);
        CUresult result = try_alloc(&live[slot], bytes, what % 9);
        if (result != CUDA_SUCCESS) {
            assert_int_equal(result, CUDA_ERROR_OUT_OF_MEMORY);
            if (fake.quiet) /* a busy context gives nothing back */
                assert_int_equal(stats_get(STATS_idle_bytes), 0);
            live[slot] = 0;
            continue;
        }
        assert_true(fake_size(live[slot]) >= bytes);
        for (uint32_t other = 0; other < SLOTS; other++)
            assert_true(other == slot || live[other] != live[slot]);
    }
    assert_true(stats_get(STATS_malloc_hits) > STEPS / 8);
    assert_true(stats_get(STATS_oom_rescued) > 0);
}

enum { MISSING = 8, ROUNDS = 80 };
static pthread_barrier_t round_ends, round_begins;

/* Misses in each round, between whose ends the context is another one. */
static void *miss(void *data) {
    enum { MISSES = 64 };
    struct call_site key = site((uintptr_t)data);
    CUdeviceptr pointer;
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < MISSES; i++)
            if (pool_malloc(pool, &pointer, (i + 1) * 4096, &key) != CUDA_SUCCESS)
                return data;
        pthread_barrier_wait(&round_ends);
        pthread_barrier_wait(&round_begins);
    }
    return NULL;
}

/* What one thread's cache had and does not need must not be kept from the others: no thread ever
 * needs more than a slab. */
static void records_that_ended_contexts_leave_serve_all_threads(void **state) {
    (void)state;
    pthread_t threads[MISSING];
    pthread_barrier_init(&round_ends, NULL, MISSING + 1);
    pthread_barrier_init(&round_begins, NULL, MISSING + 1);
    for (uintptr_t i = 0; i < MISSING; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, miss, (void *)(i + 1)), 0);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&round_ends);
        pool_context_ending(pool, fake.current);
        pthread_barrier_wait(&round_begins);
    }
    for (int i = 0; i < MISSING; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_true(pool->record_count <= (size_t)MISSING * SLAB_MOST);
}

static void *churn(void *data) {
    enum { SLOTS = 16, STEPS = 4000 };
    CUdeviceptr live[SLOTS] = {0};
    uint32_t seed = (uint32_t)(uintptr_t)data;
    struct call_site key = site((uintptr_t)data);
    for (int step = 0; step < STEPS; step++) {
        uint32_t slot = next_random(&seed) % SLOTS;
        if (live[slot]) {
            if (pool_free(pool, live[slot]) != CUDA_SUCCESS)
                return data;
            live[slot] = 0;
        } else if (pool_malloc(pool, &live[slot], 1 + next_random(&seed) % (2 * MIB), &key) !=
                   CUDA_SUCCESS) {
            live[slot] = 0;
        }
    }
    for (int slot = 0; slot < SLOTS; slot++)
        if (live[slot] && pool_free(pool, live[slot]) != CUDA_SUCCESS)
            return data;
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state) {
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    stop(NULL);
    start_with(&pool_defaults, 40 * MIB); /* little enough to run out now and then */
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_live_blocks), 0);
    assert_int_equal(stats_get(STATS_held_bytes), fake.used);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_context_that_ends_gives_its_idle_memory_back_and_forgets_the_rest),
        TEST(the_same_handle_after_an_end_is_a_new_context),
        TEST(an_allocation_under_way_while_its_context_ends_is_not_recorded),
        TEST(no_block_is_given_back_whose_context_has_ended_meanwhile),
        TEST(an_allocation_waits_for_idle_memory_that_is_left_to_the_end_of_its_context),
        TEST(an_allocation_waits_for_regions_that_go_with_their_context),
        TEST(a_context_is_not_lost_by_an_error_of_the_one_that_its_memory_is_freed_in),
        TEST(a_free_in_a_context_that_is_gone_takes_no_block_of_another_thread),
        TEST(the_free_of_a_part_in_a_lost_context_frees_no_region),
        TEST(a_free_under_way_while_its_context_ends_keeps_nothing),
        TEST(a_context_does_not_end_while_another_thread_makes_it_current),
        TEST(a_context_that_may_be_ending_is_not_made_current),
        TEST(a_release_that_is_not_the_last_ends_nothing),
        TEST(a_context_that_may_be_ending_hands_nothing_out),
        TEST(a_context_that_takes_the_place_of_a_released_one_gets_nothing_of_it),
        TEST(after_the_last_release_all_memory_is_forgotten_and_none_freed),
        TEST(a_created_context_outlives_its_devices_primary_one),
        TEST(a_free_waits_for_its_own_context_alone),
        TEST(a_free_waits_for_a_copy_between_contexts_once),
        TEST(a_free_of_the_other_context_waits_for_a_copy_between_them),
        TEST(a_free_waits_for_another_threads_copy_between_contexts),
        TEST(a_copy_in_a_context_that_was_not_met_before_is_waited_for_as_any),
        TEST(a_copy_in_a_context_that_ends_is_waited_for_no_more),
        TEST(a_context_that_only_exists_is_one_to_copy_from),
        TEST(where_contexts_reach_each_others_memory_a_free_waits_for_all),
        TEST(where_anothers_memory_is_reached_a_free_of_ones_own_waits_for_its_own_context),
        TEST(with_more_contexts_than_can_be_waited_for_a_block_is_really_freed),
        TEST(memory_of_one_context_does_not_serve_another),
        TEST(devices_are_kept_apart),
        TEST(out_of_memory_takes_from_every_context_of_the_device),
        TEST(a_forked_child_forgets_everything_and_frees_nothing),
        TEST(without_host_memory_allocations_go_on_unrecorded),
        TEST(an_address_that_the_driver_gives_anew_replaces_its_stale_record),
        TEST(a_long_random_run_keeps_every_invariant),
        TEST(records_that_ended_contexts_leave_serve_all_threads),
        TEST(threads_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
