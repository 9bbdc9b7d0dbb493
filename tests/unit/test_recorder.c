/* The recorder, read back: what goes in comes out, also beyond its buffer and its tables. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "counters/stats.h"
#include "site_tag.h"
#include "trace/recorder.h"
#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SITES = 8192 }; /* the recorder's table */

static char folder[] = "/tmp/test_recorder.XXXXXX", path[64];

/* What a signal's handler does while an event is about to be given its time; NULL: nothing. */
static void (*interrupt)(void);

int clock_gettime(clockid_t clock, struct timespec *now) {
    void (*handler)(void) = interrupt;
    interrupt = NULL;
    if (handler)
        handler();
    return (int)syscall(SYS_clock_gettime, clock, now);
}

static void refuse(const char *line) {
    fail_msg("%s", line);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

static int start(void **state) {
    (void)state;
    snprintf(path, sizeof path, "%s/trace", folder);
    recorder_open(path, refuse);
    return recorder_active() ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    recorder_finish();
    return unlink(path);
}

static struct trace *finished(void) {
    recorder_finish();
    assert_false(recorder_active());
    struct trace *trace = trace_read(path, refuse);
    assert_non_null(trace);
    assert_false(trace->cut_off);
    return trace;
}

/* In no module, so that its name is its address. */
static struct call_site site_at(uintptr_t address) {
    return (struct call_site){.depth = 1, .frames = {address}};
}

static void what_goes_in_comes_out(void **state) {
    (void)state;
    struct call_site one = site_at(16), two = {.depth = 2, .frames = {32, 48}};
    recorder_alloc(0x1000, 100, &one, 0, 0);
    recorder_alloc(0x2000, 200, &two, 3, 0x77);
    recorder_alloc(0x3000, 300, NULL, 0, 0);
    assert_int_equal(recorder_free(0x1000, 0), 3);
    recorder_free_failed(recorder_free(0x2000, 0), 0x2000);
    recorder_free(0x2000, 0x77);
    struct trace *trace = finished();
    static const struct {
        uint64_t op, block, value, stream, device;
        const char *site;
    } expected[] = {
        {TRACE_ALLOC, 0, 100, 0, 0, "(unknown)+0x10"},
        {TRACE_ALLOC, 1, 200, 1, 3, "(unknown)+0x20 < (unknown)+0x30"},
        {TRACE_ALLOC, 2, 300, 0, 0, ""},
        {TRACE_FREE, 0, 0, 0, 0, ""},
        {TRACE_FREE, 1, 0, 1, 3, ""},
    };
    assert_int_equal(trace->event_count, 5);
    for (size_t i = 0; i < 5; i++) {
        const struct trace_event *event = &trace->events[i];
        assert_int_equal(event->op, expected[i].op);
        assert_int_equal(event->block, expected[i].block);
        assert_int_equal(event->value, expected[i].value);
        assert_int_equal(event->stream, expected[i].stream);
        assert_int_equal(event->device, expected[i].device);
        assert_string_equal(trace->sites[event->site].name, expected[i].site);
    }
    assert_int_equal(stats_get(STATS_trace_events), 7);
    assert_int_equal(stats_get(STATS_trace_lost), 0);
    trace_free(trace);
}

static void a_tag_is_recorded_by_its_text(void **state) {
    (void)state;
    struct call_site tag = {.depth = 0}, code = site_at(16);
    site_tag_push("weights, all");
    assert_true(site_tag_find(&tag));
    site_tag_pop();
    recorder_alloc(0x1000, 100, &tag, 0, 0);
    recorder_alloc(0x2000, 200, &code, 0, 0);
    recorder_alloc(0x3000, 300, &tag, 0, 0);
    struct trace *trace = finished();
    assert_int_equal(trace->event_count, 3);
    static const char *const expected[] = {"weights, all", "(unknown)+0x10", "weights, all"};
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(trace->sites[trace->events[i].site].name, expected[i]);
    assert_int_equal(trace->events[0].site, trace->events[2].site);
    trace_free(trace);
}

/* Wherever the room ends, also where it would do for the last events, but not for the end. */
static void a_file_that_may_not_grow_has_its_end_all_the_same(void **state) {
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    for (rlim_t size = 8192; size < 8192 + 4096; size += 8) {
        recorder_finish();
        unlink(path);
        limit = (struct rlimit){.rlim_cur = size, .rlim_max = before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limit);
        assert_int_equal(start(state), 0);
        for (uint64_t i = 1; i <= 1000; i++)
            recorder_alloc(i << 12, 100, NULL, 0, 0);
        struct trace *trace = finished();
        setrlimit(RLIMIT_FSIZE, &before);
        assert_true(trace->lost_events > 0);
        assert_int_equal(trace->lost_events, stats_get(STATS_trace_lost));
        assert_int_equal(trace->event_count + trace->lost_events, 1000);
        trace_free(trace);
    }
}

/* Natively some such calls succeed; readers take an allocation of nothing for damage. */
static void what_takes_no_memory_is_no_event(void **state) {
    (void)state;
    recorder_alloc(0x1000, 0, NULL, 0, 0);
    recorder_alloc(0, 100, NULL, 0, 0);
    assert_int_not_equal(access(path, F_OK), 0); /* the first event makes the file */
    recorder_alloc(0x2000, 100, NULL, 0, 0);
    struct trace *trace = finished();
    assert_int_equal(trace->event_count, 1);
    trace_free(trace);
}

/* Records of different sizes meet the buffer's end in every way. Each block is its own site. */
static void later_sites_than_the_table_holds_are_unknown(void **state) {
    (void)state;
    for (uintptr_t i = 1; i <= SITES + 100; i++) {
        struct call_site site = site_at(16 * i);
        recorder_alloc(i, i, &site, 0, 0);
        if (i % 3 == 0)
            recorder_free(i, 0);
    }
    struct call_site known = site_at(16);
    recorder_alloc(1u << 20, 1, &known, 0, 0);
    struct trace *trace = finished();
    size_t allocations = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        char name[64] = "";
        const struct trace_event *event = &trace->events[i];
        if (event->op == TRACE_FREE) {
            assert_int_equal((event->block + 1) % 3, 0);
            continue;
        }
        uint64_t number = ++allocations > SITES + 100 ? 1 : allocations;
        assert_int_equal(event->value, number);
        if (number <= SITES)
            snprintf(name, sizeof name, "(unknown)+0x%llx", 16 * (unsigned long long)number);
        assert_string_equal(trace->sites[event->site].name, name);
    }
    assert_int_equal(allocations, SITES + 101);
    assert_int_equal(trace->event_count, SITES + 101 + (SITES + 100) / 3);
    trace_free(trace);
}

/* Threads may still allocate while the process ends. */
static void what_comes_after_the_end_leaves_the_figures_alone(void **state) {
    (void)state;
    for (uint64_t i = 1; i <= 10; i++)
        recorder_alloc(i, 1, NULL, 0, 0);
    recorder_finish();
    recorder_alloc(11, 1, NULL, 0, 0);
    recorder_free_failed(recorder_free(1, 0), 1);
    assert_int_equal(stats_get(STATS_trace_events), 10);
    struct trace *trace = finished();
    assert_int_equal(trace->event_count, 10);
    trace_free(trace);
}

static void a_child_that_records_nothing_loses_none_of_its_parents_events(void **state) {
    (void)state;
    uint64_t lost = stats_get(STATS_trace_lost); /* by other tests */
    for (uintptr_t i = 1; i <= 10; i++)
        recorder_alloc(i, 1, NULL, 0, 0);
    recorder_forget_after_fork();
    recorder_open("no file is made", refuse);
    recorder_finish();
    assert_int_equal(stats_get(STATS_trace_lost), lost);
}

/* As in a child that a signal's handler forks in the midst of an event. */
static void
an_event_that_a_fork_interrupts_ends_in_the_child_and_is_not_recorded_there(void **state) {
    (void)state;
    char of_child[80];
    snprintf(of_child, sizeof of_child, "%s.child", path);
    for (uintptr_t i = 1; i <= 10; i++) {
        struct call_site site = site_at(16 * i);
        recorder_alloc(i, 1, &site, 0, 0);
    }
    struct call_site known = site_at(32);
    interrupt = recorder_forget_after_fork;
    recorder_alloc(100, 1, &known, 0, 0);
    assert_null(interrupt);
    assert_false(recorder_active());
    recorder_open(of_child, refuse);
    for (uintptr_t i = 1; i <= 3; i++) {
        struct call_site site = site_at(16 * i);
        recorder_alloc(i, i, &site, 0, 0);
    }
    assert_int_equal(recorder_free(1, 0), 3);
    recorder_finish();
    struct trace *trace = trace_read(of_child, refuse);
    assert_non_null(trace);
    assert_false(trace->cut_off);
    assert_int_equal(trace->event_count, 4);
    assert_string_equal(trace->sites[trace->events[1].site].name, "(unknown)+0x20");
    trace_free(trace);
    unlink(of_child);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_goes_in_comes_out, start, end),
        cmocka_unit_test_setup_teardown(a_tag_is_recorded_by_its_text, start, end),
        cmocka_unit_test_setup_teardown(a_file_that_may_not_grow_has_its_end_all_the_same, start,
                                        end),
        cmocka_unit_test_setup_teardown(what_takes_no_memory_is_no_event, start, end),
        cmocka_unit_test_setup_teardown(later_sites_than_the_table_holds_are_unknown, start, end),
        cmocka_unit_test_setup_teardown(what_comes_after_the_end_leaves_the_figures_alone, start,
                                        end),
        cmocka_unit_test_setup_teardown(
            a_child_that_records_nothing_loses_none_of_its_parents_events, start, end),
        cmocka_unit_test_setup_teardown(
            an_event_that_a_fork_interrupts_ends_in_the_child_and_is_not_recorded_there, start,
            end),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
