/* Requests: what comes through, and what of a hostile one does. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "peers/mailbox.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct stats_page *page;

/* What another does while an asker is about to read the clock; NULL: nothing. */
static void (*another)(void);

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (another)
        another();
    return (int)syscall(SYS_clock_gettime, clock, now);
}

static int open_page(void **state) {
    (void)state;
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    mailbox_open(&page->mailbox);
    return 0;
}

static int close_page(void **state) {
    (void)state;
    another = NULL;
    mailbox_close();
    munmap(page, sizeof *page);
    return 0;
}

static struct mailbox_request trim(uint64_t bytes) {
    return (struct mailbox_request){.kind = MAILBOX_TRIM, .device = 2, .bytes = bytes};
}

static void post(struct mailbox_request *request) {
    assert_true(mailbox_post(&page->mailbox, request));
}

static bool is_answered(const struct mailbox_request *request, struct mailbox_reply *reply) {
    return mailbox_look(&page->mailbox, request, reply) == MAILBOX_ANSWERED;
}

/* What an asker's claim is once it has been stopped for a while. */
static void let_claim_pass(void) {
    page->mailbox.claim -= 1000;
}

static void a_request_comes_through_and_so_does_the_answer(void **state) {
    (void)state;
    struct mailbox_request sent = trim(77), got;
    struct mailbox_reply reply;
    snprintf(sent.text, sizeof sent.text, "NAME=VALUE");
    assert_false(mailbox_waits());
    assert_false(mailbox_take(&got));
    post(&sent);
    assert_true(mailbox_waits());
    assert_false(is_answered(&sent, &reply));
    assert_true(mailbox_take(&got));
    assert_int_equal(got.kind, MAILBOX_TRIM);
    assert_int_equal(got.device, 2);
    assert_int_equal(got.bytes, 77);
    assert_string_equal(got.text, "NAME=VALUE");
    mailbox_answer(&got, 55, "well");
    assert_false(mailbox_waits());
    assert_true(is_answered(&sent, &reply));
    assert_int_equal(reply.released, 55);
    assert_string_equal(reply.text, "well");
}

static void one_thread_answers_at_a_time_and_may_leave_it_for_later(void **state) {
    (void)state;
    struct mailbox_request sent = trim(1), got, other;
    post(&sent);
    assert_true(mailbox_take(&got));
    assert_false(mailbox_take(&other));
    mailbox_postpone();
    assert_true(mailbox_waits());
    assert_true(mailbox_take(&got));
    mailbox_answer(&got, 0, "");
    assert_false(mailbox_take(&other));
}

static void one_that_was_withdrawn_asks_for_nothing_and_the_next_is_answered(void **state) {
    (void)state;
    struct mailbox_request sent = trim(1), got;
    struct mailbox_reply reply;
    post(&sent);
    assert_int_equal(mailbox_leave(&page->mailbox, &sent), MAILBOX_WITHDRAWN);
    assert_true(mailbox_take(&got));
    assert_int_equal(got.kind, MAILBOX_NOTHING);
    mailbox_answer(&got, 0, "");
    sent = trim(9);
    post(&sent);
    assert_int_equal(mailbox_leave(&page->mailbox, &sent), MAILBOX_WITHDRAWN);
    struct mailbox_request next = trim(10);
    post(&next); /* before the process came to the other */
    assert_true(mailbox_take(&got));
    assert_int_equal(got.bytes, 10);
    mailbox_answer(&got, 10, "");
    assert_false(is_answered(&sent, &reply));
    assert_true(is_answered(&next, &reply));
}

static void an_unsound_request_is_answered_and_does_nothing(void **state) {
    (void)state;
    struct mailbox_request got;
    const struct {
        uint32_t kind;
        int32_t device;
        int fill; /* of the text, all of it */
    } bad[] = {{MAILBOX_KINDS, 0, 0},  {UINT32_MAX, 0, 0},      {MAILBOX_TRIM, -2, 0},
               {MAILBOX_SET, -1, 'x'}, {MAILBOX_TRIM, 0, 0xff}, {MAILBOX_SET, INT32_MIN, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mailbox_request sent = {.kind = (enum mailbox_kind)bad[i].kind,
                                       .device = bad[i].device};
        memset(sent.text, bad[i].fill, sizeof sent.text);
        post(&sent);
        assert_true(mailbox_take(&got));
        assert_int_equal(got.kind, MAILBOX_NOTHING);
        assert_int_equal(got.text[sizeof got.text - 1], 0);
        mailbox_answer(&got, 0, "");
        assert_int_equal(page->mailbox.answered, page->mailbox.posted);
        assert_int_equal(mailbox_leave(&page->mailbox, &sent), MAILBOX_BEGUN);
    }
    page->mailbox.posted += UINT32_MAX; /* any other number is a new one */
    assert_true(mailbox_take(&got));
    assert_int_equal(got.kind, MAILBOX_NOTHING);
    mailbox_answer(&got, 0, "");
    page->mailbox.answered = 12345; /* what it says of itself changes nothing */
    assert_false(mailbox_waits());
}

static void a_long_answer_is_cut_and_ends(void **state) {
    (void)state;
    struct mailbox_request sent = trim(1), got;
    struct mailbox_reply reply;
    char text[2 * PAGE_REQUEST];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    post(&sent);
    assert_true(mailbox_take(&got));
    mailbox_answer(&got, 0, text);
    assert_true(is_answered(&sent, &reply));
    assert_int_equal(strlen(reply.text), PAGE_REQUEST - 1);
    memset(page->mailbox.answer, 'b', sizeof page->mailbox.answer);
    assert_true(is_answered(&sent, &reply));
    assert_int_equal(strlen(reply.text), PAGE_REQUEST - 1);
}

static void only_one_asks_at_a_time(void **state) {
    (void)state;
    struct mailbox_request sent = trim(1), other = trim(2);
    struct mailbox_reply reply;
    post(&sent);
    assert_false(mailbox_post(&page->mailbox, &other));
    for (int i = 0; i < 5; i++) { /* as long as it looks for its answer */
        page->mailbox.claim -= 40;
        assert_int_equal(mailbox_look(&page->mailbox, &sent, &reply), MAILBOX_WAITS);
        assert_false(mailbox_post(&page->mailbox, &other));
    }
    assert_int_equal(mailbox_leave(&page->mailbox, &sent), MAILBOX_WITHDRAWN);
    post(&other);
}

static void who_is_stopped_while_it_asks_bars_nobody(void **state) {
    (void)state;
    struct mailbox_request stopped = trim(1), other = trim(2), got;
    struct mailbox_reply reply;
    post(&stopped);
    let_claim_pass();
    post(&other);
    assert_true(mailbox_take(&got));
    assert_int_equal(got.bytes, 2);
    mailbox_answer(&got, 20, "");
    assert_int_equal(mailbox_look(&page->mailbox, &stopped, &reply), MAILBOX_LOST);
    assert_int_equal(mailbox_leave(&page->mailbox, &stopped), MAILBOX_TAKEN_OVER);
    assert_true(is_answered(&other, &reply));
    assert_int_equal(reply.released, 20);
    assert_int_equal(mailbox_leave(&page->mailbox, &other), MAILBOX_BEGUN);
}

static void who_lost_the_mailbox_takes_no_answer_for_its_own(void **state) {
    (void)state;
    struct mailbox_request stopped = trim(1), other = trim(2), got;
    struct mailbox_reply reply;
    post(&stopped);
    assert_true(mailbox_take(&got));
    mailbox_answer(&got, 10, "its own");
    let_claim_pass();
    post(&other);
    memcpy(page->mailbox.answer, "another", sizeof "another"); /* which is being answered */
    assert_int_equal(mailbox_look(&page->mailbox, &stopped, &reply), MAILBOX_LOST);
}

static void takes_the_mailbox_10_ms_later(void) {
    struct timespec now;
    another = NULL;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    page->mailbox.claim = UINT64_C(7) << 32 | (uint32_t)(ms + 10 + 50);
}

/* It has been stopped for those 10 ms. */
static void who_is_slow_to_take_the_mailbox_takes_it_from_nobody(void **state) {
    (void)state;
    struct mailbox_request slow = trim(1);
    another = takes_the_mailbox_10_ms_later;
    assert_false(mailbox_post(&page->mailbox, &slow));
    assert_int_equal(page->mailbox.claim >> 32, 7);
}

enum { LONG_ENOUGH = 100000 };
static unsigned numbers;

static void writes_a_number(void) {
    if (numbers++ < LONG_ENOUGH)
        page->mailbox.posted += 1000;
}

static void who_writes_numbers_without_end_keeps_no_asker(void **state) {
    (void)state;
    struct mailbox_request sent = trim(1);
    numbers = 0;
    another = writes_a_number;
    assert_false(mailbox_post(&page->mailbox, &sent));
    assert_in_range(numbers, 1, LONG_ENOUGH - 1);
    another = NULL;
    post(&sent); /* what it had taken it has given back */
}

/* What a late one has in its registers when it goes on, in the middle of mailbox_post. */
static void what_a_late_one_writes_over_another_s_request_does_nothing(void **state) {
    (void)state;
    struct mailbox_request late = trim(UINT64_MAX), other, got;
    struct mailbox_reply reply;
    post(&late);
    const struct stats_mailbox written = page->mailbox;
    mailbox_leave(&page->mailbox, &late);
    for (int what = 0; what < 5; what++) {
        other = trim(2);
        other.device = 0;
        post(&other);
        if (what == 0)
            page->mailbox.bytes = written.bytes;
        if (what == 1)
            page->mailbox.device = written.device;
        if (what == 2)
            page->mailbox.seal = written.seal;
        if (what == 3) { /* all but the number */
            page->mailbox.bytes = written.bytes;
            page->mailbox.device = written.device;
            page->mailbox.seal = written.seal;
        }
        if (what == 4)
            page->mailbox.posted = written.posted;
        assert_true(mailbox_take(&got));
        assert_int_equal(got.kind, MAILBOX_NOTHING);
        mailbox_refuse(&got);
        assert_int_equal(mailbox_look(&page->mailbox, &other, &reply),
                         what == 4 ? MAILBOX_WAITS : MAILBOX_LOST);
        if (what == 4)
            assert_int_equal(mailbox_leave(&page->mailbox, &other), MAILBOX_WITHDRAWN);
    }
    other = trim(3);
    post(&other); /* at once */
    assert_true(mailbox_take(&got));
    assert_int_equal(got.bytes, 3);
    mailbox_answer(&got, 3, "");
    assert_true(is_answered(&other, &reply));
}

/* Threads as askers that are stopped anywhere: each takes the others' claims for old ones. */
enum { ASKERS = 3, ROUNDS = 20000 };
static atomic_bool asking_is_over;

static void *ask_often(void *number) {
    struct mailbox_request request;
    struct mailbox_reply reply;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        request = trim((uint64_t)(uintptr_t)number << 32 | i);
        request.device = (int)(request.bytes % 1000);
        snprintf(request.text, sizeof request.text, "%llu", (unsigned long long)request.bytes);
        page->mailbox.claim &= ~(uint64_t)UINT32_MAX; /* as if time were up */
        if (mailbox_post(&page->mailbox, &request) &&
            mailbox_look(&page->mailbox, &request, &reply) == MAILBOX_ANSWERED)
            assert_true(reply.released == request.bytes || *reply.text);
    }
    return NULL;
}

static void *answer_often(void *unused) {
    struct mailbox_request got;
    (void)unused;
    while (!atomic_load(&asking_is_over))
        if (mailbox_take(&got)) {
            if (got.kind == MAILBOX_TRIM) {
                assert_int_equal(strtoull(got.text, NULL, 10), got.bytes);
                assert_int_equal(got.device, got.bytes % 1000);
            }
            mailbox_answer(&got, got.bytes, got.kind == MAILBOX_TRIM ? "" : "ask again");
        }
    return NULL;
}

static void no_request_is_ever_made_of_two(void **state) {
    (void)state;
    pthread_t askers[ASKERS], process;
    atomic_store(&asking_is_over, false);
    assert_int_equal(pthread_create(&process, NULL, answer_often, NULL), 0);
    for (uintptr_t i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_create(&askers[i], NULL, ask_often, (void *)(i + 1)), 0);
    for (int i = 0; i < ASKERS; i++)
        pthread_join(askers[i], NULL);
    atomic_store(&asking_is_over, true);
    pthread_join(process, NULL);
}

/* Who leaves meanwhile must not say that nothing was done. */
static void who_leaves_learns_whether_its_request_was_begun(void **state) {
    (void)state;
    struct mailbox_request sent = trim(1), got;
    post(&sent);
    assert_true(mailbox_take(&got));
    assert_int_equal(mailbox_leave(&page->mailbox, &sent), MAILBOX_BEGUN);
    mailbox_answer(&got, 1, "");
    post(&sent);
    assert_true(mailbox_take(&got));
    mailbox_postpone();
    assert_int_equal(mailbox_leave(&page->mailbox, &sent), MAILBOX_WITHDRAWN);
    assert_true(mailbox_take(&got));
    assert_int_equal(got.kind, MAILBOX_NOTHING);
    mailbox_answer(&got, 0, "");
}

/* In threads: what is said to be withdrawn is never carried out. */
enum { WITHDRAWALS = 20000 };
static _Atomic uint64_t carried_out;

static void *carry_out(void *unused) {
    struct mailbox_request got;
    (void)unused;
    while (!atomic_load(&asking_is_over))
        if (mailbox_take(&got)) {
            if (got.kind == MAILBOX_TRIM)
                atomic_store(&carried_out, got.bytes);
            mailbox_answer(&got, 0, "");
        }
    return NULL;
}

static void what_is_withdrawn_is_not_carried_out(void **state) {
    (void)state;
    pthread_t process;
    atomic_store(&asking_is_over, false);
    assert_int_equal(pthread_create(&process, NULL, carry_out, NULL), 0);
    uint64_t withdrawn = 0;
    for (uint64_t i = 1; i <= WITHDRAWALS; i++) {
        struct mailbox_request request = trim(i);
        post(&request);
        if (mailbox_leave(&page->mailbox, &request) == MAILBOX_WITHDRAWN)
            withdrawn = i;
        assert_true(!withdrawn || atomic_load(&carried_out) != withdrawn);
    }
    atomic_store(&asking_is_over, true);
    pthread_join(process, NULL);
}

static void a_page_that_ends_answers(void **state) {
    (void)state;
    struct mailbox_request sent = trim(1);
    struct mailbox_reply reply;
    post(&sent);
    mailbox_finish();
    assert_true(is_answered(&sent, &reply));
    assert_int_not_equal(strlen(reply.text), 0);
}

/* As in a child that a signal's handler forks in the midst of an answer. */
static void what_is_taken_when_the_mailbox_closes_is_not_answered(void **state) {
    (void)state;
    struct mailbox_request sent = trim(1), got;
    struct mailbox_reply reply;
    post(&sent);
    assert_true(mailbox_take(&got));
    mailbox_close();
    mailbox_answer(&got, 5, "from the child");
    mailbox_postpone();
    mailbox_refuse(&got);
    assert_false(is_answered(&sent, &reply));
    assert_int_equal(mailbox_leave(&page->mailbox, &sent), MAILBOX_BEGUN);
    assert_false(mailbox_waits());
    mailbox_open(&page->mailbox);
    sent = trim(2);
    post(&sent);
    assert_true(mailbox_take(&got));
    mailbox_answer(&got, 2, "");
    assert_true(is_answered(&sent, &reply));
}

int main(void) {
#define PAGE(name) cmocka_unit_test_setup_teardown(name, open_page, close_page)
    const struct CMUnitTest tests[] = {
        PAGE(a_request_comes_through_and_so_does_the_answer),
        PAGE(one_thread_answers_at_a_time_and_may_leave_it_for_later),
        PAGE(one_that_was_withdrawn_asks_for_nothing_and_the_next_is_answered),
        PAGE(an_unsound_request_is_answered_and_does_nothing),
        PAGE(a_long_answer_is_cut_and_ends),
        PAGE(only_one_asks_at_a_time),
        PAGE(who_is_stopped_while_it_asks_bars_nobody),
        PAGE(who_lost_the_mailbox_takes_no_answer_for_its_own),
        PAGE(who_is_slow_to_take_the_mailbox_takes_it_from_nobody),
        PAGE(who_writes_numbers_without_end_keeps_no_asker),
        PAGE(what_a_late_one_writes_over_another_s_request_does_nothing),
        PAGE(no_request_is_ever_made_of_two),
        PAGE(who_leaves_learns_whether_its_request_was_begun),
        PAGE(what_is_withdrawn_is_not_carried_out),
        PAGE(a_page_that_ends_answers),
        PAGE(what_is_taken_when_the_mailbox_closes_is_not_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
