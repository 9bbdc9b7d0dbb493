/* What becomes of the wait that belongs to a free: made at once, owed and paid, or a fence instead;
 * and the gate that keeps the pool's own calls out of stream captures. */
#include "peers/own_open.h"
#include "pool_test.h"

#include <pthread.h>

static void start_in(enum pool_free_mode mode) {
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.free_mode = mode;
    start_with(&config, 80 * GIB);
    fake.quiet = false; /* the device is busy, so that waiting and asking differ */
}

static uint64_t waited(void) {
    return stats_get(STATS_free_waited);
}

static void in_sync_mode_every_free_waits(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    alloc(9000);
    release(alloc(1000));
    assert_int_equal(fake.event_waits, 1);
    assert_int_equal(order_word, 0);
}

static void in_auto_mode_the_wait_is_owed_and_paid_once_for_all(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    alloc(9000);
    CUdeviceptr one = alloc_at(1000, 1), two = alloc_at(1000, 2);
    release(one);
    release(two);
    assert_int_equal(fake.waits, 0);
    assert_true(wait_is_owed());
    assert_int_equal(alloc_at(1000, 1), one); /* in the legacy stream its new life comes second */
    pool_pay(pool, "cuEventQuery");
    assert_int_equal(fake.records, 1);
    assert_int_equal(fake.event_waits, 1);
    assert_int_equal(fake.waits, 0); /* which could last longer than what was freed */
    assert_int_equal(order_word, 0);
    pool_pay(pool, "cuEventQuery");
    assert_int_equal(fake.event_waits, 1);
    assert_int_equal(stats_get(STATS_waits_owed), 2);
    assert_int_equal(stats_get(STATS_waits_paid), 1);
}

static void the_free_of_the_last_block_waits(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    CUdeviceptr one = alloc(1000), two = alloc(2000);
    release(one);
    assert_true(wait_is_owed());
    release(two);
    assert_int_equal(fake.event_waits, 1);
    assert_int_equal(fake.waits, 0); /* the streams that hold work are known */
    assert_int_equal(order_word, 0); /* that wait covered both */
}

static void every_reason_makes_frees_wait_while_it_lasts(void **state) {
    (void)state;
    for (int reason = 0; reason < WAIT_REASONS; reason++) {
        start_in(POOL_FREE_AUTO);
        alloc(9000);
        pool_reason_begins(pool, (enum wait_reason)reason);
        pool_reason_begins(pool, (enum wait_reason)reason);
        release(alloc(1000));
        pool_reason_ends(pool, (enum wait_reason)reason);
        release(alloc(1000));
        assert_int_equal(waited(), 2);
        pool_reason_ends(pool, (enum wait_reason)reason);
        release(alloc(1000));
        assert_int_equal(waited(), 2);
        assert_true(wait_is_owed());
    }
}

static void a_reason_that_stays_cannot_be_ended(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    alloc(9000);
    pool_reason_stays(pool, WAIT_REASON_managed);
    pool_reason_stays(pool, WAIT_REASON_managed);
    release(alloc(1000));
    assert_int_equal(waited(), 1);
}

static void work_that_only_a_wait_covers_makes_one_free_wait(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    alloc(9000);
    pool_work_pending(pool);
    release(alloc(1000));
    assert_int_equal(waited(), 1);
    release(alloc(1000));
    assert_int_equal(waited(), 1);
}

static void submit_more_work(void) {
    fake.on_wait = NULL;
    pool_work_pending(pool);
}

static void work_submitted_during_a_wait_needs_another(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    alloc(9000);
    pool_work_pending(pool);
    fake.on_wait = submit_more_work;
    release(alloc(1000));
    release(alloc(1000));
    assert_int_equal(waited(), 2);
}

static void each_of_several_contexts_owes_its_own_waits(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    alloc(9000);
    CUdeviceptr block = alloc(1000);
    fake.current = fake_context(1, 1);
    alloc(9000);
    CUdeviceptr other = alloc(1000);
    release(other);
    fake.current = fake_context(0, 1);
    release(block);
    assert_int_equal(waited(), 0);
    fake.quiet = true;
    pool_pay(pool, "cuEventQuery");
    assert_int_equal(fake.event_waits + fake.event_queries, 2);
    assert_int_equal(order_word, ORDER_CONTEXTS);
}

static void a_copy_into_a_context_that_owes_a_wait_pays_if_it_is_made_in_another(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    alloc(9000);
    CUdeviceptr block = alloc(1000);
    release(block);
    fake.current = fake_context(1, 1);
    alloc(9000);
    pool_submits(pool, CU_STREAM_LEGACY, "cuLaunchKernel");
    fake.quiet = true;
    assert_int_equal(fake.event_queries, 0);
    pool_reaches(pool, CU_STREAM_LEGACY, NULL, 0, false, "cuMemcpyPeer");
    assert_int_equal(fake.event_queries, 1);
    assert_int_equal(fake.event_waits, 0);
}

static void a_created_context_owes_its_waits(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    pool_context_created(pool, fake.current);
    alloc(9000);
    release(alloc(1000));
    assert_true(wait_is_owed());
}

/* A pool on devices that reach plain host memory. */
static void start_reaching(enum pool_free_mode mode, enum pool_pageable pageable,
                           bool host_page_tables) {
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.free_mode = mode;
    config.pageable = pageable;
    start_with(&config, 80 * GIB);
    fake.quiet = false;
    fake.pageable_access = true;
    fake.host_page_tables = host_page_tables;
}

static void a_device_with_the_hosts_page_tables_makes_frees_wait(void **state) {
    (void)state;
    start_reaching(POOL_FREE_AUTO, POOL_PAGEABLE_LOOK, true);
    alloc(9000);
    release(alloc(1000));
    assert_int_equal(waited(), 1);
    assert_int_equal(pool_awaits_host_addresses(pool), POOL_AWAITS_NEVER);
}

static void a_device_that_reaches_host_memory_makes_frees_wait_where_nobody_looks(void **state) {
    (void)state;
    start_reaching(POOL_FREE_AUTO, POOL_PAGEABLE_WAIT, false);
    alloc(9000);
    release(alloc(1000));
    assert_int_equal(waited(), 1);
    assert_int_equal(pool_awaits_host_addresses(pool), POOL_AWAITS_NEVER);
}

static void else_it_makes_them_wait_from_the_first_address_on(void **state) {
    (void)state;
    start_reaching(POOL_FREE_AUTO, POOL_PAGEABLE_LOOK, false);
    assert_int_equal(pool_awaits_host_addresses(pool), POOL_AWAITS_THE_FIRST);
    alloc(9000);
    release(alloc(1000));
    assert_int_equal(waited(), 0);
    assert_true(wait_is_owed());
    pool_host_address_given(pool);
    assert_int_equal(pool_awaits_host_addresses(pool), POOL_AWAITS_NEVER);
    release(alloc(1000));
    release(alloc(1000)); /* which no thread's cache may take without a wait */
    assert_int_equal(waited(), 2);
}

static void an_address_is_no_matter_where_the_device_reaches_no_host_memory(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    assert_int_equal(pool_awaits_host_addresses(pool), POOL_AWAITS_NEVER);
    pool_host_address_given(pool);
    alloc(9000);
    release(alloc(1000));
    assert_int_equal(waited(), 0);
}

static void no_address_is_looked_for_where_frees_owe_nothing(void **state) {
    (void)state;
    start_reaching(POOL_FREE_DEFER, POOL_PAGEABLE_LOOK, false);
    assert_int_equal(pool_awaits_host_addresses(pool), POOL_AWAITS_NEVER);
    start_reaching(POOL_FREE_SYNC, POOL_PAGEABLE_LOOK, false);
    assert_int_equal(pool_awaits_host_addresses(pool), POOL_AWAITS_NEVER);
}

static void a_driver_that_cannot_say_yet_is_asked_again(void **state) {
    (void)state;
    start_reaching(POOL_FREE_AUTO, POOL_PAGEABLE_LOOK, false);
    fake.attribute_result = CUDA_ERROR_NOT_INITIALIZED;
    assert_int_equal(pool_awaits_host_addresses(pool), POOL_AWAITS_NOT_YET);
    fake.attribute_result = CUDA_SUCCESS;
    assert_int_equal(pool_awaits_host_addresses(pool), POOL_AWAITS_THE_FIRST);
}

static void an_old_driver_that_does_not_know_of_it_answers_as_well(void **state) {
    (void)state;
    start_reaching(POOL_FREE_AUTO, POOL_PAGEABLE_LOOK, false);
    fake.attribute_result = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(pool_awaits_host_addresses(pool), POOL_AWAITS_NEVER);
    alloc(9000);
    release(alloc(1000));
    assert_int_equal(waited(), 0);
}

static void a_forked_child_has_given_no_address(void **state) {
    (void)state;
    start_reaching(POOL_FREE_AUTO, POOL_PAGEABLE_LOOK, false);
    pool_host_address_given(pool);
    go_on_as_child();
    assert_int_equal(pool_awaits_host_addresses(pool), POOL_AWAITS_THE_FIRST);
}

static CUdeviceptr freed_meanwhile;
static void free_meanwhile(void) {
    fake.on_wait = NULL;
    assert_int_equal(pool_free(pool, freed_meanwhile), CUDA_SUCCESS);
}

static void a_free_during_the_payment_owes_anew(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    alloc(9000);
    CUdeviceptr block = alloc(1000);
    freed_meanwhile = alloc(1000);
    release(block);
    fake.on_wait = free_meanwhile;
    pool_pay(pool, "cuEventQuery");
    assert_true(wait_is_owed());
    pool_pay(pool, "cuEventQuery");
    assert_int_equal(fake.event_waits, 2);
    assert_int_equal(order_word, 0);
}

static void what_is_owed_is_paid_before_a_capture_begins(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    alloc(9000);
    release(alloc(1000));
    pool_capture_began(pool, "cuStreamBeginCapture");
    assert_int_equal(fake.event_waits, 1);
    assert_int_equal(order_word, 0);
    pool_capture_ended(pool);
}

static void a_context_that_ends_owes_nothing(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    alloc(9000);
    release(alloc(1000));
    pool_context_ending(pool, fake.current);
    assert_int_equal(order_word, 0);
}

/* Deferred frees. */

static void in_defer_mode_a_free_neither_waits_nor_asks(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    release(alloc(1000));
    assert_int_equal(fake.waits + fake.records + fake.event_waits, 0);
    assert_int_equal(stats_get(STATS_idle_bytes), 1024);
}

static void a_deferred_block_is_handed_out_once_its_fence_has_passed(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    CUdeviceptr block = alloc(1000);
    release(block);
    fake.quiet = true;
    assert_int_equal(alloc(1000), block);
    assert_int_equal(fake.records, 1);
    assert_int_equal(fake.waits + fake.event_waits, 0);
}

static void one_fence_covers_all_blocks_freed_before(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    CUdeviceptr blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = alloc(1000);
    for (int i = 0; i < 8; i++)
        release(blocks[i]);
    fake.quiet = true;
    for (int i = 0; i < 8; i++)
        alloc(1000);
    assert_int_equal(fake.records, 1);
    assert_int_equal(fake.allocs, 8);
}

static void the_only_block_that_fits_is_waited_for(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    CUdeviceptr block = alloc(1000);
    release(block);
    assert_int_equal(alloc(1000), block);
    assert_int_equal(fake.event_waits, 1);
}

static void a_block_that_does_not_fit_is_not_waited_for(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    release(alloc(100000));
    alloc(1000);
    assert_int_equal(fake.event_waits, 0);
    assert_int_equal(fake.allocs, 2);
}

static CUdeviceptr freed_late;
static void free_late(void) {
    fake.on_record = NULL;
    assert_int_equal(pool_free(pool, freed_late), CUDA_SUCCESS);
}

static void a_block_freed_while_a_fence_is_recorded_needs_a_later_one(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    CUdeviceptr early = alloc(1000);
    freed_late = alloc(1000);
    release(early);
    fake.on_record = free_late;
    fake.quiet = true;
    assert_int_equal(alloc(1000), early);
    assert_int_equal(fake.records, 1);
    assert_int_equal(alloc(1000), freed_late);
    assert_int_equal(fake.records, 2);
}

static void a_fence_that_cannot_be_recorded_frees_nothing(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    CUdeviceptr block = alloc(1000);
    release(block);
    fake.quiet = true;
    fake.record_result = CUDA_ERROR_INVALID_HANDLE;
    assert_int_not_equal(alloc(1000), block);
    fake.record_result = CUDA_SUCCESS;
    assert_int_equal(alloc(1000), block);
}

static void a_deferred_block_is_released_when_memory_runs_out(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    fake.capacity = 20 * MIB;
    CUdeviceptr block = alloc(16 * MIB);
    release(block);
    alloc(2 * MIB);
    fake.quiet = true;
    alloc(18 * MIB);
    assert_int_equal(fake_size(block), 0);
}

static void a_second_free_of_a_deferred_block_is_refused(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    CUdeviceptr block = alloc(1000);
    release(block);
    assert_int_equal(try_free(block), CUDA_ERROR_INVALID_VALUE);
}

static void end_the_context(void) {
    fake.on_record = NULL;
    pool_context_ending(pool, fake.current);
}

static void a_context_that_ends_while_a_fence_is_recorded_keeps_nothing(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    CUdeviceptr block = alloc(1000);
    release(block);
    fake.on_record = end_the_context;
    alloc(1000);
    assert_int_equal(fake_size(block), 0);
    assert_int_equal(stats_get(STATS_idle_bytes), 0);
}

/* Frees a block while another context has memory, and takes it again. */
static void defer_beside_another_context(void) {
    CUdeviceptr block = alloc(1000);
    fake.current = fake_context(0, 2);
    alloc(1000);
    fake.current = fake_context(0, 1);
    release(block);
    fake.quiet = true;
    assert_int_equal(alloc(1000), block);
}

static void a_deferred_free_is_fenced_in_its_own_context(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    defer_beside_another_context();
    assert_int_equal(fake.records, 1);
}

static void all_contexts_are_fenced_where_they_reach_each_others_memory(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    pool_reason_stays(pool, WAIT_REASON_peer);
    defer_beside_another_context();
    assert_int_equal(fake.records, 2);
}

static void a_deferred_free_is_fenced_before_the_next_submission(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    CUdeviceptr block = alloc(1000);
    release(block);
    pool_submits(pool, CU_STREAM_LEGACY, "cuLaunchKernel");
    assert_int_equal(fake.records, 1);
    pool_submits(pool, CU_STREAM_LEGACY, "cuLaunchKernel");
    fake.quiet = true;
    assert_int_equal(alloc(1000), block);
    assert_int_equal(fake.records, 1);
}

static void a_context_that_ends_as_it_is_fenced_leaves_no_other_one_unfenced(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    CUdeviceptr block = alloc(1000);
    fake.current = fake_context(0, 2);
    release(alloc(1000));
    fake.current = fake_context(0, 1);
    release(block);
    fake.on_record = end_the_context;
    pool_submits(pool, CU_STREAM_LEGACY, "cuLaunchKernel");
    assert_int_equal(fake.records, 2);
}

/* The gate. */

static void *begin_capture(void *data) {
    pool_capture_began(pool, "cuStreamBeginCapture");
    atomic_store((atomic_int *)data, 1);
    return NULL;
}

static atomic_int began;
static pthread_t capturing_thread;

/* The device has nothing to do, so the wait is for nothing but its thread's turn, however long that
 * takes: whoever closes the gate has asked for that several times. */
static void capture_meanwhile(void) {
    fake.on_wait = NULL;
    fake.quiet = true;
    pthread_create(&capturing_thread, NULL, begin_capture, &began);
    while (__atomic_load_n(&fake.records, __ATOMIC_RELAXED) < 3 && !atomic_load(&began))
        futex_pause();
    assert_int_equal(began, 0);
}

static void a_capture_does_not_begin_during_a_wait_for_a_context(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    pool_reason_stays(pool, WAIT_REASON_green); /* whose work the primary context's events miss */
    atomic_store(&began, 0);
    CUdeviceptr block = alloc(1000);
    fake.on_wait = capture_meanwhile;
    assert_int_equal(pool_free(pool, block), CUDA_SUCCESS);
    pthread_join(capturing_thread, NULL);
    assert_int_equal(began, 1);
    pool_capture_ended(pool);
}

static void capture_at_once(void) {
    fake.on_wait = NULL;
    assert_int_equal(fake.capture_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    pthread_create(&capturing_thread, NULL, begin_capture, &began);
    pthread_join(capturing_thread, NULL);
}

static void a_capture_begins_at_once_during_a_wait_for_an_event(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    atomic_store(&began, 0);
    CUdeviceptr block = alloc(1000);
    fake.capture_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    fake.on_wait = capture_at_once;
    assert_int_equal(pool_free(pool, block), CUDA_SUCCESS);
    assert_int_equal(began, 1);
    assert_int_equal(fake.records, 1); /* the gate has asked for nothing */
    assert_int_equal(fake.capture_mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    pool_capture_ended(pool);
}

static void begin_another_capture(void) {
    fake.on_wait = NULL;
    pthread_create(&capturing_thread, NULL, begin_capture, &began);
    while (atomic_load(&pool->captures) < 2)
        futex_pause();
    for (int i = 0; i < 200; i++) /* so that it pays, if it does */
        futex_pause();
}

/* A capture begins while a wait is owed, and another one while that is made. */
static void capture_twice(void (*on_wait)(void)) {
    start_in(POOL_FREE_AUTO);
    atomic_store(&began, 0);
    CUdeviceptr block = alloc(1000);
    alloc(1000);
    release(block);
    assert_true(wait_is_owed());
    fake.on_wait = on_wait;
    pool_capture_began(pool, "cuStreamBeginCapture");
}

static void one_of_several_captures_that_begin_at_once_pays_what_is_owed(void **state) {
    (void)state;
    capture_twice(begin_another_capture);
    pthread_join(capturing_thread, NULL);
    assert_int_equal(fake.event_waits,
                     1); /* a second might come after the first capture has begun */
    assert_false(wait_is_owed());
    pool_capture_ended(pool);
    pool_capture_ended(pool);
}

/* The device does not finish before that thread has begun its capture. */
static void begin_another_capture_and_await_it(void) {
    fake.on_wait = NULL;
    pthread_create(&capturing_thread, NULL, begin_capture, &began);
    pthread_join(capturing_thread, NULL);
}

static void
a_capture_is_not_held_up_by_the_wait_of_another_one_that_needs_its_thread(void **state) {
    (void)state;
    capture_twice(begin_another_capture_and_await_it);
    assert_int_equal(began, 1);
    assert_int_equal(fake.event_waits, 1);
    pool_capture_ended(pool);
    pool_capture_ended(pool);
    assert_false(pool_is_capturing(pool));
    assert_int_equal(atomic_load(&pool->begun), 0);
}

/* A thread that was cancelled in a call of the driver never leaves. */
static void a_thread_that_ended_inside_does_not_hold_up_captures_for_ever(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    release(alloc(1000));
    fake.quiet = true;
    assert_true(pool_gate_enter(pool));
    pool_capture_began(pool, "cuStreamBeginCapture");
    pool_capture_ended(pool);
    assert_int_equal(pool->gate_lost, 1);
    pool_gate_leave(pool); /* were it alive after all */
    pool_capture_began(pool, "cuStreamBeginCapture");
    pool_capture_ended(pool);
    assert_int_equal(pool->gate_lost, 0);
}

static void *submit(void *unused) {
    pool_submits(pool, CU_STREAM_LEGACY, "cuLaunchKernel");
    return unused;
}

/* The thread that records a fence comes back no sooner than another one has submitted something. */
static void submit_meanwhile(void) {
    pthread_t thread;
    fake.on_record = NULL;
    pthread_create(&thread, NULL, submit, NULL);
    pthread_join(thread, NULL);
}

static void
a_submission_does_not_wait_for_ever_for_another_thread_that_records_a_fence(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    alloc(9000);
    release(alloc(1000));
    fake.on_record = submit_meanwhile;
    submit(NULL);
    assert_null(fake.on_record);
    assert_int_equal(order_word & ORDER_DEFERRED, 0);
    release(alloc(1000));
    submit(NULL);
    assert_int_equal(order_word & ORDER_DEFERRED, 0);
    assert_true(pool_is_valid(pool));
}

static void the_end_of_a_capture_that_was_not_counted_opens_no_gate(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    atomic_store(&pool->captures, 1); /* one that is about to begin */
    pool_capture_ended(pool);
    assert_true(pool_is_capturing(pool));
    atomic_store(&pool->captures, 0);
}

static void wait_for_ever(void) {
    fake.on_wait = NULL; /* the kernel that is waited for needs the thread that begins a capture */
    pool_capture_began(pool, "cuStreamBeginCapture");
}

static void a_wait_that_needs_the_capturing_thread_does_not_lock_up(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    CUdeviceptr block = alloc(1000);
    fake.on_wait = wait_for_ever;
    assert_int_equal(pool_free(pool, block), CUDA_SUCCESS);
    pool_capture_ended(pool);
}

static void during_a_capture_the_pool_makes_no_call_of_its_own(void **state) {
    (void)state;
    for (int mode = POOL_FREE_SYNC; mode <= POOL_FREE_DEFER; mode++) {
        start_in((enum pool_free_mode)mode);
        CUdeviceptr before = alloc(1000), idle = alloc(1000);
        release(idle);
        pool_capture_began(pool, "cuStreamBeginCapture");
        int calls = fake.waits + fake.records + fake.event_waits;
        CUdeviceptr during = alloc(1000);
        assert_int_not_equal(during, idle);
        release(during);
        release(before);
        assert_int_equal(fake_size(before), 0);
        assert_int_equal(fake.waits + fake.records + fake.event_waits, calls);
        pool_capture_ended(pool);
    }
}

static void a_stream_destroyed_while_captured_is_told(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    fake.captured = (CUstream)&fake.frees;
    assert_false(pool_stream_ends(pool, fake.captured));
    pool_capture_began(pool, "cuStreamBeginCapture");
    pool_capture_named(pool, fake.captured);
    assert_true(pool_stream_ends(pool, fake.captured));
    assert_false(pool_stream_ends(pool, (CUstream)&fake.allocs));
    pool_capture_ended(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(in_sync_mode_every_free_waits),
        TEST(in_auto_mode_the_wait_is_owed_and_paid_once_for_all),
        TEST(the_free_of_the_last_block_waits),
        TEST(every_reason_makes_frees_wait_while_it_lasts),
        TEST(a_reason_that_stays_cannot_be_ended),
        TEST(work_that_only_a_wait_covers_makes_one_free_wait),
        TEST(work_submitted_during_a_wait_needs_another),
        TEST(each_of_several_contexts_owes_its_own_waits),
        TEST(a_copy_into_a_context_that_owes_a_wait_pays_if_it_is_made_in_another),
        TEST(a_created_context_owes_its_waits),
        TEST(a_device_with_the_hosts_page_tables_makes_frees_wait),
        TEST(a_device_that_reaches_host_memory_makes_frees_wait_where_nobody_looks),
        TEST(else_it_makes_them_wait_from_the_first_address_on),
        TEST(an_address_is_no_matter_where_the_device_reaches_no_host_memory),
        TEST(no_address_is_looked_for_where_frees_owe_nothing),
        TEST(a_driver_that_cannot_say_yet_is_asked_again),
        TEST(an_old_driver_that_does_not_know_of_it_answers_as_well),
        TEST(a_forked_child_has_given_no_address),
        TEST(a_free_during_the_payment_owes_anew),
        TEST(what_is_owed_is_paid_before_a_capture_begins),
        TEST(a_context_that_ends_owes_nothing),
        TEST(in_defer_mode_a_free_neither_waits_nor_asks),
        TEST(a_deferred_block_is_handed_out_once_its_fence_has_passed),
        TEST(one_fence_covers_all_blocks_freed_before),
        TEST(the_only_block_that_fits_is_waited_for),
        TEST(a_block_that_does_not_fit_is_not_waited_for),
        TEST(a_block_freed_while_a_fence_is_recorded_needs_a_later_one),
        TEST(a_fence_that_cannot_be_recorded_frees_nothing),
        TEST(a_deferred_block_is_released_when_memory_runs_out),
        TEST(a_second_free_of_a_deferred_block_is_refused),
        TEST(a_context_that_ends_while_a_fence_is_recorded_keeps_nothing),
        TEST(a_deferred_free_is_fenced_in_its_own_context),
        TEST(all_contexts_are_fenced_where_they_reach_each_others_memory),
        TEST(a_deferred_free_is_fenced_before_the_next_submission),
        TEST(a_context_that_ends_as_it_is_fenced_leaves_no_other_one_unfenced),
        TEST(a_capture_does_not_begin_during_a_wait_for_a_context),
        TEST(a_capture_begins_at_once_during_a_wait_for_an_event),
        TEST(one_of_several_captures_that_begin_at_once_pays_what_is_owed),
        TEST(a_capture_is_not_held_up_by_the_wait_of_another_one_that_needs_its_thread),
        TEST(a_thread_that_ended_inside_does_not_hold_up_captures_for_ever),
        TEST(a_submission_does_not_wait_for_ever_for_another_thread_that_records_a_fence),
        TEST(the_end_of_a_capture_that_was_not_counted_opens_no_gate),
        TEST(a_wait_that_needs_the_capturing_thread_does_not_lock_up),
        TEST(during_a_capture_the_pool_makes_no_call_of_its_own),
        TEST(a_stream_destroyed_while_captured_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
