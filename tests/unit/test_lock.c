/* The check of the locks: breaches of their order, and false assertions, end the process; what is
 * allowed does not. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "base/lock.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t start = PTHREAD_MUTEX_INITIALIZER, pool = PTHREAD_MUTEX_INITIALIZER;

static bool aborts(void (*function)(void)) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        function();
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void in_order(void) {
    lock_check_none();
    lock_take(&start, LOCK_START);
    lock_check_held(LOCK_START);
    lock_take(&pool, LOCK_POOL);
    lock_check_held(LOCK_START);
    lock_check_held(LOCK_POOL);
    lock_drop(&pool, LOCK_POOL);
    lock_drop(&start, LOCK_START);
    lock_check_none();
}

static void against_the_order(void) {
    lock_take(&pool, LOCK_POOL);
    lock_take(&start, LOCK_START);
}

static void twice(void) {
    lock_take(&pool, LOCK_POOL);
    lock_take(&pool, LOCK_POOL);
}

static void held_where_none_may_be(void) {
    lock_take(&pool, LOCK_POOL);
    lock_check_none();
}

static void not_held(void) {
    lock_check_drop(LOCK_POOL);
}

static void held_by_nobody(void) {
    lock_check_held(LOCK_POOL);
}

static void another_held(void) {
    lock_take(&start, LOCK_START);
    lock_check_held(LOCK_POOL);
}

static void given_back(void) {
    lock_take(&pool, LOCK_POOL);
    lock_drop(&pool, LOCK_POOL);
    lock_check_held(LOCK_POOL);
}

static void *assert_it(void *unused) {
    lock_check_held(LOCK_POOL);
    return unused;
}

static void held_by_another_thread(void) {
    pthread_t other;
    lock_take(&pool, LOCK_POOL);
    pthread_create(&other, NULL, assert_it, NULL);
    pthread_join(other, NULL);
}

static void locks_taken_in_order_are_fine(void **state) {
    (void)state;
    assert_false(aborts(in_order));
}

static void every_breach_ends_the_process(void **state) {
    (void)state;
    assert_true(aborts(against_the_order));
    assert_true(aborts(twice));
    assert_true(aborts(held_where_none_may_be));
    assert_true(aborts(not_held));
}

static void a_lock_that_the_thread_itself_does_not_hold_ends_the_process(void **state) {
    (void)state;
    assert_true(aborts(held_by_nobody));
    assert_true(aborts(another_held));
    assert_true(aborts(given_back));
    assert_true(aborts(held_by_another_thread));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_taken_in_order_are_fine),
        cmocka_unit_test(every_breach_ends_the_process),
        cmocka_unit_test(a_lock_that_the_thread_itself_does_not_hold_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
