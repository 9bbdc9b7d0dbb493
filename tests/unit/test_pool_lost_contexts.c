/* Errors that cost the program a context: which one is given up, and who is asked. */
#include "pool_test.h"

/* It may be told by a stream's, an event's or a device's other context. */
static void an_error_loses_no_context_that_goes_on_answering(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    release(block);
    pool_note_error(pool, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(alloc(1000), block);
    lose_current_context();
    release(block);
    assert_int_equal(fake_size(block), 0);
}

static void an_error_that_a_green_context_tells_loses_its_primary_one(void **state) {
    (void)state;
    CUcontext primary = fake.current;
    release(alloc(1000));
    pool_reason_stays(pool, WAIT_REASON_green);
    fake.stream_context = primary;
    fake.current = fake_context(0, 2);
    fake.lost[1] = primary;
    lose_current_context();
    fake.stream_context = NULL;
    fake.current = primary;
    uint64_t passed = stats_get(STATS_passed_errors);
    alloc(1000);
    assert_int_equal(stats_get(STATS_passed_errors), passed + 1);
}

/* Whether the pool takes the current context for lost. */
static bool is_given_up(void) {
    uint64_t passed = stats_get(STATS_passed_errors);
    release(alloc(1000));
    return stats_get(STATS_passed_errors) > passed;
}

/* Of two devices, each with something in its primary context, and of a context of the program's. */
static void use_three_contexts(CUcontext *contexts) {
    for (int i = 0; i < 3; i++) {
        fake.current = contexts[i] = fake_context(i % 2, 1 + i / 2);
        alloc(1000);
    }
}

/* lost: which of them alone is given up; -1: none. */
static void assert_one_is_given_up(const CUcontext *contexts, int lost) {
    for (int i = 0; i < 3; i++) {
        fake.current = contexts[i];
        assert_int_equal(is_given_up(), i == lost);
    }
}

/* By an event of it, say, while another context is current, or none. */
static void a_context_is_lost_whichever_is_current_when_a_call_tells_so(void **state) {
    (void)state;
    CUcontext contexts[3];
    for (int current = 0; current < 4; current++) {
        stop(NULL);
        start(NULL);
        use_three_contexts(contexts);
        fake.current = current < 3 ? contexts[current] : NULL;
        fake.lost[0] = contexts[2];
        pool_note_error(pool, CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_one_is_given_up(contexts, 2);
    }
}

static void an_error_during_a_capture_loses_the_context_that_tells_it_alone(void **state) {
    (void)state;
    CUcontext contexts[3];
    use_three_contexts(contexts);
    atomic_fetch_add(&pool->captures, 1);
    fake.lost[0] = contexts[1];
    pool_note_error(pool, CUDA_ERROR_ILLEGAL_ADDRESS);
    atomic_fetch_sub(&pool->captures, 1);
    assert_one_is_given_up(contexts, 1);
}

static void a_green_context_of_one_device_loses_no_context_of_another(void **state) {
    (void)state;
    CUcontext contexts[3];
    use_three_contexts(contexts);
    pool_reason_stays(pool, WAIT_REASON_green);
    fake.current = fake_context(1, 5);
    lose_current_context();
    assert_one_is_given_up(contexts, -1);
}

static void of_many_contexts_the_oldest_is_given_up_as_well(void **state) {
    (void)state;
    enum { MANY = 130 };
    for (int i = 1; i <= MANY; i++) {
        fake.current = fake_context(0, i);
        alloc(1000);
    }
    fake.current = NULL;
    fake.lost[0] = fake_context(0, 1);
    pool_note_error(pool, CUDA_ERROR_ILLEGAL_ADDRESS);
    for (int i = 1; i <= MANY; i++) {
        fake.current = fake_context(0, i);
        assert_int_equal(is_given_up(), i == 1);
    }
}

/* As of a program that goes on asking for the state of a stream that is lost. */
static int questions_of_errors(int errors, CUresult error) {
    int infos = fake.infos;
    for (int i = 0; i < errors; i++)
        pool_note_error(pool, error);
    return fake.infos - infos;
}

static void errors_that_tell_nothing_new_are_looked_into_ever_less(void **state) {
    (void)state;
    CUcontext contexts[3];
    use_three_contexts(contexts);
    fake.current = NULL;
    assert_true(questions_of_errors(1000, CUDA_ERROR_ILLEGAL_ADDRESS) <= 30 * 3);
    fake.current = contexts[1];
    lose_current_context();
    assert_true(is_given_up());
    assert_int_equal(questions_of_errors(1000, CUDA_ERROR_ILLEGAL_ADDRESS), 0);
    fake.current = NULL;
    assert_int_equal(questions_of_errors(1000, CUDA_ERROR_CONTEXT_IS_DESTROYED), 0);
}

static void the_question_leaves_the_capture_mode_as_it_was(void **state) {
    (void)state;
    alloc(1000);
    for (int call = 0; call < 4; call++) {
        fake.capture_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        fake.fails_to_exchange = call;
        pool_note_error(pool, CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_int_equal(fake.capture_mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    }
}

/* To ask a primary context that was reset would make it active again. */
static void a_context_without_memory_is_not_asked(void **state) {
    (void)state;
    alloc(1000);
    pool_end_begins(pool);
    pool_primary_ending(pool, 0);
    pool_end_is_over(pool, true);
    int infos = fake.infos;
    pool_note_error(pool, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(fake.infos, infos);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_error_loses_no_context_that_goes_on_answering),
        TEST(an_error_that_a_green_context_tells_loses_its_primary_one),
        TEST(a_context_is_lost_whichever_is_current_when_a_call_tells_so),
        TEST(an_error_during_a_capture_loses_the_context_that_tells_it_alone),
        TEST(a_green_context_of_one_device_loses_no_context_of_another),
        TEST(of_many_contexts_the_oldest_is_given_up_as_well),
        TEST(errors_that_tell_nothing_new_are_looked_into_ever_less),
        TEST(the_question_leaves_the_capture_mode_as_it_was),
        TEST(a_context_without_memory_is_not_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
