/* What frees owe, on a driver that counts: which events a fence is made of, when they are recorded,
 * who waits for them. */
#include "pool_test.h"

#include "order/order.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static struct order order;
static struct driver driver;

#define A      ((CUstream)0x1000)
#define B      ((CUstream)0x2000)
#define LEGACY CU_STREAM_LEGACY

static int begin(void **state) {
    (void)state;
    fake_reset(GIB);
    driver = *fake_driver();
    memset(&order, 0, sizeof order);
    order_init(&order, &driver);
    assert_true(order_context_begins(&order, fake.current, ORDER_NO_DEVICE));
    return 0;
}

static int end(void **state) {
    (void)state;
    order_forget(&order);
    assert_int_equal(order_word, 0);
    return 0;
}

static void submit(CUstream stream) {
    assert_int_equal(order_submits(&order, stream, true) & ~ORDER_SOLE, ORDER_DONE);
}

static void owe(void) {
    order_owe(&order, fake.current);
}

static CUresult failed_with;
static void note_failure(void *data, CUresult error) {
    (void)data;
    failed_with = error;
}

static bool pay(void) {
    return order_pay(&order, note_failure, NULL);
}

static void add_streams(bool non_blocking) {
    assert_true(order_stream_begins(&order, A, non_blocking));
    assert_true(order_stream_begins(&order, B, non_blocking));
    submit(LEGACY); /* this thread is the one that submits */
    owe();          /* what was there before counts as busy */
    pay();
    fake.records = fake.event_waits = fake.orders = 0;
}

static void the_fence_comes_before_the_next_submission(void **state) {
    (void)state;
    owe();
    assert_int_equal(fake.records, 0); /* not yet: further frees are to share it */
    submit(LEGACY);
    assert_int_equal(fake.records, 1);
    CUevent fence = fake.recorded;
    submit(LEGACY);
    assert_int_equal(fake.records, 1);
    assert_true(pay());
    assert_ptr_equal(fake.waited_for, fence); /* not for what was submitted behind the free */
    assert_int_equal(fake.waits, 0);
    assert_int_equal(order_word, 0);
    assert_false(pay());
}

static void frees_without_a_submission_between_share_a_fence(void **state) {
    (void)state;
    owe();
    owe();
    submit(LEGACY);
    assert_int_equal(fake.records, 1);
}

static void the_last_fence_stands_for_those_before(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        owe();
        submit(LEGACY);
    }
    pay();
    assert_int_equal(fake.event_waits, 1);
    assert_ptr_equal(fake.waited_for, fake.recorded);
    assert_true(fake.events <= 2); /* they are used again */
}

static CUevent waited_for;
static void free_and_submit(void) {
    fake.on_wait = NULL;
    waited_for = fake.waited_for;
    for (int i = 0; i < 3; i++) {
        owe();
        submit(LEGACY);
        assert_ptr_not_equal(fake.recorded, waited_for);
    }
}

static void an_event_is_not_recorded_again_while_it_is_waited_for(void **state) {
    (void)state;
    owe();
    fake.on_wait = free_and_submit;
    pay();
    assert_ptr_not_equal(waited_for, NULL);
    assert_true(order_word & ORDER_OWED); /* what was freed meanwhile */
    assert_true(pay());
    assert_int_equal(order_word, 0);
}

static void a_free_that_only_sets_the_word_owes(void **state) {
    (void)state;
    order_owe_quickly();
    submit(LEGACY);
    assert_int_equal(fake.records, 1);
    assert_true(order_word & ORDER_OWED);
    assert_false(order_word & ORDER_UNFENCED);
    assert_true(pay());
}

static void only_streams_that_may_hold_work_are_fenced(void **state) {
    (void)state;
    add_streams(true);
    submit(A);
    owe();
    submit(A);
    assert_int_equal(fake.records, 1);
    assert_ptr_equal(fake.recorded_in,
                     A); /* none in the legacy stream, where it would be a barrier */
}

static void another_stream_waits_for_the_fence_and_its_own_does_not(void **state) {
    (void)state;
    add_streams(true);
    submit(A);
    owe();
    submit(A);
    assert_int_equal(fake.orders, 0);
    submit(B);
    assert_int_equal(fake.orders, 1);
    assert_ptr_equal(fake.ordered, B);
    assert_ptr_equal(fake.ordered_after, fake.recorded);
    submit(B);
    assert_int_equal(fake.orders, 1);
    assert_int_equal(fake.event_waits, 0);
}

static void a_later_fence_lies_behind_an_earlier_one(void **state) {
    (void)state;
    add_streams(true);
    submit(A);
    owe();
    submit(B); /* behind A's work now */
    owe();
    submit(A);
    assert_int_equal(fake.records, 2);
    assert_ptr_equal(fake.recorded_in, B);
    assert_int_equal(fake.orders, 2);
    pay();
    assert_int_equal(fake.event_waits, 1);
}

static void a_paid_fence_orders_no_stream(void **state) {
    (void)state;
    add_streams(true);
    submit(A);
    owe();
    pay();
    submit(B);
    assert_int_equal(fake.orders, 0);
}

static void the_legacy_stream_is_behind_blocking_ones_by_itself_and_they_behind_it(void **state) {
    (void)state;
    add_streams(false);
    submit(A);
    owe();
    submit(LEGACY);
    assert_int_equal(fake.orders, 0);
    owe();
    submit(B);
    assert_int_equal(fake.orders, 0);
    owe();
    submit(A);
    assert_int_equal(fake.orders, 1); /* two blocking streams are in no order */
}

static void the_legacy_stream_waits_for_non_blocking_ones_and_they_for_it(void **state) {
    (void)state;
    add_streams(true);
    submit(A);
    owe();
    submit(LEGACY);
    assert_ptr_equal(fake.ordered, LEGACY);
    owe();
    submit(B);
    assert_ptr_equal(fake.ordered, B);
    assert_int_equal(fake.orders, 2);
}

static void a_stream_with_the_handle_of_a_destroyed_one_is_another(void **state) {
    (void)state;
    add_streams(true);
    submit(A);
    owe();
    submit(B);
    fake.orders = 0;
    order_stream_ends(&order, A);
    order_stream_begins(&order, A, true);
    submit(A);
    assert_int_equal(fake.orders, 1);
}

static void streams_end_with_the_primary_context_that_they_are_in(void **state) {
    (void)state;
    CUcontext first = fake.current;
    fake.current = fake_context(1, 1);
    assert_true(order_stream_begins(&order, A, true)); /* in which nobody has allocated */
    assert_false(order_is_only(&order, first));
    order_primary_ends(&order, 1);
    assert_true(order_is_only(&order, first));
    assert_int_equal(order_word, 0);
    fake.current = first;
}

static void behind_the_last_streams_end_work_in_the_legacy_stream_need_not_be_noted(void **state) {
    (void)state;
    add_streams(true);
    order_stream_ends(&order, A);
    order_stream_ends(&order, B);
    assert_int_equal(order_word, 0);
    owe();
    pay();
    assert_int_equal(fake.records, 1);
    assert_ptr_equal(fake.recorded_in, LEGACY);
}

static void a_stream_that_ends_tells_whether_a_fence_may_miss_its_work(void **state) {
    (void)state;
    add_streams(true);
    submit(A);
    assert_true(order_stream_ends(&order, A));
    assert_false(order_stream_ends(&order, B));
}

static void per_thread_work_is_a_stream_of_its_own(void **state) {
    (void)state;
    add_streams(true);
    submit(CU_STREAM_PER_THREAD);
    owe();
    submit(B);
    assert_ptr_equal(fake.recorded_in, CU_STREAM_PER_THREAD);
    assert_int_equal(fake.orders, 1);
}

static void work_in_an_unknown_stream_is_not_put_in_order(void **state) {
    (void)state;
    assert_int_equal(order_submits(&order, (CUstream)0x3000, true) & ~ORDER_SOLE, ORDER_PAY);
}

static void many_busy_streams_are_fenced_with_their_context(void **state) {
    (void)state;
    add_streams(true);
    for (uintptr_t i = 0; i < 20; i++) {
        order_stream_begins(&order, (CUstream)(0x5000 + i), true);
        submit((CUstream)(0x5000 + i));
    }
    owe();
    submit(A);
    assert_int_equal(fake.records, 1);
    assert_null(fake.recorded_in);
    assert_int_equal(fake.orders, 1);
}

static void what_cannot_be_fenced_is_waited_for_before_the_submission(void **state) {
    (void)state;
    fake.record_result = CUDA_ERROR_UNKNOWN;
    owe();
    submit(LEGACY);
    assert_int_equal(fake.waits, 1);
    assert_int_equal(order_word, 0);
}

static void many_busy_streams_are_waited_for_where_no_context_can_be_fenced(void **state) {
    (void)state;
    driver.ctx_record_event = NULL;
    add_streams(true);
    for (uintptr_t i = 0; i < 20; i++) {
        order_stream_begins(&order, (CUstream)(0x5000 + i), true);
        submit((CUstream)(0x5000 + i));
    }
    owe();
    submit(A);
    assert_int_equal(fake.records, 0);
    assert_int_equal(fake.waits, 1);
    assert_false(order_word & ORDER_OWED);
}

static void an_error_is_told_and_the_wait_is_owed_no_more(void **state) {
    (void)state;
    owe();
    fake.wait_result = CUDA_ERROR_ILLEGAL_ADDRESS;
    pay();
    assert_int_equal(failed_with, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(order_word, 0);
}

static void while_a_capture_is_under_way_submissions_are_noted_and_nothing_else(void **state) {
    (void)state;
    add_streams(true);
    assert_int_equal(order_submits(&order, A, false) & ~ORDER_SOLE, ORDER_DONE);
    assert_int_equal(fake.records + fake.orders, 0);
    owe();
    submit(B);
    assert_ptr_equal(fake.recorded_in, A);
}

static void *pay_beside(void *unused) {
    (void)unused;
    pay();
    return NULL;
}

static void a_submission_is_covered_by_the_fences_of_its_own_thread_alone(void **state) {
    (void)state;
    pthread_t thread;
    add_streams(true);
    submit(A); /* noted; the driver's call may be yet to come */
    owe();
    pthread_create(&thread, NULL, pay_beside, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(fake.records, 1);
    owe();
    submit(B);
    assert_int_equal(fake.records, 2);
    assert_ptr_equal(fake.recorded_in, A);
    assert_int_equal(fake.orders, 1);
}

static void
work_that_was_on_its_way_as_the_first_stream_was_made_is_noted_afterwards(void **state) {
    (void)state;
    add_streams(true); /* the fence that was recorded there came before that work */
    submit(A);
    order_submitted_unnoted(&order);
    owe();
    submit(A);
    assert_int_equal(fake.records, 2);
}

static void another_thread_fences_the_sole_ones_own_stream_with_its_context(void **state) {
    (void)state;
    pthread_t thread;
    add_streams(true);
    submit(CU_STREAM_PER_THREAD);
    owe();
    pthread_create(&thread, NULL, pay_beside, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(fake.records, 1);
    assert_null(fake.recorded_in); /* by that handle it would have named its own */
}

static void *ask_whether_its_own_covers(void *covers) {
    *(bool *)covers = order_stream_covers(&order, CU_STREAM_PER_THREAD);
    return NULL;
}

static void a_wait_for_another_threads_own_stream_covers_nothing(void **state) {
    (void)state;
    pthread_t thread;
    bool covers = true;
    add_streams(true);
    submit(CU_STREAM_PER_THREAD);
    owe();
    assert_true(order_stream_covers(&order, CU_STREAM_PER_THREAD));
    pthread_create(&thread, NULL, ask_whether_its_own_covers, &covers);
    pthread_join(thread, NULL);
    assert_false(covers);
}

static void *submit_in_legacy(void *answer) {
    *(int *)answer = order_submits(&order, LEGACY, true);
    return NULL;
}

static void *submit_per_thread(void *answer) {
    *(int *)answer = order_submits(&order, CU_STREAM_PER_THREAD, true);
    return NULL;
}

static int submit_by_another_thread(void) {
    int answer;
    pthread_t thread;
    pthread_create(&thread, NULL, submit_in_legacy, &answer);
    pthread_join(thread, NULL);
    return answer;
}

static void a_second_thread_with_streams_about_is_told_once(void **state) {
    (void)state;
    add_streams(true);
    submit(A);
    assert_true(order_is_tracked(&order));
    assert_int_equal(submit_by_another_thread(), ORDER_SEVERAL);
    assert_false(order_is_tracked(&order));
    assert_false(order_word & ORDER_TRACKED);
    assert_int_equal(submit_by_another_thread(), ORDER_DONE);
}

static void a_second_thread_whose_work_cannot_be_put_in_order_has_to_pay(void **state) {
    (void)state;
    add_streams(true);
    submit(A);
    owe();
    fake.order_result = CUDA_ERROR_UNKNOWN;
    assert_int_equal(submit_by_another_thread(), ORDER_SEVERAL | ORDER_PAY);
}

/* What is known of the per-thread stream is known of another thread's. */
static void a_second_threads_per_thread_stream_is_not_taken_for_ordered(void **state) {
    (void)state;
    pthread_t thread;
    int answer;
    add_streams(true);
    submit(A);
    submit(CU_STREAM_PER_THREAD);
    owe();
    submit(CU_STREAM_PER_THREAD); /* behind the fence from now on */
    pthread_create(&thread, NULL, submit_per_thread, &answer);
    pthread_join(thread, NULL);
    assert_int_equal(answer, ORDER_SEVERAL | ORDER_PAY);
}

static void several_threads_in_the_legacy_stream_alone_may_owe(void **state) {
    (void)state;
    submit(LEGACY);
    assert_int_equal(submit_by_another_thread(), ORDER_DONE);
    assert_true(order_is_tracked(&order));
}

/* While one thread records a fence, another is about to submit. */
static atomic_bool submitted;
static pthread_t submitter;
static void *submit_beside(void *unused) {
    (void)unused;
    order_submits(&order, LEGACY, true);
    atomic_store(&submitted, true);
    return NULL;
}

static void begin_to_submit(void) {
    fake.on_record = NULL;
    pthread_create(&submitter, NULL, submit_beside, NULL);
    for (int i = 0; i < 40; i++) /* so that it goes on, if it does */
        futex_pause();
    assert_false(atomic_load(&submitted));
}

static void no_thread_submits_between_the_free_and_its_fence(void **state) {
    (void)state;
    owe();
    fake.on_record = begin_to_submit;
    submit(LEGACY);
    pthread_join(submitter, NULL);
    assert_true(atomic_load(&submitted));
    assert_int_equal(fake.records, 1);
}

static void each_context_has_its_own_fence(void **state) {
    (void)state;
    CUcontext first = fake.current;
    owe();
    fake.current = fake_context(1, 1);
    assert_true(order_context_begins(&order, fake.current, ORDER_NO_DEVICE));
    owe();
    fake.current = first;
    submit(LEGACY);
    assert_int_equal(fake.records, 2);
    assert_ptr_equal(fake.current, first);
    fake.quiet = true;
    pay();
    assert_int_equal(fake.event_waits, 1);
    assert_int_equal(fake.event_queries, 1); /* of a context that may end meanwhile */
}

static void a_free_that_set_the_word_as_a_second_context_began_is_fenced_in_both(void **state) {
    (void)state;
    fake.current = fake_context(1, 1);
    assert_true(order_context_begins(&order, fake.current, ORDER_NO_DEVICE));
    order_owe_quickly();
    submit(LEGACY);
    assert_int_equal(fake.records, 2);
    fake.quiet = true;
    assert_true(pay());
    assert_int_equal(fake.event_waits + fake.event_queries, 2);
}

static void while_there_are_several_contexts_the_word_says_so(void **state) {
    (void)state;
    CUcontext first = fake.current, second = fake_context(1, 1);
    assert_int_equal(order_word, 0);
    assert_true(order_context_begins(&order, second, ORDER_NO_DEVICE));
    assert_int_equal(order_word, ORDER_CONTEXTS);
    fake.current = second;
    owe();
    pay();
    assert_int_equal(order_word, ORDER_CONTEXTS);
    order_defers();
    assert_int_equal(order_word, ORDER_CONTEXTS | ORDER_DEFERRED);
    atomic_fetch_and(&order_word, ~ORDER_DEFERRED);
    order_context_ends(&order, second);
    assert_int_equal(order_word, 0);
    fake.current = first;
}

static volatile sig_atomic_t deferred;

static void defer_in_the_midst(int number) {
    (void)number;
    order_defers(); // NOLINT(bugprone-signal-handler): one atomic operation
    deferred++;
}

/* By a timer's signal, as a free of another thread would come: at any instruction. */
static void a_free_that_defers_is_not_forgotten_while_the_word_is_told_anew(void **state) {
    (void)state;
    enum { TIMES = 2000 };
    const struct itimerval often = {{0, 20}, {0, 20}}, never = {{0, 0}, {0, 0}};
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    signal(SIGALRM, defer_in_the_midst);
    setitimer(ITIMER_REAL, &often, NULL);
    bool forgotten = false;
    for (int seen = 0; deferred < TIMES && !forgotten;) {
        order_is_done(&order, fake.current, 0);
        pthread_sigmask(SIG_BLOCK, &alarm, NULL);
        forgotten = deferred > seen && !(order_word & ORDER_DEFERRED);
        seen = deferred;
        atomic_fetch_and(&order_word, ~ORDER_DEFERRED);
        pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_DFL);
    atomic_fetch_and(&order_word, ~ORDER_DEFERRED);
    assert_false(forgotten);
}

static void where_a_context_can_be_neither_fenced_nor_waited_for_the_wait_stays_owed(void **state) {
    (void)state;
    CUcontext first = fake.current;
    owe();
    fake.current = fake_context(1, 1);
    assert_true(order_context_begins(&order, fake.current, ORDER_NO_DEVICE));
    fake.push_failures = 100;
    assert_int_equal(order_submits(&order, LEGACY, true) & ~ORDER_SOLE, ORDER_PAY);
    assert_int_equal(fake.records + fake.waits, 0);
    assert_true(order_word & ORDER_OWED);
    fake.push_failures = 1; /* in passing */
    pay();
    assert_int_equal(fake.records, 1);
    assert_ptr_equal(fake.fenced_context, first);
    assert_int_equal(order_word, ORDER_CONTEXTS);
}

static void work_in_streams_that_nobody_knows_is_fenced_with_its_context(void **state) {
    (void)state;
    add_streams(true);
    submit(A);
    order_submits_somewhere(&order);
    owe();
    submit(A);
    assert_int_equal(fake.records, 1);
    assert_null(fake.recorded_in);
}

static void a_wait_for_now_ends_with_what_was_submitted_before(void **state) {
    (void)state;
    struct order_fence *fence;
    submit(LEGACY);
    assert_true(order_fence_now(&order, fake.current, false, &fence));
    assert_int_equal(fake.records, 1);
    submit(LEGACY);
    assert_int_equal(order_fence_wait(&order, fence), CUDA_SUCCESS);
    assert_int_equal(fake.event_waits, 1);
    assert_int_equal(fake.waits, 0);
    order_is_done(&order, fake.current, 1);
    assert_int_equal(order_word, 0);
}

static void what_was_fenced_meanwhile_is_not_done_with_a_wait_that_began_before(void **state) {
    (void)state;
    owe();
    submit(LEGACY);
    uint64_t fences = order_fences(&order, fake.current);
    owe();
    submit(LEGACY);
    order_is_done(&order, fake.current, fences);
    assert_true(pay());
    assert_int_equal(order_word, 0);
}

static void nothing_is_put_behind_a_wait_for_now(void **state) {
    (void)state;
    struct order_fence *fence;
    assert_true(order_fence_now(&order, fake.current, false, &fence));
    add_streams(true); /* in the midst */
    submit(A);
    assert_int_equal(order_word, ORDER_TRACKED);
    assert_int_equal(fake.orders + fake.event_waits, 0);
    assert_int_equal(order_fence_wait(&order, fence), CUDA_SUCCESS);
}

static void a_wait_for_now_of_unknown_streams_is_for_the_context(void **state) {
    (void)state;
    struct order_fence *fence;
    add_streams(true);
    assert_true(order_fence_now(&order, fake.current, true, &fence));
    assert_null(fake.recorded_in);
    assert_int_equal(order_fence_wait(&order, fence), CUDA_SUCCESS);
    driver.ctx_record_event = NULL;
    assert_false(order_fence_now(&order, fake.current, true, &fence));
    assert_null(fence);
}

static void a_context_that_ends_owes_nothing(void **state) {
    (void)state;
    owe();
    order_context_ends(&order, fake.current);
    assert_int_equal(order_word, 0);
    assert_false(pay());
}

static void end_the_context(void) {
    fake.on_wait = NULL;
    order_context_ends(&order, fake.current);
}

static void a_context_may_end_while_it_is_waited_for(void **state) {
    (void)state;
    owe();
    fake.on_wait = end_the_context;
    pay();
    assert_int_equal(order_word, 0);
}

static void a_wait_for_one_stream_covers_what_lies_in_it_alone(void **state) {
    (void)state;
    add_streams(true);
    submit(A);
    owe();
    assert_true(order_stream_covers(&order, A)); /* no other holds work */
    submit(B);
    assert_true(order_stream_covers(&order, B)); /* it has been put behind the fence */
    assert_true(order_stream_covers(&order, A));
    owe();
    assert_false(order_stream_covers(&order, A));
}

/* A thread that was cancelled in a call of the driver never leaves. */
static void ends_of_a_context_wait_but_once_for_a_thread_that_ended_in_a_visit(void **state) {
    (void)state;
    const struct order_context *context = LIST_FIRST(&order.contexts);
    assert_true(order_visit_begins(&order, fake.current));
    order_context_closes(&order, fake.current);
    assert_int_equal(context->visits, 0);
    order_visit_ends(&order, fake.current); /* were it alive after all */
    assert_int_equal(context->visits, 0);
    order_context_stays(&order, fake.current);
    assert_true(order_visit_begins(&order, fake.current));
    assert_int_equal(context->visits, 1);
    order_visit_ends(&order, fake.current);
    assert_int_equal(context->visits, 0);
}

static void what_was_not_waited_for_as_a_context_seemed_to_end_is_owed_again(void **state) {
    (void)state;
    CUcontext own = fake.current;
    const struct order_context *context = LIST_FIRST(&order.contexts);
    submit(LEGACY);
    owe();
    order_context_closes(&order, own);
    fake.current = fake_context(1, 1); /* of a thread that can make no visit */
    pay();
    assert_false(context->owes);
    fake.current = own;
    order_context_stays(&order, own);
    assert_true(context->owes);
    assert_true(pay());
    assert_false(context->owes);
}

static void a_thread_waits_in_its_own_context_although_that_seems_to_end(void **state) {
    (void)state;
    const struct order_context *context = LIST_FIRST(&order.contexts);
    submit(LEGACY);
    owe();
    order_context_closes(&order, fake.current);
    int waits = fake.waits;
    pay();
    assert_int_equal(fake.waits, waits + 1);
    order_context_stays(&order, fake.current);
    assert_false(context->owes);
}

#define ORDER(name) cmocka_unit_test_setup_teardown(name, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        ORDER(the_fence_comes_before_the_next_submission),
        ORDER(frees_without_a_submission_between_share_a_fence),
        ORDER(the_last_fence_stands_for_those_before),
        ORDER(an_event_is_not_recorded_again_while_it_is_waited_for),
        ORDER(a_free_that_only_sets_the_word_owes),
        ORDER(only_streams_that_may_hold_work_are_fenced),
        ORDER(another_stream_waits_for_the_fence_and_its_own_does_not),
        ORDER(a_later_fence_lies_behind_an_earlier_one),
        ORDER(a_paid_fence_orders_no_stream),
        ORDER(the_legacy_stream_is_behind_blocking_ones_by_itself_and_they_behind_it),
        ORDER(the_legacy_stream_waits_for_non_blocking_ones_and_they_for_it),
        ORDER(a_stream_with_the_handle_of_a_destroyed_one_is_another),
        ORDER(streams_end_with_the_primary_context_that_they_are_in),
        ORDER(behind_the_last_streams_end_work_in_the_legacy_stream_need_not_be_noted),
        ORDER(a_stream_that_ends_tells_whether_a_fence_may_miss_its_work),
        ORDER(per_thread_work_is_a_stream_of_its_own),
        ORDER(work_in_an_unknown_stream_is_not_put_in_order),
        ORDER(many_busy_streams_are_fenced_with_their_context),
        ORDER(what_cannot_be_fenced_is_waited_for_before_the_submission),
        ORDER(many_busy_streams_are_waited_for_where_no_context_can_be_fenced),
        ORDER(an_error_is_told_and_the_wait_is_owed_no_more),
        ORDER(while_a_capture_is_under_way_submissions_are_noted_and_nothing_else),
        ORDER(a_submission_is_covered_by_the_fences_of_its_own_thread_alone),
        ORDER(work_that_was_on_its_way_as_the_first_stream_was_made_is_noted_afterwards),
        ORDER(another_thread_fences_the_sole_ones_own_stream_with_its_context),
        ORDER(a_wait_for_another_threads_own_stream_covers_nothing),
        ORDER(a_second_thread_with_streams_about_is_told_once),
        ORDER(a_second_thread_whose_work_cannot_be_put_in_order_has_to_pay),
        ORDER(a_second_threads_per_thread_stream_is_not_taken_for_ordered),
        ORDER(several_threads_in_the_legacy_stream_alone_may_owe),
        ORDER(a_free_that_defers_is_not_forgotten_while_the_word_is_told_anew),
        ORDER(no_thread_submits_between_the_free_and_its_fence),
        ORDER(each_context_has_its_own_fence),
        ORDER(a_free_that_set_the_word_as_a_second_context_began_is_fenced_in_both),
        ORDER(while_there_are_several_contexts_the_word_says_so),
        ORDER(where_a_context_can_be_neither_fenced_nor_waited_for_the_wait_stays_owed),
        ORDER(work_in_streams_that_nobody_knows_is_fenced_with_its_context),
        ORDER(a_wait_for_now_ends_with_what_was_submitted_before),
        ORDER(what_was_fenced_meanwhile_is_not_done_with_a_wait_that_began_before),
        ORDER(nothing_is_put_behind_a_wait_for_now),
        ORDER(a_wait_for_now_of_unknown_streams_is_for_the_context),
        ORDER(a_context_that_ends_owes_nothing),
        ORDER(a_context_may_end_while_it_is_waited_for),
        ORDER(a_wait_for_one_stream_covers_what_lies_in_it_alone),
        ORDER(ends_of_a_context_wait_but_once_for_a_thread_that_ended_in_a_visit),
        ORDER(what_was_not_waited_for_as_a_context_seemed_to_end_is_owed_again),
        ORDER(a_thread_waits_in_its_own_context_although_that_seems_to_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
