/* A device's history: bounded, in order, and true at the peaks. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "pool/internal.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t millisecond = 1000000;
static uint64_t now;
static struct stats_device stats;
static struct device device;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* in place of a pool's */

uint64_t __wrap_stats_now(void); // NOLINT(bugprone-reserved-identifier): the linker's name

uint64_t __wrap_stats_now(void) { // NOLINT(bugprone-reserved-identifier)
    return now;
}

static int start(void **state) {
    (void)state;
    now = 0;
    memset(&stats, 0, sizeof stats);
    memset(&device, 0, sizeof device);
    device.stats = &stats;
    return 0;
}

/* Another allocation, after which so much is in use and idle. */
static void change(uint64_t in_use, uint64_t idle) {
    device.in_use = device.live = in_use;
    device.held = in_use + idle;
    device.allocations++;
    lock_take(&lock, LOCK_POOL);
    history_note(&device);
    lock_drop(&lock, LOCK_POOL);
}

static uint64_t held(uint32_t sample) {
    return stats.samples[sample].in_use + stats.samples[sample].idle + stats.samples[sample].waste;
}

static void in_order(void) {
    assert_in_range(stats.sample_count, 1, STATS_SAMPLES);
    for (uint32_t i = 1; i < stats.sample_count; i++) {
        assert_true(stats.samples[i - 1].time_ns / stats.interval_ns <
                    stats.samples[i].time_ns / stats.interval_ns);
        assert_true(stats.samples[i - 1].allocations <= stats.samples[i].allocations);
    }
    assert_int_equal(stats.samples[stats.sample_count - 1].allocations, device.allocations);
}

static void a_sample_shows_the_most_that_was_held_in_its_interval(void **state) {
    (void)state;
    change(1000, 0);
    change(5000, 100);
    change(2000, 0);
    assert_int_equal(stats.sample_count, 1);
    assert_int_equal(held(0), 5100);
    assert_int_equal(stats.samples[0].allocations, 3);
    now = millisecond;
    change(10, 0);
    assert_int_equal(stats.sample_count, 2);
    assert_int_equal(held(1), 10);
}

static void a_long_history_is_thinned_out_and_keeps_its_peaks(void **state) {
    (void)state;
    const uint64_t changes = 20 * STATS_SAMPLES;
    for (uint64_t i = 0; i < changes; i++, now += 3 * millisecond) {
        change(i == changes / 3 ? 1 << 20 : 100 + i % 7, i % 5);
        in_order();
    }
    uint64_t most = 0;
    for (uint32_t i = 0; i < stats.sample_count; i++)
        most = held(i) > most ? held(i) : most;
    assert_int_equal(most, (1 << 20) + changes / 3 % 5);
    assert_true(stats.sample_count > STATS_SAMPLES / 2 - 1);
}

static void a_pause_of_a_day_costs_no_samples(void **state) {
    (void)state;
    change(1, 0);
    now += 86400u * 1000 * millisecond;
    change(2, 0);
    now += 86400u * 1000 * millisecond;
    change(3, 0);
    assert_int_equal(stats.sample_count, 3);
    in_order();
}

static void a_page_that_others_zero_does_no_harm(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 2 * STATS_SAMPLES; i++, now += millisecond) {
        change(i, 0);
        memset(&stats, 0, sizeof stats);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_sample_shows_the_most_that_was_held_in_its_interval, start),
        cmocka_unit_test_setup(a_long_history_is_thinned_out_and_keeps_its_peaks, start),
        cmocka_unit_test_setup(a_pause_of_a_day_costs_no_samples, start),
        cmocka_unit_test_setup(a_page_that_others_zero_does_no_harm, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
