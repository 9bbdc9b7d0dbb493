/* Checking memory on the simulated GPU's driver, without any hook: what is found, what the pool
 * gets back, and that what cannot be checked is served all the same. */
#include "simulated.h"

#include "base/futex.h"
#include "check/internal.h"
#include "check/kernel.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct driver driver;
static struct pool *pool;
static struct check *check;
static char log_path[64];

static void *find_symbol(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

static const struct call_site here = {.frames = {1}, .depth = 1};

static int start_in(enum pool_free_mode free_mode, void **state) {
    const struct pool_config pool_config = {.reuse_ratio = 2,
                                            .steal = true,
                                            .free_mode = free_mode,
                                            .set_cancel_state = pthread_setcancelstate};
    struct check_config config = {.check_quarantine = {LIMIT_BYTES, 8 * MiB, 0},
                                  .check_log = log_path};
    set_up_context(state);
    for (int i = 0; i < STATS_COUNTERS; i++)
        stats_set((enum stats_counter)i, 0);
    snprintf(log_path, sizeof log_path, "/tmp/poolcuda_test_check.%d", (int)getpid());
    assert_true(driver_fill(&driver, find_symbol));
    pool = pool_create(&pool_config, &driver);
    check = check_create(&config, pool, &driver);
    assert_non_null(check);
    return 0;
}

static int start(void **state) {
    return start_in(POOL_FREE_SYNC, state);
}

static int start_deferring(void **state) {
    return start_in(POOL_FREE_DEFER, state);
}

static int stop(void **state) {
    check_primary_ending(check, 0);
    pool_primary_ending(pool, 0);
    check_primary_ended(check, 0, true);
    check_destroy(check);
    pool_destroy(pool);
    unlink(log_path);
    assert_ok(cuDevicePrimaryCtxReset_v2(0));
    (void)state;
    return cuDevicePrimaryCtxRelease_v2(0) != CUDA_SUCCESS;
}

static CUdeviceptr alloc(size_t bytes) {
    CUdeviceptr pointer = 0;
    assert_ok(check_malloc(check, &pointer, bytes, &here));
    return pointer;
}

static CUresult release(CUdeviceptr pointer) {
    return check_free(check, pointer, &here);
}

/* As the program's memset. */
static void set(CUdeviceptr pointer, size_t bytes) {
    check_work(check);
    assert_ok(cuMemsetD8_v2(pointer, 1, bytes));
}

static void synchronize(void) {
    check_before_wait(check, "cuCtxSynchronize");
    assert_ok(cuCtxSynchronize());
    check_after_wait(check);
}

/* Whether the log, which is then empty, says so; with NULL that it is empty. */
static void expect(const char *text) {
    static char log[1 << 16];
    FILE *file = fopen(log_path, "r");
    size_t length = file ? fread(log, 1, sizeof log - 1, file) : 0;
    log[length] = '\0';
    if (file) {
        fclose(file);
        assert_int_equal(truncate(log_path, 0), 0);
    }
    if (text)
        assert_non_null(strstr(log, text));
    else
        assert_string_equal(log, "");
}

static void a_write_beyond_a_block_is_found_when_it_is_freed(void **state) {
    (void)state;
    CUdeviceptr a = alloc(1000);
    assert_int_equal(a % 512, 0);
    set(a, 1003);
    assert_ok(release(a));
    expect("Invalid write of size 3 bytes\n");
    assert_int_equal(stats_get(STATS_check_errors), 1);
}

static void a_write_to_freed_memory_is_found_at_the_next_wait(void **state) {
    (void)state;
    CUdeviceptr a = alloc(1000);
    assert_ok(release(a));
    set(a + 8, 4);
    expect(NULL);
    synchronize();
    expect("8 bytes inside the allocation");
    synchronize(); /* it is reported once */
    assert_int_equal(stats_get(STATS_check_errors), 1);
}

static void a_correct_life_leaves_nothing_to_report(void **state) {
    (void)state;
    for (size_t bytes = 1; bytes < 4 * MiB; bytes = bytes * 3 + 1) {
        CUdeviceptr a = alloc(bytes);
        set(a, bytes);
        assert_ok(release(a));
    }
    synchronize();
    assert_int_equal(check_finish(check), 0);
    expect(NULL);
}

static void bad_frees_answer_as_the_driver_does(void **state) {
    (void)state;
    CUdeviceptr a = alloc(1000);
    assert_int_equal(release(a + 256), CUDA_ERROR_INVALID_VALUE);
    expect("pointer inside an allocation");
    assert_int_equal(release(a - CHECK_ZONE), CUDA_ERROR_INVALID_VALUE); /* where the pool's is */
    expect("not an allocation");
    assert_ok(release(a));
    assert_int_equal(release(a), CUDA_ERROR_INVALID_VALUE);
    expect("double free");
    assert_ok(release(0));
    expect(NULL);
}

static void the_quarantine_stays_within_its_bound(void **state) {
    (void)state;
    for (int i = 0; i < 40; i++) {
        assert_ok(release(alloc(MiB)));
        assert_true(stats_get(STATS_check_quarantine_bytes) <= 8 * MiB);
        synchronize(); /* what has left is the pool's once it is known to be verified */
        assert_true(check_quarantined(check) <= 8 * MiB);
    }
    assert_true(stats_get(STATS_malloc_hits) > 0);
    expect(NULL);
}

static void memory_in_quarantine_is_given_back_before_an_allocation_fails(void **state) {
    (void)state;
    size_t available, total;
    for (int i = 0; i < 7; i++)
        assert_ok(release(alloc(MiB)));
    assert_true(check_quarantined(check) >= 7 * MiB);
    assert_ok(cuMemGetInfo_v2(&available, &total));
    CUdeviceptr large = alloc(available + 3 * MiB);
    assert_int_equal(check_quarantined(check), 0);
    assert_ok(release(large));
    expect(NULL);
}

static void during_a_capture_blocks_are_served_unchecked(void **state) {
    (void)state;
    CUdeviceptr before = alloc(1000);
    synchronize();
    pool_capture_began(pool, "cuStreamBeginCapture_v2");
    uint64_t launches = stats_get(STATS_check_launches);
    CUdeviceptr within = alloc(1000);
    assert_ok(release(before));
    assert_ok(release(within));
    assert_int_equal(stats_get(STATS_check_launches), launches);
    pool_capture_ended(pool);
    assert_true(stats_get(STATS_check_unchecked_blocks) > 0);
    expect(NULL);
}

static void pointers_are_told_as_without_zones(void **state) {
    (void)state;
    CUdeviceptr a = alloc(1000), base = 0;
    size_t bytes = 0;
    assert_int_equal(check_find(check, a + 999, &base, &bytes), POOL_POINTER_LIVE);
    assert_true(base == a && bytes == 1000);
    assert_int_equal(check_find(check, a + 1000, &base, &bytes), POOL_POINTER_IDLE);
    assert_int_equal(check_find(check, a - 1, &base, &bytes), POOL_POINTER_IDLE);
    assert_ok(release(a));
    assert_int_equal(check_find(check, a, &base, &bytes), POOL_POINTER_IDLE);
}

static void memory_of_the_checks_own_is_nobodys(void **state) {
    (void)state;
    CUdeviceptr a = alloc(1000), base;
    size_t bytes;
    const struct check_own *own = LIST_FIRST(&check->own);
    assert_int_equal(check_free_host(check, (void *)(uintptr_t)own->address),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(release(own->address), CUDA_ERROR_INVALID_VALUE);
    expect("not an allocation");
    assert_int_equal(check_find(check, own->address + 1, &base, &bytes), POOL_POINTER_IDLE);
    assert_false(check_owns(check, own->address + own->bytes));
    assert_ok(check_free_host(check, NULL));
    set(a, 1003);
    assert_ok(release(a));
    expect("Invalid write of size 3 bytes\n");
}

static void an_address_that_the_check_had_is_anybodys_once_its_context_has_ended(void **state) {
    (void)state;
    alloc(1000);
    CUdeviceptr address = LIST_FIRST(&check->own)->address;
    check_primary_ending(check, 0);
    assert_true(check_owns(check, address)); /* it may stay, and be used again */
    check_primary_ended(check, 0, false);
    assert_true(check_owns(check, address));
    check_primary_ending(check, 0);
    check_primary_ended(check, 0, true);
    assert_false(check_owns(check, address));
    assert_true(LIST_EMPTY(&check->own));
}

/* Before the check is told that the driver has ended the context, that gives the address anew. */
static void an_address_that_the_check_had_is_the_programs_once_it_is_given_it(void **state) {
    (void)state;
    alloc(1000);
    const struct check_own *own = LIST_FIRST(&check->own);
    CUdeviceptr address = own->address, end = address + own->bytes;
    check_primary_ending(check, 0);
    check_given(check, end, 1000);
    check_given(check, address - 1000, 1000);
    assert_true(check_owns(check, address) && check_owns(check, end - 1));
    check_given(check, address - 1000, 1001);
    assert_false(check_owns(check, address) || check_owns(check, end - 1));
    check_primary_ended(check, 0, true);
}

static CUresult (*host_alloc)(void **memory, size_t bytes, unsigned flags);

static CUresult alloc_meanwhile(void **memory, size_t bytes, unsigned flags) {
    driver.mem_host_alloc = host_alloc;
    alloc(1000);
    return host_alloc(memory, bytes, flags);
}

static void of_a_record_that_is_made_twice_the_check_has_the_memory_of_one(void **state) {
    (void)state;
    const struct check_own *own;
    host_alloc = driver.mem_host_alloc;
    driver.mem_host_alloc = alloc_meanwhile;
    alloc(1000);
    const struct check_context *context = LIST_FIRST(&check->contexts);
    assert_null(LIST_NEXT(context, link));
    LIST_FOREACH (own, &check->own, link)
        assert_ptr_equal(own->context, context);
    check_primary_ending(check, 0);
    check_primary_ended(check, 0, true);
    assert_true(LIST_EMPTY(&check->own));
}

/* Between the check's launch at a free and the pool's part of that free a capture begins, which has
 * ended when the free is to be the pool's after all. */
static CUresult (*get_current)(CUcontext *);
static uint64_t launches_before;
static bool capturing, captured;

static CUresult get_current_beside_a_capture(CUcontext *context) {
    if (!captured && !capturing && stats_get(STATS_check_launches) > launches_before) {
        pool_capture_began(pool, "cuStreamBeginCapture_v2");
        capturing = true;
    } else if (capturing) {
        pool_capture_ended(pool);
        capturing = false;
        captured = true;
    }
    return get_current(context);
}

static void what_the_check_still_looks_at_is_the_drivers_to_free(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    synchronize();
    uint64_t freed = stats_get(STATS_driver_frees);
    get_current = driver.ctx_get_current;
    launches_before = stats_get(STATS_check_launches);
    driver.ctx_get_current = get_current_beside_a_capture;
    assert_ok(release(block));
    driver.ctx_get_current = get_current;
    assert_true(captured);
    assert_int_equal(stats_get(STATS_tainted_check), 1);
    assert_int_equal(stats_get(STATS_driver_frees), freed + 1);
    expect(NULL);
}

static CUresult answered;

static void free_in_host_function(void *data) {
    const CUdeviceptr *pointer = data;
    answered = release(*pointer);
}

static void a_host_function_may_free_nothing_and_ends_no_checking(void **state) {
    (void)state;
    CUdeviceptr before = alloc(1000), asked = alloc(1000);
    assert_ok(release(before)); /* which leaves a launch whose result is to be read */
    assert_ok(cuLaunchHostFunc(NULL, free_in_host_function, &asked));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(answered, CUDA_ERROR_NOT_PERMITTED);
    set(asked, 1003);
    assert_ok(release(asked));
    expect("Invalid write of size 3 bytes\n");
    assert_int_equal(stats_get(STATS_check_unchecked_blocks), 0);
}

static void during_the_end_of_a_context_blocks_are_served_unchecked(void **state) {
    (void)state;
    CUdeviceptr before = alloc(1000), freed = alloc(1000);
    check_primary_ending(check, 0);
    uint64_t launches = stats_get(STATS_check_launches), copies = stats_get(STATS_check_copies);
    CUdeviceptr within = alloc(1000);
    assert_ok(release(freed));
    synchronize();
    assert_int_equal(stats_get(STATS_check_launches), launches);
    assert_int_equal(stats_get(STATS_check_copies), copies);
    assert_int_equal(stats_get(STATS_check_unchecked_blocks), 2);
    check_primary_ended(check, 0, false); /* it stays, and is checked again */
    set(before, 1003);
    assert_ok(release(before));
    expect("Invalid write of size 3 bytes\n");
    assert_ok(release(within));
    CUdeviceptr after = alloc(1000);
    set(after, 1003);
    assert_ok(release(after));
    expect("Invalid write of size 3 bytes\n");
    assert_int_equal(stats_get(STATS_check_unchecked_blocks), 2);
}

static void an_end_is_its_own_contexts(void **state) {
    (void)state;
    CUcontext created;
    assert_ok(cuCtxCreate_v2(&created, 0, 0));
    pool_context_created(pool, created);
    CUdeviceptr a = alloc(1000);
    check_primary_ending(check, 0);
    set(a, 1003);
    assert_ok(release(a));
    expect("Invalid write of size 3 bytes\n");
    check_primary_ended(check, 0, true);
    assert_int_equal(stats_get(STATS_check_unchecked_blocks), 0);
    check_context_ending(check, created);
    pool_context_ending(pool, created);
    assert_ok(cuCtxDestroy_v2(created));
    check_context_ended(check, created, true);
    assert_ok(cuCtxSetCurrent(test_context));
}

static void *end_created(void *created) {
    static const struct timespec moment = {.tv_nsec = 20000000};
    nanosleep(&moment, NULL);
    assert_ok(cuCtxSetCurrent(created));
    pool_context_ending(pool, created);
    assert_ok(cuCtxDestroy_v2(created));
    check_context_ended(check, created, true);
    return NULL;
}

static void room_is_made_by_the_end_of_a_context_that_keeps_memory(void **state) {
    (void)state;
    CUcontext created;
    pthread_t thread;
    assert_ok(cuCtxCreate_v2(&created, 0, 0));
    pool_context_created(pool, created);
    assert_ok(release(alloc(MiB)));
    check_context_ending(check, created);
    assert_ok(cuCtxSetCurrent(test_context));
    assert_int_equal(pthread_create(&thread, NULL, end_created, created), 0);
    assert_true(check_make_room(check));
    assert_int_equal(check_quarantined(check), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(check_make_room(check));
}

/* A thread frees, and is in the driver with a launch of the check's while its context is to end. */
static __typeof__(((struct driver *)NULL)->launch_kernel) launch_kernel;
static atomic_bool launch_begun, launch_over;

static bool is_closing(void) {
    check_lock(check);
    bool closing = LIST_FIRST(&check->contexts)->closing != 0;
    check_unlock(check);
    return closing;
}

static CUresult launch_while_ending(CUfunction function, unsigned x, unsigned y, unsigned z,
                                    unsigned block_x, unsigned block_y, unsigned block_z,
                                    unsigned shared, CUstream stream, void **parameters,
                                    void **extra) {
    bool first = !atomic_exchange(&launch_begun, true);
    while (first && !is_closing())
        futex_pause();
    for (int i = 0; first && i < 200; i++) /* the end would get on meanwhile */
        futex_pause();
    CUresult result = launch_kernel(function, x, y, z, block_x, block_y, block_z, shared, stream,
                                    parameters, extra);
    if (first)
        atomic_store(&launch_over, true);
    return result;
}

static void *free_elsewhere(void *data) {
    assert_ok(cuCtxSetCurrent(test_context));
    assert_ok(release(*(const CUdeviceptr *)data));
    return NULL;
}

static void the_end_of_a_context_waits_for_those_who_use_it(void **state) {
    (void)state;
    pthread_t thread;
    CUdeviceptr block = alloc(1000);
    launch_kernel = driver.launch_kernel;
    driver.launch_kernel = launch_while_ending;
    assert_int_equal(pthread_create(&thread, NULL, free_elsewhere, &block), 0);
    while (!atomic_load(&launch_begun))
        futex_pause();
    check_primary_ending(check, 0);
    assert_true(atomic_load(&launch_over));
    assert_int_equal(pthread_join(thread, NULL), 0);
    driver.launch_kernel = launch_kernel;
    check_primary_ended(check, 0, false);
    expect(NULL);
}

static void an_end_gives_up_a_user_who_does_not_come_back_once(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    struct check_context *context = LIST_FIRST(&check->contexts);
    assert_true(context_begin_use(check, context)); /* and the thread is cancelled */
    check_primary_ending(check, 0);
    assert_int_equal(context->users, 0);
    check_primary_ended(check, 0, false);
    context_end_use(check, context); /* it does come back */
    assert_int_equal(context->users, 0);
    set(block, 1003);
    assert_ok(release(block));
    expect("Invalid write of size 3 bytes\n");
}

/* As a driver's function may be a place where a cancelled thread ends. */
static CUresult query_or_end(CUevent event) {
    pthread_testcancel();
    return cuEventQuery(event);
}

static CUresult launch_or_end(CUfunction function, unsigned x, unsigned y, unsigned z,
                              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                              CUstream stream, void **parameters, void **extra) {
    pthread_testcancel();
    return launch_kernel(function, x, y, z, block_x, block_y, block_z, shared, stream, parameters,
                         extra);
}

static void *free_cancelled(void *data) {
    pthread_cancel(pthread_self());
    free_elsewhere(data);
    pthread_testcancel();
    return NULL;
}

static void a_cancelled_thread_finishes_what_it_does_in_a_context(void **state) {
    (void)state;
    pthread_t thread;
    void *result;
    CUdeviceptr block = alloc(1000);
    set(block, 1003);
    launch_kernel = driver.launch_kernel;
    driver.launch_kernel = launch_or_end;
    driver.event_query = query_or_end;
    assert_int_equal(pthread_create(&thread, NULL, free_cancelled, &block), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    driver.launch_kernel = launch_kernel;
    driver.event_query = cuEventQuery;
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(LIST_FIRST(&check->contexts)->users, 0);
    expect("Invalid write of size 3 bytes\n");
}

/* Frees that do not wait. */

enum { IN_FLIGHT = CHECK_LAUNCHES - CHECK_LAUNCHES_FOR_ZONES, NS_BUSY = 30000000 };

static CUstream open_stream(void) {
    CUstream stream;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pool_stream_created(pool, stream, true);
    return stream;
}

static void free_all(CUdeviceptr *blocks, int count) {
    for (int i = 0; i < count; i++)
        assert_ok(release(blocks[i]));
}

/* However many frees are behind the program's work, and so have a launch of their own each. */
static void what_is_freed_behind_work_serves_a_full_device(void **state) {
    (void)state;
    const int counts[] = {8, IN_FLIGHT - 1, IN_FLIGHT, CHECK_LAUNCHES, CHECK_LAUNCHES + 20};
    size_t available, total, released;
    uint64_t busy = NS_BUSY;
    CUstream stream = open_stream();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        CUdeviceptr blocks[CHECK_LAUNCHES + 20];
        size_t bytes = 6 * MiB / (size_t)counts[i];
        for (int j = 0; j < counts[i]; j++)
            blocks[j] = alloc(bytes);
        assert_ok(cuMemGetInfo_v2(&available, &total));
        assert_ok(launch("spin_ns", stream, (void *[]){&busy}));
        free_all(blocks, counts[i]);
        CUdeviceptr large = alloc(available + 4 * MiB);
        assert_ok(release(large));
        synchronize();
        assert_true(pool_give_up(pool, -1, SIZE_MAX, true, &released));
    }
    expect(NULL);
}

static CUdeviceptr alloc_and_await_zones(void) {
    CUdeviceptr block = alloc(1000);
    assert_ok(cuStreamSynchronize(LIST_FIRST(&check->contexts)->filling));
    return block;
}

static void new_blocks_have_zones_however_many_frees_wait(void **state) {
    (void)state;
    CUdeviceptr blocks[IN_FLIGHT], later[3 * CHECK_LAUNCHES_FOR_ZONES];
    CUstream stream = open_stream();
    for (int i = 0; i < IN_FLIGHT; i++)
        blocks[i] = alloc_and_await_zones();
    struct gate gate = gate_close(stream);
    free_all(blocks, IN_FLIGHT);
    uint64_t copies = stats_get(STATS_check_copies);
    for (int i = 0; i < 3 * CHECK_LAUNCHES_FOR_ZONES; i++)
        later[i] = alloc_and_await_zones();
    assert_int_equal(stats_get(STATS_check_copies), copies + 6 * CHECK_LAUNCHES_FOR_ZONES);
    gate_open(gate);
    free_all(later, 3 * CHECK_LAUNCHES_FOR_ZONES);
    synchronize();
    gate_remove(gate);
    expect(NULL);
}

/* The work before a free ends when somebody has asked for a while whether it has. */
static CUresult (*event_query)(CUevent);
static struct gate before_free;
static int questions;

static CUresult query_and_open(CUevent event) {
    if (++questions == 20)
        gate_open(before_free);
    return event_query(event);
}

static CUresult query_and_count(CUevent event) {
    questions++;
    return event_query(event);
}

static void query_by(CUresult (*query)(CUevent)) {
    questions = 0;
    event_query = driver.event_query;
    driver.event_query = query;
}

static void end_queries(void) {
    driver.event_query = event_query;
    gate_open(before_free);
    synchronize();
    gate_remove(before_free);
}

static void a_write_behind_a_free_that_waits_for_nothing_is_found(void **state) {
    (void)state;
    CUdeviceptr a = alloc(1000);
    before_free = gate_close(open_stream());
    assert_ok(release(a));
    query_by(query_and_open);
    set(a + 8, 4);
    end_queries();
    expect("8 bytes inside the allocation");
}

static void free_in_thread(CUdeviceptr block) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_elsewhere, &block), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_write_behind_another_threads_free_is_found(void **state) {
    (void)state;
    CUdeviceptr a = alloc(1000);
    before_free = gate_close(open_stream());
    free_in_thread(a);
    query_by(query_and_open);
    set(a + 8, 4);
    end_queries();
    expect("8 bytes inside the allocation");
}

/* What the free waits for may be waiting for this thread's work. */
static void another_threads_free_holds_work_up_once_and_not_for_ever(void **state) {
    (void)state;
    CUdeviceptr a = alloc(1000), b = alloc(1000), c = alloc(1000);
    before_free = gate_close(open_stream());
    free_in_thread(a);
    query_by(query_and_count);
    set(b, 4);
    assert_true(questions > 20);
    free_in_thread(c);
    questions = 0;
    set(b, 4);
    assert_int_equal(questions, 0);
    end_queries();
    expect(NULL);
}

static void *hold_lock(void *held) {
    check_lock(check);
    atomic_store((atomic_bool *)held, true);
    while (atomic_load((atomic_bool *)held))
        futex_pause();
    check_unlock(check);
    return NULL;
}

/* As one that a signal's handler has forked in the midst of a call: it goes on there. */
static void a_child_has_the_lock_that_another_thread_had_at_the_fork(void **state) {
    (void)state;
    enum { WENT_ON = 7, MOST_SECONDS = 30 };
    atomic_bool held = false;
    CUdeviceptr block = alloc(100), base;
    pthread_t thread;
    size_t bytes;
    int status;
    pthread_create(&thread, NULL, hold_lock, &held);
    while (!atomic_load(&held))
        futex_pause();
    pid_t child = fork();
    if (child == 0) {
        alarm(MOST_SECONDS);
        check_leave_after_fork(check);
        bool live = check_find(check, block, &base, &bytes) == POOL_POINTER_LIVE;
        _exit(live && bytes == 100 ? WENT_ON : 1);
    }
    atomic_store(&held, false);
    pthread_join(thread, NULL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), WENT_ON);
    assert_ok(release(block));
}

static void rows_grow_with_the_largest_task_up_to_a_limit(void **state) {
    (void)state;
    assert_int_equal(check_kernel_rows(0), 1);
    assert_int_equal(check_kernel_rows(16384), 1);
    assert_int_equal(check_kernel_rows(16385), 2);
    assert_int_equal(check_kernel_rows(MiB), 64);
    assert_int_equal(check_kernel_rows(UINT64_MAX), 64);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name)           cmocka_unit_test_setup_teardown(name, start, stop)
#define TEST_DEFERRING(name) cmocka_unit_test_setup_teardown(name, start_deferring, stop)
        TEST(a_write_beyond_a_block_is_found_when_it_is_freed),
        TEST(a_write_to_freed_memory_is_found_at_the_next_wait),
        TEST(a_correct_life_leaves_nothing_to_report),
        TEST(bad_frees_answer_as_the_driver_does),
        TEST(the_quarantine_stays_within_its_bound),
        TEST(memory_in_quarantine_is_given_back_before_an_allocation_fails),
        TEST(during_a_capture_blocks_are_served_unchecked),
        TEST(pointers_are_told_as_without_zones),
        TEST(memory_of_the_checks_own_is_nobodys),
        TEST(an_address_that_the_check_had_is_the_programs_once_it_is_given_it),
        TEST(of_a_record_that_is_made_twice_the_check_has_the_memory_of_one),
        TEST(an_address_that_the_check_had_is_anybodys_once_its_context_has_ended),
        TEST_DEFERRING(what_the_check_still_looks_at_is_the_drivers_to_free),
        TEST(a_host_function_may_free_nothing_and_ends_no_checking),
        TEST(during_the_end_of_a_context_blocks_are_served_unchecked),
        TEST(an_end_is_its_own_contexts),
        TEST(room_is_made_by_the_end_of_a_context_that_keeps_memory),
        TEST(the_end_of_a_context_waits_for_those_who_use_it),
        TEST(an_end_gives_up_a_user_who_does_not_come_back_once),
        TEST(a_cancelled_thread_finishes_what_it_does_in_a_context),
        TEST_DEFERRING(what_is_freed_behind_work_serves_a_full_device),
        TEST_DEFERRING(new_blocks_have_zones_however_many_frees_wait),
        TEST_DEFERRING(a_write_behind_a_free_that_waits_for_nothing_is_found),
        TEST_DEFERRING(a_write_behind_another_threads_free_is_found),
        TEST_DEFERRING(another_threads_free_holds_work_up_once_and_not_for_ever),
        TEST(a_child_has_the_lock_that_another_thread_had_at_the_fork),
        cmocka_unit_test(rows_grow_with_the_largest_task_up_to_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
