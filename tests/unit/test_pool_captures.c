/* What the pool does about captures whose end no function tells: it asks their streams. */
#include "pool_test.h"

#define STREAM(number) ((CUstream)(uintptr_t)(0x1000 + (number)))

static void begin(CUstream stream) {
    pool_capture_began(pool, "cuStreamBeginCapture_v2");
    pool_capture_named(pool, stream);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_capture_that_has_ended_unheard_is_found_by_asking_its_stream),
        TEST(the_end_of_one_stream_is_not_that_of_another),
        TEST(a_stream_that_only_its_thread_can_name_is_never_asked),
        TEST(an_end_in_an_unknown_stream_is_looked_for),
        TEST(a_capture_ends_with_its_stream_but_not_with_one_that_it_drew_in),
        TEST(a_capture_ends_with_its_context),
        TEST(a_devices_reset_ends_the_captures_of_its_own_context_alone),
    };
    return cmocka_run_group_tests_name("pool_captures", tests, NULL, NULL);
}
