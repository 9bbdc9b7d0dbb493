/* Which figures of `poolcuda replay --sweep` are a defect. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "cli/sweep_cliffs.h"

enum { ALLOCATIONS = 1000, ROW = 3 };

static struct sweep sweep;

/* One row serves so many of a thousand at each size; the others everything. */
static void serve(uint64_t hits) {
    for (size_t row = 0; row < SWEEP_ROWS; row++)
        for (size_t i = 0; i < SWEEP_SIZES; i++)
            sweep.results[row][i] = (struct replay_result){.allocations = ALLOCATIONS,
                                                           .hits = row == ROW ? hits : ALLOCATIONS};
}

static void less_that_is_served_with_more_memory_is_a_cliff(void **state) {
    (void)state;
    serve(990);
    sweep.results[ROW][2].hits = 370; /* and all is well again with 1% more */
    sweep_find_cliffs(&sweep);
    assert_int_equal(sweep.cliff_count, 1);
    assert_int_equal(sweep.cliffs[0].row, ROW);
    assert_int_equal(sweep.cliffs[0].at, 2);
    assert_int_equal(sweep_percents[sweep.cliffs[0].before], 101);
}

static void what_is_served_with_far_less_memory_makes_none(void **state) {
    (void)state;
    serve(370);
    for (size_t i = 0; sweep_percents[i] <= 106; i++)
        sweep.results[ROW][i].hits = 990;
    sweep_find_cliffs(&sweep);
    for (size_t i = 0; i < sweep.cliff_count; i++)
        assert_true(sweep_percents[sweep.cliffs[i].at] <= 110);
    assert_int_equal(sweep.cliff_count, 2); /* 108 and 110: both within 4% of 106 */
}

static void more_that_is_served_with_more_memory_is_none(void **state) {
    (void)state;
    serve(0);
    for (size_t i = 0; i < SWEEP_SIZES; i++)
        sweep.results[ROW][i].hits = i * ALLOCATIONS / SWEEP_SIZES;
    sweep_find_cliffs(&sweep);
    assert_int_equal(sweep.cliff_count, 0);
}

static void where_more_fails_without_the_pool_too_there_is_none(void **state) {
    (void)state;
    serve(990);
    sweep.results[ROW][2].hits = 0;
    sweep.results[SWEEP_ROWS - 1][2].oom_failures = 1;
    sweep_find_cliffs(&sweep);
    assert_int_equal(sweep.cliff_count, 0);
}

static void a_little_less_is_none(void **state) {
    (void)state;
    serve(990);
    sweep.results[ROW][5].hits = 950;
    sweep_find_cliffs(&sweep);
    assert_int_equal(sweep.cliff_count, 0);
}

static void what_nothing_was_asked_of_has_none(void **state) {
    (void)state;
    sweep = (struct sweep){0};
    sweep_find_cliffs(&sweep);
    assert_int_equal(sweep.cliff_count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(less_that_is_served_with_more_memory_is_a_cliff),
        cmocka_unit_test(what_is_served_with_far_less_memory_makes_none),
        cmocka_unit_test(more_that_is_served_with_more_memory_is_none),
        cmocka_unit_test(where_more_fails_without_the_pool_too_there_is_none),
        cmocka_unit_test(a_little_less_is_none),
        cmocka_unit_test(what_nothing_was_asked_of_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
