/* Requests: what comes through, and what of a hostile one does. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "observe/mailbox.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static struct stats_page *page;
static int file; /* of the page's entry */

static int open_page(void **state) {
    (void)state;
    file = memfd_create("entry", MFD_CLOEXEC);
    assert_true(file >= 0);
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    mailbox_open(&page->mailbox);
    return 0;
}

static int close_page(void **state) {
    (void)state;
    mailbox_close();
    munmap(page, sizeof *page);
    close(file);
    return 0;
}

static struct mailbox_request trim(uint64_t bytes) {
    return (struct mailbox_request){.kind = MAILBOX_TRIM, .device = 2, .bytes = bytes};
}

static void a_request_comes_through_and_so_does_the_answer(void **state) {
    (void)state;
    struct mailbox_request sent = trim(77), got;
    struct mailbox_reply reply;
    snprintf(sent.text, sizeof sent.text, "NAME=VALUE");
    assert_false(mailbox_waits());
    assert_false(mailbox_take(&got));
    assert_true(mailbox_lock(file));
    mailbox_post(&page->mailbox, &sent);
    assert_true(mailbox_waits());
    assert_false(mailbox_look(&page->mailbox, sent.serial, &reply));
    assert_true(mailbox_take(&got));
    assert_int_equal(got.kind, MAILBOX_TRIM);
    assert_int_equal(got.device, 2);
    assert_int_equal(got.bytes, 77);
    assert_string_equal(got.text, "NAME=VALUE");
    mailbox_answer(&got, 55, "well");
    assert_false(mailbox_waits());
    assert_true(mailbox_look(&page->mailbox, sent.serial, &reply));
    assert_int_equal(reply.released, 55);
    assert_string_equal(reply.text, "well");
}

static void one_thread_answers_at_a_time_and_may_leave_it_for_later(void **state) {
    (void)state;
    struct mailbox_request sent = trim(1), got, other;
    mailbox_post(&page->mailbox, &sent);
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
    mailbox_post(&page->mailbox, &sent);
    mailbox_withdraw(&page->mailbox);
    assert_true(mailbox_take(&got));
    assert_int_equal(got.kind, MAILBOX_NOTHING);
    mailbox_answer(&got, 0, "");
    sent = trim(9);
    mailbox_post(&page->mailbox, &sent);
    mailbox_withdraw(&page->mailbox);
    struct mailbox_request next = trim(10);
    mailbox_post(&page->mailbox, &next); /* before the process came to the other */
    assert_true(mailbox_take(&got));
    assert_int_equal(got.bytes, 10);
    mailbox_answer(&got, 10, "");
    assert_false(mailbox_look(&page->mailbox, sent.serial, &reply));
    assert_true(mailbox_look(&page->mailbox, next.serial, &reply));
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
        page->mailbox.kind = bad[i].kind;
        page->mailbox.device = bad[i].device;
        memset(page->mailbox.text, bad[i].fill, sizeof page->mailbox.text);
        page->mailbox.posted += UINT32_MAX; /* any other number is a new one */
        assert_true(mailbox_take(&got));
        assert_int_equal(got.kind, MAILBOX_NOTHING);
        assert_int_equal(got.text[sizeof got.text - 1], 0);
        mailbox_answer(&got, 0, "");
        assert_int_equal(page->mailbox.answered, page->mailbox.posted);
    }
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
    mailbox_post(&page->mailbox, &sent);
    assert_true(mailbox_take(&got));
    mailbox_answer(&got, 0, text);
    assert_true(mailbox_look(&page->mailbox, sent.serial, &reply));
    assert_int_equal(strlen(reply.text), PAGE_REQUEST - 1);
    memset(page->mailbox.answer, 'b', sizeof page->mailbox.answer);
    assert_true(mailbox_look(&page->mailbox, sent.serial, &reply));
    assert_int_equal(strlen(reply.text), PAGE_REQUEST - 1);
}

static void only_one_asks_at_a_time(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int other = open(path, O_RDWR | O_CLOEXEC);
    assert_true(other >= 0);
    assert_true(mailbox_lock(file));
    assert_false(mailbox_lock(other));
    assert_int_equal(flock(file, LOCK_UN), 0);
    assert_true(mailbox_lock(other));
    close(other);
}

static void a_page_that_ends_answers(void **state) {
    (void)state;
    struct mailbox_request sent = trim(1);
    struct mailbox_reply reply;
    mailbox_post(&page->mailbox, &sent);
    mailbox_finish();
    assert_true(mailbox_look(&page->mailbox, sent.serial, &reply));
    assert_int_not_equal(strlen(reply.text), 0);
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
        PAGE(a_page_that_ends_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
