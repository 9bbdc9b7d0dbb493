/* Which streams the stubs may submit to without asking: what puts one into the table, and each
 * thing that empties it, on a driver that counts. */
#include "pool_test.h"

#include "order/noted.h"
#include "order/order.h"

#include <pthread.h>

static struct order order;
static struct driver driver;

#define A          ((CUstream)0x1000)
#define B          ((CUstream)0x2000)
#define LEGACY     CU_STREAM_LEGACY
#define PER_THREAD CU_STREAM_PER_THREAD

static void submit(CUstream stream) {
    assert_int_equal(order_submits(&order, stream, true) & ~ORDER_SOLE, ORDER_DONE);
}

static void owe(void) {
    order_owe(&order, fake.current);
}

static void ignore(void *data, CUresult error) {
    (void)data;
    (void)error;
}

static void pay(void) {
    order_pay(&order, ignore, NULL);
}

/* One thread, two streams, nothing is owed, and none of them holds work that a fence does not
 * cover. */
static int begin(void **state) {
    (void)state;
    fake_reset(GIB);
    driver = *fake_driver();
    memset(&order, 0, sizeof order);
    order_init(&order, &driver);
    assert_true(order_context_begins(&order, fake.current, ORDER_NO_DEVICE));
    assert_true(order_stream_begins(&order, A, true));
    assert_true(order_stream_begins(&order, B, true));
    submit(LEGACY);
    owe();
    pay();
    assert_int_equal(order_word, ORDER_TRACKED);
    fake.records = fake.orders = 0;
    return 0;
}

static int end(void **state) {
    (void)state;
    order_forget(&order);
    return 0;
}

static void a_submission_notes_its_stream_and_no_other(void **state) {
    (void)state;
    assert_false(noted_has(A));
    submit(A);
    assert_true(noted_has(A));
    assert_false(noted_has(B));
    assert_false(noted_has(LEGACY));
    submit(B);
    assert_true(noted_has(A));
    assert_true(noted_has(B));
}

static void default_streams_are_noted_in_the_only_context(void **state) {
    (void)state;
    submit(LEGACY);
    submit(PER_THREAD);
    assert_true(noted_has(LEGACY));
    assert_true(noted_has(PER_THREAD));
}

static void what_is_owed_is_paid_before_a_stream_is_noted(void **state) {
    (void)state;
    submit(A);
    owe();
    submit(A);
    assert_false(noted_has(A));
    pay();
    submit(A);
    assert_true(noted_has(A));
}

static void a_fence_of_this_thread_empties_the_table(void **state) {
    (void)state;
    submit(A);
    owe();
    pay(); /* A is covered, and nothing is in it any more */
    assert_false(noted_has(A));
}

static void *pay_elsewhere(void *unused) {
    (void)unused;
    pay();
    return NULL;
}

static void do_elsewhere(void *(*what)(void *)) {
    pthread_t thread;
    pthread_create(&thread, NULL, what, NULL);
    pthread_join(thread, NULL);
}

static void a_fence_of_another_thread_empties_the_table_and_takes_no_note_back(void **state) {
    (void)state;
    submit(A);
    submit(B);
    owe();
    do_elsewhere(pay_elsewhere);
    assert_int_equal(order_word, ORDER_TRACKED);
    assert_false(noted_has(A));
    assert_false(noted_has(B));
    /* What a stub let pass before is in the driver only now. */
    owe();
    fake.records = 0;
    pay();
    assert_int_equal(fake.records, 2);
}

static void the_end_of_a_stream_empties_the_table(void **state) {
    (void)state;
    submit(A);
    order_stream_ends(&order, A);
    assert_false(noted_has(A));
    order_stream_begins(&order, A, true); /* another one of the same handle */
    assert_false(noted_has(A));
}

static void a_stream_in_place_of_one_whose_end_nobody_saw_is_not_noted(void **state) {
    (void)state;
    submit(A);
    order_stream_begins(&order, A, true);
    assert_false(noted_has(A));
}

static void a_second_context_empties_the_table_and_its_default_streams_are_not_noted(void **state) {
    (void)state;
    submit(A);
    submit(LEGACY);
    assert_true(order_context_begins(&order, fake_context(1, 1), ORDER_NO_DEVICE));
    assert_false(noted_has(A));
    assert_false(noted_has(LEGACY));
    submit(LEGACY);
    submit(PER_THREAD);
    assert_false(noted_has(LEGACY));
    assert_false(noted_has(PER_THREAD));
    submit(A); /* which has its context */
    assert_true(noted_has(A));
    order_context_ends(&order, fake_context(1, 1));
    assert_false(noted_has(A));
}

static void the_end_of_its_context_empties_the_table(void **state) {
    (void)state;
    submit(LEGACY);
    order_context_ends(&order, fake.current);
    assert_false(noted_has(LEGACY));
}

static bool seen_elsewhere;
static void *look_elsewhere(void *unused) {
    (void)unused;
    seen_elsewhere = noted_has(A);
    return NULL;
}

static void another_thread_finds_nothing_noted(void **state) {
    (void)state;
    submit(A);
    do_elsewhere(look_elsewhere);
    assert_false(seen_elsewhere);
}

static void *submit_elsewhere(void *unused) {
    (void)unused;
    order_submits(&order, B, true);
    return NULL;
}

static void a_second_thread_that_submits_empties_the_table_for_good(void **state) {
    (void)state;
    submit(A);
    do_elsewhere(submit_elsewhere);
    assert_false(noted_has(A));
    submit(A);
    assert_false(noted_has(A));
}

static void a_submission_during_a_capture_notes_nothing_for_the_stubs(void **state) {
    (void)state;
    assert_int_equal(order_submits(&order, A, false) & ~ORDER_SOLE, ORDER_DONE);
    assert_false(noted_has(A));
}

static void a_stream_that_could_not_be_put_in_order_is_not_noted(void **state) {
    (void)state;
    submit(A);
    owe();
    fake.order_result = CUDA_ERROR_UNKNOWN;
    assert_int_equal(order_submits(&order, B, true) & ~ORDER_SOLE, ORDER_PAY);
    assert_false(noted_has(B));
}

static void a_submission_where_no_streams_are_notes_nothing(void **state) {
    (void)state;
    order_stream_ends(&order, A);
    order_stream_ends(&order, B);
    order_forget(&order);
    assert_true(order_context_begins(&order, fake.current, ORDER_NO_DEVICE));
    submit(LEGACY); /* the first that has to ask may be another thread */
    assert_false(noted_has(LEGACY));
}

static void a_forked_child_begins_with_an_empty_table(void **state) {
    (void)state;
    submit(A);
    order_forget(&order);
    assert_false(noted_has(A));
}

/* While another thread records a fence, the one that submits does so, which waits for that, but not
 * for long. */
static atomic_bool recording, submitted;
static void await(atomic_bool *event) {
    while (!atomic_load(event))
        futex_pause();
}

static void record_until_submitted(void) {
    fake.on_record = NULL;
    atomic_store(&recording, true);
    await(&submitted);
}

static void a_fence_that_is_being_recorded_lets_nothing_be_noted(void **state) {
    (void)state;
    pthread_t thread;
    submit(A);
    owe();
    fake.on_record = record_until_submitted;
    pthread_create(&thread, NULL, pay_elsewhere, NULL);
    await(&recording);
    submit(A);
    bool noted = noted_has(A);
    atomic_store(&submitted, true);
    pthread_join(thread, NULL);
    assert_false(noted);
    assert_false(noted_has(A));
}

/* Three streams that share a place of the table. */
static void streams_of_one_place_take_turns(void **state) {
    (void)state;
    CUstream same[3] = {A};
    unsigned count = 1;
    for (uintptr_t at = 0x3000; count < 3; at += 16) {
        unsigned place = (unsigned)at * NOTED_FACTOR >> (32 - NOTED_BITS);
        if (place == (unsigned)(uintptr_t)A * NOTED_FACTOR >> (32 - NOTED_BITS))
            same[count++] = (CUstream)at;
    }
    order_stream_begins(&order, same[1], true);
    order_stream_begins(&order, same[2], true);
    submit(same[0]);
    submit(same[1]);
    assert_true(noted_has(same[0]));
    assert_true(noted_has(same[1]));
    submit(same[2]);
    assert_true(noted_has(same[2]));
}

static void streams_that_were_noted_before_are_not_found_again(void **state) {
    (void)state;
    submit(A);
    owe();
    pay();
    submit(B); /* the table is used again */
    assert_true(noted_has(B));
    assert_false(noted_has(A));
}

#define NOTED(name) cmocka_unit_test_setup_teardown(name, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        NOTED(a_submission_notes_its_stream_and_no_other),
        NOTED(default_streams_are_noted_in_the_only_context),
        NOTED(what_is_owed_is_paid_before_a_stream_is_noted),
        NOTED(a_fence_of_this_thread_empties_the_table),
        NOTED(a_fence_of_another_thread_empties_the_table_and_takes_no_note_back),
        NOTED(the_end_of_a_stream_empties_the_table),
        NOTED(a_stream_in_place_of_one_whose_end_nobody_saw_is_not_noted),
        NOTED(a_second_context_empties_the_table_and_its_default_streams_are_not_noted),
        NOTED(the_end_of_its_context_empties_the_table),
        NOTED(another_thread_finds_nothing_noted),
        NOTED(a_second_thread_that_submits_empties_the_table_for_good),
        NOTED(a_submission_during_a_capture_notes_nothing_for_the_stubs),
        NOTED(a_stream_that_could_not_be_put_in_order_is_not_noted),
        NOTED(a_submission_where_no_streams_are_notes_nothing),
        NOTED(a_forked_child_begins_with_an_empty_table),
        NOTED(a_fence_that_is_being_recorded_lets_nothing_be_noted),
        NOTED(streams_of_one_place_take_turns),
        NOTED(streams_that_were_noted_before_are_not_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
