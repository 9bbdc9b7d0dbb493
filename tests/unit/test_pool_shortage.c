/* Devices whose memory is short: what stays free, who says what is, and what a busy one is asked.
 */
#include "pool_test.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const struct limit all = {.kind = LIMIT_PERCENT, .percent = 100};

static void start_with_throttle(double ratio, uint64_t capacity) {
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.max_idle = all;
    config.throttle_ratio = ratio;
    start_with(&config, capacity);
}

/* --- headroom --- */

static void what_cannot_restore_the_headroom_stays_idle(void **state) {
    (void)state;
    start_with_throttle(0.95, GIB);
    alloc_at(983 * MIB, 1); /* 96% */
    CUdeviceptr small = alloc_at(4 * MIB, 2);
    release(small);
    alloc_at(16 * MIB, 3); /* 31 MiB are lacking, and 4 are idle */
    assert_int_not_equal(fake_size(small), 0);
    assert_int_equal(stats_get(STATS_headroom_released_blocks), 0);
}

static void nothing_is_given_up_twice_for_the_same_reason(void **state) {
    (void)state;
    start_with_throttle(0.95, GIB);
    alloc_at(940 * MIB, 1);
    for (int round = 0; round < 10; round++) { /* neither serves the other's request */
        release(alloc_at(30 * MIB, 2));
        release(alloc_at(8 * MIB, 3));
    }
    assert_int_equal(stats_get(STATS_headroom_released_blocks), 1);
    assert_int_equal(stats_get(STATS_malloc_hits), 18 - 1);
    assert_int_equal(stats_get(STATS_bound_misses), 1); /* which the report tells */
}

static void more_live_memory_is_a_new_reason(void **state) {
    (void)state;
    start_with_throttle(0.95, GIB);
    alloc_at(900 * MIB, 1);
    CUdeviceptr one = alloc_at(60 * MIB, 2);
    release(one);
    alloc_at(20 * MIB, 3);
    assert_int_equal(fake_size(one), 0);
    CUdeviceptr other = alloc_at(50 * MIB, 4);
    release(other);
    alloc_at(14 * MIB, 5);
    assert_int_equal(fake_size(other), 0);
    assert_int_equal(stats_get(STATS_headroom_released_blocks), 2);
}

static void while_nothing_can_be_done_the_driver_is_not_asked_at_each_miss(void **state) {
    (void)state;
    enum { MISSES = 100 };
    start_with_throttle(0.95, GIB);
    alloc_at(990 * MIB, 1);
    release(alloc_at(MIB, 2));
    fake.infos = 0;
    for (uintptr_t i = 0; i < MISSES; i++)
        alloc_at(8 * KIB, 100 + i);
    assert_true(fake.infos <= 1);
}

/* --- a full device --- */

static void a_full_device_is_given_back_no_more_than_it_lacks(void **state) {
    (void)state;
    start_with_throttle(0, GIB);
    alloc_at(900 * MIB, 1);
    CUdeviceptr one = alloc_at(40 * MIB, 2), other = alloc_at(40 * MIB, 2);
    release(one);
    release(other);
    alloc_at(70 * MIB, 3); /* 44 MiB are left */
    assert_int_equal(fake.frees, 1);
    assert_int_equal(fake_size(one) + fake_size(other), 40 * MIB);
}

/* --- machines whose devices have the host's memory --- */

static char root[] = "/tmp/poolcuda-test-XXXXXX";

static void write_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_folder(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static int make_system(void **state) {
    (void)state;
    if (!mkdtemp(root))
        return 1;
    make_folder("/proc");
    make_folder("/proc/self");
    make_folder("/sys");
    make_folder("/sys/fs");
    make_folder("/sys/fs/cgroup");
    make_folder("/sys/fs/cgroup/job");
    make_folder("/sys/fs/cgroup/job/step");
    return 0;
}

static int remove_system(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command); // NOLINT(cert-env33-c): of our own folder
}

static void say_available(uint64_t bytes) {
    char text[128];
    snprintf(text, sizeof text,
             "MemTotal: %" PRIu64 " kB\nMemFree: 1000 kB\nMemAvailable:   %" PRIu64
             " kB\nBuffers: 1 kB\n",
             (16 * GIB / KIB), (bytes / KIB));
    write_file("/proc/meminfo", text);
}

static void start_machine(bool integrated) {
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.max_idle = all;
    config.throttle_ratio = 0.95;
    config.system_files = root;
    start_with(&config, 16 * GIB);
    fake.integrated = integrated;
    write_file("/proc/self/cgroup", "1:name=systemd:/job\n0::/job/step\n");
    write_file("/sys/fs/cgroup/job/memory.high", "max\n");
    write_file("/sys/fs/cgroup/job/memory.current", "0\n");
    write_file("/sys/fs/cgroup/job/dmem.max", "");
    write_file("/sys/fs/cgroup/job/dmem.current", "");
    say_available(14 * GIB);
}

static void what_the_system_can_free_counts_as_available(void **state) {
    (void)state;
    start_machine(true);
    fake.capacity = 3 * GIB; /* the rest is used, for files: so says cuMemGetInfo */
    fake.total = 16 * GIB;
    CUdeviceptr idle = alloc_at(1 * GIB, 1);
    release(idle);
    alloc_at(3 * GIB / 2, 2);
    assert_int_not_equal(fake_size(idle), 0);
    assert_int_equal(fake.infos, 0);
}

static void where_the_host_runs_short_idle_memory_goes_before_more_is_allocated(void **state) {
    (void)state;
    start_machine(true);
    CUdeviceptr idle = alloc_at(4 * GIB, 1);
    release(idle);
    say_available(3 * GIB / 2); /* the driver has more, by what it says */
    CUdeviceptr other = alloc_at(1 * GIB + MIB, 2);
    assert_int_not_equal(other, 0);
    assert_int_equal(fake_size(idle), 0);
    for (int again = 0; again < 3; again++) { /* there it is never too often */
        say_available(GIB);
        idle = alloc_at(2 * GIB, 1);
        release(idle);
        say_available(GIB / 2);
        alloc_at(1 * GIB, 3);
        assert_int_equal(fake_size(idle), 0);
    }
    assert_int_equal(fake.infos, 0);
}

static void idle_memory_keeps_within_what_a_control_group_around_allows(void **state) {
    (void)state;
    start_machine(true);
    CUdeviceptr idle = alloc_at(2 * GIB, 1);
    release(idle);
    char text[64];
    snprintf(text, sizeof text, "%" PRIu64 "\n", (4 * GIB));
    write_file("/sys/fs/cgroup/job/memory.high", text);
    snprintf(text, sizeof text, "%" PRIu64 "\n", (3 * GIB));
    write_file("/sys/fs/cgroup/job/memory.current", text);
    alloc_at(7 * GIB / 8, 2);
    assert_int_equal(fake_size(idle), 0);
}

static void a_limit_on_the_devices_own_memory_is_kept_as_well(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool mine;
    } of_device[] = {
        {"drm/0000:00:00.0/vram0", true},      {"nvidia/0000:00:00.0/vidmem", true},
        {"nvidia/00000000:00:00.0", false},    {"nvidia/00000000:00:00.0/vidmem", true},
        {"drm/0000:99:00.0/vram0", false},     {"nvidia/0001:00:00.0/vidmem", false},
        {"nvidia/0000:00:00.1/vidmem", false},
    };
    for (size_t i = 0; i < sizeof of_device / sizeof of_device[0]; i++) {
        char text[128];
        start_machine(false);
        snprintf(text, sizeof text, "%s %" PRIu64 "\n", of_device[i].name, (4 * GIB));
        write_file("/sys/fs/cgroup/job/dmem.max", text);
        snprintf(text, sizeof text, "%s %" PRIu64 "\n", of_device[i].name, (3 * GIB));
        write_file("/sys/fs/cgroup/job/dmem.current", text);
        CUdeviceptr idle = alloc_at(2 * GIB, 1);
        release(idle);
        snprintf(text, sizeof text, "%s %" PRIu64 "\n", of_device[i].name, (4 * GIB - 64 * MIB));
        write_file("/sys/fs/cgroup/job/dmem.current", text);
        alloc_at(7 * GIB / 8, 2);
        assert_int_equal(fake_size(idle) == 0, of_device[i].mine);
    }
}

static void without_these_files_the_driver_says_what_is_available(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.max_idle = all;
    config.system_files = "/nowhere";
    start_with(&config, GIB);
    fake.integrated = true;
    CUdeviceptr idle = alloc(600 * MIB);
    release(idle);
    alloc_at(416 * MIB, 2);
    assert_int_equal(fake_size(idle), 0);
    assert_true(fake.infos > 0);
}

/* --- a busy device --- */

static void a_busy_device_is_asked_without_filling_its_queue(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.oom_wait = 0.02;
    start_with(&config, 100 * MIB);
    release(alloc_at(30 * MIB, 1));
    release(alloc_at(32 * MIB, 2));
    CUdeviceptr pointer;
    fake.quiet = false;
    fake.records = 0;
    assert_int_equal(try_alloc(&pointer, 60 * MIB, 3), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.records, 1); /* the kernel that runs on would hold up all others */
    assert_int_equal(stats_get(STATS_oom_waits), 1);
    assert_int_equal(fake.frees, 0);
    fake.quiet = true;
    alloc_at(60 * MIB, 3);
}

/* For how long a device works on that is busy when it is asked; what else goes on, on a slow
 * machine, must not take as long again and again. */
static const uint64_t WORK_NS = 150 * 1000 * 1000, SLOW_NS = 450 * 1000 * 1000;

static void end_of_work(void) {
    if (fake.event_queries == 1)
        return; /* the device is waited for from here on */
    struct timespec work = {.tv_nsec = (long)WORK_NS};
    nanosleep(&work, NULL);
    fake.quiet = true; /* from the next question on */
    fake.on_query = NULL;
}

/* What the block of a request of 4 MiB was, while work is under way on a device of which all but an
 * idle block of that many bytes is live: 0: the idle block is the driver's again. */
static uint64_t bytes_served_beside_work(uint64_t idle_bytes) {
    uint64_t began, bytes;
    do {
        stop(NULL);
        struct pool_config config = pool_defaults;
        config.max_idle = all;
        config.oom_wait = 30;
        start_with(&config, GIB);
        alloc_at(GIB - idle_bytes - 2 * MIB, 1);
        CUdeviceptr idle = alloc_at(idle_bytes, 2);
        release(idle);
        fake.quiet = false;
        fake.event_queries = 0;
        fake.on_query = end_of_work;
        began = clock_ns(CLOCK_MONOTONIC);
        CUdeviceptr served = alloc_at(4 * MIB, 3);
        bytes = served == idle ? fake_size(idle) : 0;
        assert_int_equal(fake_size(idle), bytes);
    } while (clock_ns(CLOCK_MONOTONIC) - began > SLOW_NS);
    return bytes;
}

static void a_busy_device_does_not_have_a_block_wasted_that_it_can_soon_take_back(void **state) {
    (void)state;
    assert_int_equal(bytes_served_beside_work(900 * MIB), 0);
}

static void a_busy_device_is_not_waited_for_where_little_is_wasted(void **state) {
    (void)state;
    assert_int_equal(bytes_served_beside_work(16 * MIB), 16 * MIB);
    assert_int_equal(stats_get(STATS_oom_larger), 1);
}

/* --- what other threads do meanwhile --- */

static CUdeviceptr foreign; /* of the driver's own */

static void foreign_block(size_t bytes) {
    assert_int_equal(fake_driver()->mem_alloc(&foreign, bytes), CUDA_SUCCESS);
}

/* Together as much memory is free as before, though not in the same place. */
static void take_the_idle_block_and_free_as_much(void) {
    fake.on_refusal = NULL;
    alloc_at(40 * MIB, 2);
    release(foreign);
}

static void what_is_freed_past_the_pool_serves_who_has_lost_the_idle_memory(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 100 * MIB);
    foreign_block(40 * MIB);
    release(alloc_at(40 * MIB, 2));
    fake.on_refusal = take_the_idle_block_and_free_as_much;
    alloc_at(50 * MIB, 3);
    assert_null(fake.on_refusal);
}

static int refusals;

static void have_nothing(void) {
    fake.capacity = 0;
}

static void have_all_again(void) {
    fake.capacity = 100 * MIB;
    refusals++;
}

static void a_driver_that_says_that_it_has_what_it_refuses_is_asked_a_few_times(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 100 * MIB);
    refusals = 0;
    fake.on_alloc = have_nothing;
    fake.on_refusal = have_all_again;
    CUdeviceptr pointer = 0;
    assert_int_equal(try_alloc(&pointer, 50 * MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_in_range(refusals, 2, 12);
}

/* What another thread gives back while the driver refuses may be gone from the pool by then. */
static void other_calls_are_made_again_as_often_as_memory_was_given_back_meanwhile(void **state) {
    (void)state;
    release(alloc(32 * MIB));
    assert_true(pool_make_room(pool, "cuArrayCreate", 0, POOL_ASKS_DEVICE_MEMORY));
    release(alloc(32 * MIB));
    assert_int_equal(pool_release(pool, 0, SIZE_MAX), 32 * MIB);
    assert_true(pool_make_room(pool, "cuArrayCreate", 1, POOL_ASKS_DEVICE_MEMORY));
    assert_false(pool_make_room(pool, "cuArrayCreate", 2, POOL_ASKS_DEVICE_MEMORY));
}

static void other_calls_are_made_again_where_the_driver_has_more_or_less_than_before(void **state) {
    (void)state;
    release(alloc(32 * MIB));
    foreign_block(32 * MIB);
    assert_true(pool_make_room(pool, "cuArrayCreate", 0, POOL_ASKS_DEVICE_MEMORY));
    assert_int_equal(fake_driver()->mem_free(foreign), CUDA_SUCCESS);
    assert_true(pool_make_room(pool, "cuArrayCreate", 1, POOL_ASKS_DEVICE_MEMORY));
    assert_false(pool_make_room(pool, "cuArrayCreate", 2, POOL_ASKS_DEVICE_MEMORY));
}

static void a_call_that_can_never_have_its_memory_fails_however_much_others_change(void **state) {
    (void)state;
    unsigned attempts = 0;
    release(alloc(32 * MIB));
    while (pool_make_room(pool, "cuArrayCreate", attempts, POOL_ASKS_DEVICE_MEMORY)) {
        assert_true(attempts++ < 100);
        foreign_block(MIB);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_cannot_restore_the_headroom_stays_idle),
        TEST(nothing_is_given_up_twice_for_the_same_reason),
        TEST(more_live_memory_is_a_new_reason),
        TEST(while_nothing_can_be_done_the_driver_is_not_asked_at_each_miss),
        TEST(a_full_device_is_given_back_no_more_than_it_lacks),
        TEST(what_the_system_can_free_counts_as_available),
        TEST(where_the_host_runs_short_idle_memory_goes_before_more_is_allocated),
        TEST(idle_memory_keeps_within_what_a_control_group_around_allows),
        TEST(a_limit_on_the_devices_own_memory_is_kept_as_well),
        TEST(without_these_files_the_driver_says_what_is_available),
        TEST(a_busy_device_is_asked_without_filling_its_queue),
        TEST(a_busy_device_does_not_have_a_block_wasted_that_it_can_soon_take_back),
        TEST(a_busy_device_is_not_waited_for_where_little_is_wasted),
        TEST(what_is_freed_past_the_pool_serves_who_has_lost_the_idle_memory),
        TEST(a_driver_that_says_that_it_has_what_it_refuses_is_asked_a_few_times),
        TEST(other_calls_are_made_again_as_often_as_memory_was_given_back_meanwhile),
        TEST(other_calls_are_made_again_where_the_driver_has_more_or_less_than_before),
        TEST(a_call_that_can_never_have_its_memory_fails_however_much_others_change),
    };
    return cmocka_run_group_tests(tests, make_system, remove_system);
}
