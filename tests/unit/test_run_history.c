/* What a run held over its time, as the heat map of a job shows it. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "cli/run_history.h"

#include <string.h>

enum { END = 6400 }; /* 100 for each column */

static struct stats_page page;

static void add_sample(struct stats_device *device, uint64_t time_ns, uint64_t in_use) {
    struct stats_sample *sample = &device->samples[device->sample_count++];
    atomic_store(&sample->time_ns, time_ns);
    atomic_store(&sample->in_use, in_use);
}

static int start(void **state) {
    (void)state;
    memset(&page, 0, sizeof page);
    atomic_store(&page.last_ns, END);
    return 0;
}

static void between_two_samples_the_former_holds(void **state) {
    struct run_history history;

    (void)state;
    add_sample(&page.devices[0], 10, 10);
    add_sample(&page.devices[0], 120, 63); /* and within the same column less */
    add_sample(&page.devices[0], 130, 21);
    add_sample(&page.devices[0], 450, 0);
    run_history(&page, &history);
    assert_int_equal(history.top, 63);
    assert_int_equal(history.levels[0], 10);
    assert_int_equal(history.levels[1], 63);
    assert_int_equal(history.levels[2], 21);
    assert_int_equal(history.levels[3], 21);
    assert_int_equal(history.levels[4], 21); /* until it falls there */
    assert_int_equal(history.levels[5], 0);
    assert_int_equal(history.levels[RUN_COLUMNS - 1], 0);
}

static void what_devices_held_is_added_up(void **state) {
    struct run_history history;

    (void)state;
    add_sample(&page.devices[0], 0, 20);
    add_sample(&page.devices[1], END, 43); /* in the last column */
    run_history(&page, &history);
    assert_int_equal(history.top, 63);
    assert_int_equal(history.levels[0], 20);
    assert_int_equal(history.levels[RUN_COLUMNS - 1], 63);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(between_two_samples_the_former_holds, start),
        cmocka_unit_test_setup(what_devices_held_is_added_up, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
