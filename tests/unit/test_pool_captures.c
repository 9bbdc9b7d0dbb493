/* What the pool does about captures whose end no function tells: it asks their streams. */
#include "pool/internal.h"
#include "pool_test.h"

#include <pthread.h>

#define STREAM(number) ((CUstream)(uintptr_t)(0x1000 + (number)))

static int start_in_auto(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    config.free_mode = POOL_FREE_AUTO;
    start_with(&config, GIB);
    return 0;
}

static void begin(CUstream stream) {
    pool_capture_began(pool, "cuStreamBeginCapture_v2");
    pool_capture_named(pool, stream);
}

static void *begin_in_own_stream(void *data) {
    begin(CU_STREAM_PER_THREAD);
    return data;
}

static void use(int times) {
    for (int i = 0; i < times; i++)
        release(alloc(1000));
}

static void a_capture_that_has_ended_unheard_is_found_by_asking_its_stream(void **state) {
    (void)state;
    fake.captured = STREAM(1);
    begin(STREAM(1));
    use(100);
    assert_true(pool_is_capturing(pool));
    fake.captured = NULL;
    use(16);
    assert_false(pool_is_capturing(pool));
}

static void the_end_of_one_stream_is_not_that_of_another(void **state) {
    (void)state;
    fake.captured = STREAM(2);
    begin(STREAM(1));
    begin(STREAM(2));
    pool_capture_ended_in(pool, STREAM(1));
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_in(pool, STREAM(1)); /* told twice */
    use(100);
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_in(pool, STREAM(2));
    assert_false(pool_is_capturing(pool));
}

static void a_stream_that_only_its_thread_can_name_is_never_asked(void **state) {
    (void)state;
    begin(CU_STREAM_PER_THREAD);
    use(100);
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_in(pool, NULL);
    assert_false(pool_is_capturing(pool));
}

static void a_capture_in_a_per_thread_stream_ends_with_its_context(void **state) {
    (void)state;
    begin(CU_STREAM_PER_THREAD);
    pool_context_ending(pool, fake_context(1, 1)); /* another one */
    assert_true(pool_is_capturing(pool));
    pool_context_ending(pool, fake.current);
    assert_false(pool_is_capturing(pool));
    begin(CU_STREAM_PER_THREAD);
    pool_primary_ending(pool, 1);
    assert_true(pool_is_capturing(pool));
    pool_primary_ending(pool, 0);
    assert_false(pool_is_capturing(pool));
}

static void a_capture_in_a_per_thread_stream_ends_with_its_thread(void **state) {
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, begin_in_own_stream, NULL), 0);
    pthread_join(thread, NULL);
    begin(CU_STREAM_PER_THREAD);          /* by this one, which goes on */
    while (atomic_load(&pool->begun) > 1) /* the system takes its time with the other's end */
        use(16);
    use(100);
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_in(pool, CU_STREAM_PER_THREAD);
    assert_false(pool_is_capturing(pool));
}

static void a_capture_of_which_no_stream_tells_ends_with_its_context(void **state) {
    (void)state;
    pool_capture_began(pool, "cuStreamBeginCaptureToCig");
    pool_capture_unseen(pool, STREAM(1));
    use(100);
    assert_true(pool_is_capturing(pool));
    pool_context_ending(pool, fake.current);
    assert_false(pool_is_capturing(pool));
}

static void an_end_in_an_unknown_stream_is_looked_for(void **state) {
    (void)state;
    fake.captured = STREAM(2);
    begin(STREAM(1));
    begin(STREAM(2));
    pool_capture_ended_somewhere(pool); /* in the first, as it turns out */
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_in(pool, STREAM(1));
    assert_true(pool_is_capturing(pool));
    fake.captured = NULL;
    pool_capture_ended_somewhere(pool);
    assert_false(pool_is_capturing(pool));
}

/* The thread that ends a capture tells so after the driver's call; meanwhile another thread's calls
 * have the stream asked. */
static void an_end_told_after_its_stream_was_asked_is_not_another_captures(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        fake.captured = STREAM(1);
        begin(STREAM(1));
        fake.captured = NULL;
        use(16);
        assert_false(pool_is_capturing(pool));
        pool_capture_began(pool, "cuStreamBeginCapture_v2");
        pool_capture_ended_in(pool, STREAM(1));
        assert_true(pool_is_capturing(pool));
        fake.captured = STREAM(2);
        pool_capture_named(pool, STREAM(2));
        pool_capture_ended_in(pool, STREAM(2));
        assert_false(pool_is_capturing(pool));
    }
}

static void a_stream_whose_captures_end_was_not_told_can_be_captured_again(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        fake.captured = STREAM(1);
        begin(STREAM(1));
        use(100);
        assert_true(pool_is_capturing(pool));
        fake.captured = NULL;
        use(16);
        assert_false(pool_is_capturing(pool));
    }
    begin(STREAM(1));
    pool_capture_ended_in(pool, STREAM(1));
    assert_false(pool_is_capturing(pool));
    assert_false(pool_stream_ends(pool, STREAM(1)));
}

static void a_new_capture_in_a_stream_proves_that_the_former_one_is_over(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        fake.captured = STREAM(1);
        begin(STREAM(1));
        begin(STREAM(1));
        assert_true(pool_is_capturing(pool));
        fake.captured = NULL;
        pool_capture_ended_in(pool, STREAM(1));
        assert_false(pool_is_capturing(pool));
    }
}

static void a_late_end_is_not_that_of_a_new_capture_in_the_same_stream(void **state) {
    (void)state;
    fake.captured = STREAM(1);
    begin(STREAM(1));
    fake.captured = NULL;
    use(16);
    fake.captured = STREAM(1);
    begin(STREAM(1));
    pool_capture_ended_in(pool, STREAM(1));
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_in(pool, STREAM(1));
    assert_false(pool_is_capturing(pool));
}

static void begin_anew(void) {
    fake.on_ask = NULL;
    fake.captured = STREAM(1);
    begin(STREAM(1));
}

static void an_answer_about_the_capture_before_is_not_one_about_the_last(void **state) {
    (void)state;
    fake.captured = STREAM(1);
    begin(STREAM(1));
    fake.captured = NULL;
    fake.on_ask = begin_anew; /* once the answer is known, and before anybody has heard it */
    use(16);
    assert_null(fake.on_ask);
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_in(pool, STREAM(1)); /* of the first */
    assert_true(pool_is_capturing(pool));
    fake.captured = NULL;
    pool_capture_ended_in(pool, STREAM(1));
    assert_false(pool_is_capturing(pool));
}

static void end_what_never_began(void) {
    fake.on_wait = NULL;
    pool_capture_ended_in(pool, STREAM(9));
}

static void an_end_that_was_never_counted_is_not_that_of_a_capture_that_begins(void **state) {
    (void)state;
    CUdeviceptr kept = alloc(1000);
    release(alloc(1000));
    assert_true(wait_is_owed());
    fake.on_wait = end_what_never_began; /* while the beginning capture pays */
    fake.captured = STREAM(1);
    begin(STREAM(1));
    assert_null(fake.on_wait);
    pool_capture_ended_in(pool, STREAM(1));
    assert_false(pool_is_capturing(pool));
    release(kept);
}

static void streams_that_may_be_gone_are_not_asked(void **state) {
    (void)state;
    fake.captured = STREAM(1);
    begin(STREAM(1));
    begin(STREAM(2));
    fake.captured = NULL;
    pool_captured_streams_lost(pool);
    use(100);
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_in(pool, STREAM(1));
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_in(pool, STREAM(2));
    assert_false(pool_is_capturing(pool));
}

static void a_capture_that_its_stream_may_not_tell_of_is_never_asked_about(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        pool_capture_began(pool, "cuStreamBeginCaptureToCig");
        pool_capture_unseen(pool, STREAM(1));
        use(100);
        assert_true(pool_is_capturing(pool));
        pool_capture_ended_in(pool, STREAM(1));
        assert_false(pool_is_capturing(pool));
        fake.captured = STREAM(1);
        begin(STREAM(1)); /* whose end is not told */
    }
}

static void a_release_asks_no_stream_until_it_is_known_whether_it_was_the_last(void **state) {
    (void)state;
    fake.captured = STREAM(1);
    begin(STREAM(1));
    fake.captured = NULL;
    pool_primary_releasing(pool, 0);
    use(100);
    assert_true(pool_is_capturing(pool));
    pool_primary_released(pool, 0);
    use(16);
    assert_false(pool_is_capturing(pool));
}

static void an_end_in_an_unknown_stream_is_that_of_a_capture_found_over_before(void **state) {
    (void)state;
    fake.captured = STREAM(1);
    begin(STREAM(1));
    fake.captured = NULL;
    use(16); /* another thread's calls: it is found over */
    pool_capture_began(pool, "cuStreamBeginCapture_v3"); /* one that nobody can name */
    pool_capture_ended_somewhere(pool);                  /* the first one's end */
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_somewhere(pool);
    assert_false(pool_is_capturing(pool));
}

static void a_capture_ends_with_its_stream_but_not_with_one_that_it_drew_in(void **state) {
    (void)state;
    fake.captured = STREAM(1);
    begin(STREAM(1));
    fake.captured = STREAM(2);
    assert_false(pool_stream_ends(pool, STREAM(2)));
    assert_true(pool_is_capturing(pool));
    fake.captured = STREAM(1);
    assert_true(pool_stream_ends(pool, STREAM(1)));
    pool_capture_ended(pool);
    assert_false(pool_is_capturing(pool));
}

/* A per-thread stream may have drawn the other one in; another thread captures as well. */
static void a_captured_stream_that_has_no_name_ends_no_capture_when_it_is_destroyed(void **state) {
    (void)state;
    pthread_t thread;
    begin(CU_STREAM_PER_THREAD);
    assert_int_equal(pthread_create(&thread, NULL, begin_in_own_stream, NULL), 0);
    pthread_join(thread, NULL);
    fake.captured = STREAM(2);
    assert_false(pool_stream_ends(pool, STREAM(2)));
    pool_capture_ended_in(pool, CU_STREAM_PER_THREAD);
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_in(pool, CU_STREAM_PER_THREAD);
    assert_false(pool_is_capturing(pool));
}

static void a_stream_is_known_by_its_own_context_whichever_is_current(void **state) {
    (void)state;
    release(alloc(1000)); /* so that the context is known */
    CUcontext own = fake.current;
    fake.stream_context = own;
    fake.current = (CUcontext)(uintptr_t)0x7770;
    fake.captured = STREAM(1);
    begin(STREAM(1));
    fake.current = own;
    pool_context_ending(pool, own);
    assert_false(pool_is_capturing(pool));
}

static void a_capture_ends_with_its_context(void **state) {
    (void)state;
    CUcontext context = fake.current;
    fake.captured = STREAM(1);
    begin(STREAM(1));
    pool_context_ending(pool, (CUcontext)(uintptr_t)0x7770);
    assert_true(pool_is_capturing(pool));
    pool_context_ending(pool, context);
    assert_false(pool_is_capturing(pool));
}

static void
a_capture_that_begins_while_its_context_ends_is_over_once_its_end_is_refused(void **state) {
    (void)state;
    CUcontext ending = fake.current, other = fake_context(1, 1);
    pool_context_created(pool, other);
    pool_context_ending(pool, ending);
    begin(STREAM(1));
    begin(CU_STREAM_PER_THREAD);
    fake.stream_context = other;
    begin(STREAM(2));
    pool_capture_end_refused(pool, STREAM(1));
    pool_capture_end_refused(pool, STREAM(1)); /* told twice */
    pool_capture_end_refused(pool, CU_STREAM_PER_THREAD);
    pool_capture_end_refused(pool, STREAM(2)); /* goes on, in a context that is there */
    assert_true(pool_is_capturing(pool));
    pool_capture_ended_in(pool, STREAM(2));
    assert_false(pool_is_capturing(pool));
}

static void a_devices_reset_ends_the_captures_of_its_own_context_alone(void **state) {
    (void)state;
    pool_context_created(pool, fake.current);
    begin(STREAM(1));
    fake.captured = STREAM(1);
    pool_primary_ending(pool, 0);
    assert_true(pool_is_capturing(pool));
    pool_context_ending(pool, fake.current); /* from now on it is the device's own */
    assert_false(pool_is_capturing(pool));
    begin(STREAM(1));
    pool_primary_ending(pool, 1);
    assert_true(pool_is_capturing(pool));
    pool_primary_ending(pool, 0);
    assert_false(pool_is_capturing(pool));
}

static void *capture_begins(void *unused) {
    begin(STREAM(1));
    return unused;
}

/* Returns how many fences had been waited for when the submission could go on. */
static void *submits(void *payments) {
    pool_submits(pool, STREAM(2), "cuLaunchKernel");
    *(int *)payments = fake.event_waits;
    return NULL;
}

/* The capture is about to begin, and has not paid: it waits until this thread leaves the gate. */
static void a_submission_beside_a_capture_that_begins_goes_on_once_that_has_paid(void **state) {
    (void)state;
    pthread_t capturing, submitting;
    int payments = 0;
    pool_stream_created(pool, STREAM(2), true);
    alloc(9000);
    CUdeviceptr block = alloc(1000);
    pool_submits(pool, CU_STREAM_LEGACY, "cuLaunchKernel");
    release(block);
    assert_int_equal(fake.event_waits, 0);
    assert_true(pool_gate_enter(pool));
    assert_int_equal(pthread_create(&capturing, NULL, capture_begins, NULL), 0);
    while (!pool_is_capturing(pool))
        futex_pause();
    assert_int_equal(pthread_create(&submitting, NULL, submits, &payments), 0);
    for (int i = 0; i < 1000; i++)
        futex_pause();
    pool_gate_leave(pool);
    pthread_join(submitting, NULL);
    pthread_join(capturing, NULL);
    assert_int_equal(payments, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_capture_that_has_ended_unheard_is_found_by_asking_its_stream),
        TEST(the_end_of_one_stream_is_not_that_of_another),
        TEST(a_stream_that_only_its_thread_can_name_is_never_asked),
        TEST(a_capture_in_a_per_thread_stream_ends_with_its_context),
        TEST(a_capture_in_a_per_thread_stream_ends_with_its_thread),
        TEST(a_capture_of_which_no_stream_tells_ends_with_its_context),
        TEST(an_end_in_an_unknown_stream_is_looked_for),
        TEST(an_end_in_an_unknown_stream_is_that_of_a_capture_found_over_before),
        TEST(an_end_told_after_its_stream_was_asked_is_not_another_captures),
        TEST(a_stream_whose_captures_end_was_not_told_can_be_captured_again),
        TEST(a_new_capture_in_a_stream_proves_that_the_former_one_is_over),
        TEST(a_late_end_is_not_that_of_a_new_capture_in_the_same_stream),
        TEST(an_answer_about_the_capture_before_is_not_one_about_the_last),
        cmocka_unit_test_setup_teardown(
            an_end_that_was_never_counted_is_not_that_of_a_capture_that_begins, start_in_auto,
            stop),
        TEST(streams_that_may_be_gone_are_not_asked),
        TEST(a_capture_that_its_stream_may_not_tell_of_is_never_asked_about),
        TEST(a_release_asks_no_stream_until_it_is_known_whether_it_was_the_last),
        TEST(a_capture_ends_with_its_stream_but_not_with_one_that_it_drew_in),
        TEST(a_captured_stream_that_has_no_name_ends_no_capture_when_it_is_destroyed),
        TEST(a_stream_is_known_by_its_own_context_whichever_is_current),
        TEST(a_capture_ends_with_its_context),
        TEST(a_capture_that_begins_while_its_context_ends_is_over_once_its_end_is_refused),
        TEST(a_devices_reset_ends_the_captures_of_its_own_context_alone),
        cmocka_unit_test_setup_teardown(
            a_submission_beside_a_capture_that_begins_goes_on_once_that_has_paid, start_in_auto,
            stop),
    };
    return cmocka_run_group_tests_name("pool_captures", tests, NULL, NULL);
}
