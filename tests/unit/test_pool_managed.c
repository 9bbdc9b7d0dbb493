/* Managed memory in the pool: a next owner finds nothing of what a former one has said about it. */
#include "pool_test.h"

#include <string.h>

enum { GLOBAL = CU_MEM_ATTACH_GLOBAL, HOST_ONLY = CU_MEM_ATTACH_HOST };

static const uint64_t machine = 16 * GIB;
static struct pool_config config;

static void restart(void) {
    start_with(&config, 80 * GIB);
    fake.host_capacity = machine;
}

static int start_with_managed(void **state) {
    (void)state;
    config = pool_defaults;
    config.free_mode = POOL_FREE_AUTO;
    config.managed = config.host = true;
    config.host_memory = machine;
    restart();
    return 0;
}

static void restart_in(enum pool_free_mode mode) {
    stop(NULL);
    config.free_mode = mode;
    restart();
}

static CUresult try_managed(CUdeviceptr *pointer, size_t bytes, unsigned int flags) {
    struct call_site key = site(1);
    CUresult result = pool_malloc_managed(pool, pointer, bytes, flags, &key);
    assert_true(pool_is_valid(pool));
    return result;
}

static CUdeviceptr managed(size_t bytes, unsigned int flags) {
    CUdeviceptr pointer = 0;
    assert_int_equal(try_managed(&pointer, bytes, flags), CUDA_SUCCESS);
    assert_true(fake_size(pointer) >= bytes);
    return pointer;
}

static void note(CUdeviceptr pointer, enum pool_managed_mark mark) {
    pool_managed_note(pool, pointer, mark, 0, MIB);
}

static int all_advices(void) {
    int sum = 0;
    for (int i = 0; i < 8; i++)
        sum += fake.advices[i];
    return sum;
}

static void what_a_site_has_freed_serves_it_again(void **state) {
    (void)state;
    CUdeviceptr pointer = managed(MIB, GLOBAL);
    for (int i = 0; i < 10; i++) {
        release(pointer);
        assert_int_equal(managed(MIB, GLOBAL), pointer);
    }
    assert_int_equal(fake.managed_allocs, 1);
    assert_int_equal(fake.managed_flags, GLOBAL);
    assert_int_equal(stats_get(STATS_managed_calls), 11);
    assert_int_equal(stats_get(STATS_managed_hits), 10);
    assert_int_equal(stats_get(STATS_managed_frees), 10);
    assert_int_equal(all_advices() + fake.attachments, 0); /* nothing to undo */
}

static void by_default_it_is_the_drivers(void **state) {
    (void)state;
    stop(NULL);
    config.managed = false;
    restart();
    release(managed(MIB, GLOBAL));
    release(managed(MIB, GLOBAL));
    assert_int_equal(fake.managed_allocs, 2);
    assert_int_equal(fake.managed_frees, 2);
    assert_int_equal(stats_get(STATS_managed_calls), 0);
}

static void kinds_and_flags_are_kept_apart(void **state) {
    (void)state;
    CUdeviceptr global = managed(MIB, GLOBAL), host_only = managed(MIB, HOST_ONLY);
    CUdeviceptr device = alloc(MIB);
    release(global);
    release(host_only);
    release(device);
    assert_int_equal(managed(MIB, HOST_ONLY), host_only);
    assert_int_equal(alloc(MIB), device);
    assert_int_equal(managed(MIB, GLOBAL), global);
    assert_int_equal(fake.managed_allocs, 2);
}

static void flags_that_we_do_not_know_are_left_to_the_driver(void **state) {
    (void)state;
    release(managed(MIB, CU_MEM_ATTACH_SINGLE));
    release(managed(MIB, 1 << 8));
    assert_int_equal(fake.managed_frees, 2);
}

static void it_is_no_host_memory_to_free(void **state) {
    (void)state;
    CUdeviceptr pointer = managed(MIB, GLOBAL);
    assert_int_equal(pool_free_host(pool, (void *)(uintptr_t)pointer), CUDA_ERROR_INVALID_VALUE);
    release(pointer);
    assert_int_equal(try_free(pointer), CUDA_ERROR_INVALID_VALUE); /* twice */
    assert_int_equal(fake.managed_frees, 0);
}

static void no_two_blocks_share_a_page_of_any_host(void **state) {
    (void)state;
    assert_int_equal(fake_size(managed(1, GLOBAL)), 65536);
    assert_int_equal(fake_size(managed(MIB + 1, GLOBAL)), MIB + 65536);
}

static void a_free_waits_even_where_others_owe_it(void **state) {
    (void)state;
    alloc(MIB);
    CUdeviceptr pointer = managed(MIB, GLOBAL);
    managed(MIB, GLOBAL);
    release(pointer);
    assert_int_equal(fake.event_waits, 1);
}

static void what_is_deferred_is_handed_out_once_a_fence_has_passed(void **state) {
    (void)state;
    restart_in(POOL_FREE_DEFER);
    alloc(MIB);
    CUdeviceptr pointer = managed(MIB, GLOBAL);
    note(pointer, POOL_MANAGED_PREFETCHED); /* of which nothing has to be undone */
    release(pointer);
    assert_int_equal(fake.waits, 0);
    fake.quiet = false;
    assert_int_equal(managed(MIB, GLOBAL), pointer);
    assert_int_equal(fake.event_waits, 1);
}

/* Each time of the whole block, which is larger than what was asked for. */
static void advice_is_undone_before_the_next_owner(void **state) {
    (void)state;
    CUdeviceptr pointer = managed(MIB + 1, GLOBAL);
    note(pointer, POOL_MANAGED_READ_MOSTLY);
    note(pointer, POOL_MANAGED_PREFERRED);
    release(pointer);
    assert_int_equal(fake.advices[CU_MEM_ADVISE_UNSET_READ_MOSTLY], 1);
    assert_int_equal(fake.advices[CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION], 1);
    assert_int_equal(all_advices(), 2);
    assert_int_equal(fake.advised_at, pointer);
    assert_int_equal(fake.advised_bytes, MIB + 65536);
    assert_int_equal(stats_get(STATS_managed_resets), 1);
    assert_int_equal(managed(MIB + 1, GLOBAL), pointer);
    release(pointer); /* its second owner has said nothing */
    assert_int_equal(all_advices(), 2);
}

/* The last device cannot have been named. */
static void every_processor_that_may_have_been_named_is_taken_back(void **state) {
    (void)state;
    CUdeviceptr pointer = managed(MIB, GLOBAL);
    note(pointer, POOL_MANAGED_ACCESSED);
    release(pointer);
    assert_int_equal(fake.advices[CU_MEM_ADVISE_UNSET_ACCESSED_BY], FAKE_DEVICES);
    assert_int_equal(fake.advised[CU_MEM_ADVISE_UNSET_ACCESSED_BY], FAKE_DEVICES - 2);
}

static int done_before[3]; /* by the number of the wait, from 1 */
static void count_calls(void) {
    done_before[fake.event_waits + fake.waits] = all_advices() + fake.attachments;
}

static void nothing_is_undone_while_work_may_use_it(void **state) {
    (void)state;
    const enum pool_free_mode modes[] = {POOL_FREE_SYNC, POOL_FREE_AUTO, POOL_FREE_DEFER};
    for (int i = 0; i < 3; i++) {
        restart_in(modes[i]);
        CUdeviceptr pointer = managed(MIB, GLOBAL);
        note(pointer, POOL_MANAGED_READ_MOSTLY);
        note(pointer, POOL_MANAGED_ATTACHED);
        fake.on_wait = count_calls;
        release(pointer);
        assert_int_equal(fake.event_waits + fake.waits,
                         2); /* its own, and that for the attachment */
        assert_int_equal(done_before[1], 0);
        assert_int_equal(done_before[2], 2);
        assert_int_equal(managed(MIB, GLOBAL), pointer);
    }
}

static void an_attachment_goes_back_to_the_blocks_own(void **state) {
    (void)state;
    CUdeviceptr global = managed(MIB, GLOBAL), host_only = managed(MIB, HOST_ONLY);
    note(host_only, POOL_MANAGED_ATTACHED);
    release(host_only);
    assert_int_equal(fake.attached, HOST_ONLY);
    note(global, POOL_MANAGED_ATTACHED);
    release(global);
    assert_int_equal(fake.attached, GLOBAL);
    assert_int_equal(fake.attachments, 2);
    assert_int_equal(fake.managed_frees, 0);
}

static void it_is_undone_in_the_blocks_own_context(void **state) {
    (void)state;
    alloc(MIB);
    CUdeviceptr pointer = managed(MIB, GLOBAL);
    CUcontext other = fake_context(1, 2);
    fake.current = other;
    alloc(MIB);
    note(pointer, POOL_MANAGED_ATTACHED);
    release(pointer);
    assert_int_equal(fake.attachments, 1);
    assert_ptr_equal(fake.current, other);
}

static void what_cannot_be_undone_is_really_freed(void **state) {
    (void)state;
    fake.advise_result = CUDA_ERROR_INVALID_DEVICE;
    fake.attach_result = CUDA_ERROR_NOT_SUPPORTED;
    const enum pool_managed_mark marks[] = {POOL_MANAGED_READ_MOSTLY, POOL_MANAGED_PREFERRED,
                                            POOL_MANAGED_ACCESSED, POOL_MANAGED_ATTACHED};
    for (int i = 0; i < 4; i++) {
        CUdeviceptr pointer = managed(MIB, GLOBAL);
        note(pointer, marks[i]);
        release(pointer);
        assert_int_equal(fake.managed_frees, i + 1);
    }
    assert_int_equal(stats_get(STATS_managed_resets), 0);
}

static void so_is_what_is_in_a_state_that_we_do_not_know(void **state) {
    (void)state;
    const enum pool_taint taints[] = {POOL_TAINT_MANAGED, POOL_TAINT_SYNC_MEMOPS};
    for (int i = 0; i < 2; i++) {
        CUdeviceptr pointer = managed(MIB, GLOBAL);
        pool_taint(pool, pointer + 100, taints[i]);
        release(pointer);
        assert_int_equal(fake.managed_frees, i + 1);
    }
    assert_int_equal(stats_get(STATS_tainted_managed), 1);
}

static void a_capture_lets_nothing_be_undone(void **state) {
    (void)state;
    CUdeviceptr pointer = managed(MIB, GLOBAL);
    note(pointer, POOL_MANAGED_READ_MOSTLY);
    pool_capture_began(pool, "cuStreamBeginCapture");
    release(pointer);
    pool_capture_ended(pool);
    assert_int_equal(all_advices(), 0);
    assert_int_equal(fake.managed_frees, 1);
}

static void begin_capture(void) {
    fake.on_wait = NULL;
    atomic_fetch_add(&pool->captures, 1); /* gate_close would wait for us */
}

static void nor_does_one_that_begins_during_the_wait(void **state) {
    (void)state;
    CUdeviceptr pointer = managed(MIB, GLOBAL);
    note(pointer, POOL_MANAGED_READ_MOSTLY);
    fake.on_wait = begin_capture;
    release(pointer);
    pool_capture_ended(pool);
    assert_int_equal(all_advices(), 0);
    assert_int_equal(fake.managed_frees, 1);
}

static void end_context(void) {
    fake.on_wait = NULL;
    pool_context_ending(pool, fake.current);
}

static void nor_does_a_context_that_ends_during_the_wait(void **state) {
    (void)state;
    CUdeviceptr pointer = managed(MIB, GLOBAL);
    note(pointer, POOL_MANAGED_READ_MOSTLY);
    fake.on_wait = end_context;
    release(pointer); /* by the driver: it has refused to end, say */
    assert_int_equal(all_advices(), 0);
    assert_int_equal(fake.managed_frees, 1);
}

static void a_former_owners_prefetch_is_not_the_next_ones(void **state) {
    (void)state;
    CUdeviceptr pointer = managed(MIB, GLOBAL);
    assert_false(pool_managed_prefetch_is_old(pool, pointer));
    note(pointer, POOL_MANAGED_PREFETCHED);
    assert_false(pool_managed_prefetch_is_old(pool, pointer));
    release(pointer);
    for (int owner = 0; owner < 2; owner++) {
        assert_int_equal(managed(MIB, GLOBAL), pointer);
        assert_true(pool_managed_prefetch_is_old(pool, pointer));
        release(pointer);
    }
    managed(MIB, GLOBAL);
    note(pointer, POOL_MANAGED_PREFETCHED);
    assert_false(pool_managed_prefetch_is_old(pool, pointer));
}

static void at_most_64_mib_lie_idle(void **state) {
    (void)state;
    enum { BLOCKS = 8 };
    CUdeviceptr blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = managed(16 * MIB, GLOBAL);
    for (int i = 0; i < BLOCKS; i++) {
        release(blocks[i]);
        assert_true(stats_get(STATS_managed_idle_bytes) <= 64 * MIB);
    }
    assert_int_equal(stats_get(STATS_managed_idle_bytes), 64 * MIB);
    assert_int_equal(stats_get(STATS_managed_held_bytes), 64 * MIB);
    assert_int_equal(stats_get(STATS_peak_managed_held_bytes), 128 * MIB);
}

static void unless_the_user_says_otherwise(void **state) {
    (void)state;
    stop(NULL);
    config.max_idle = (struct limit){.kind = LIMIT_BYTES, .bytes = GIB};
    restart();
    release(managed(256 * MIB, GLOBAL));
    assert_int_equal(stats_get(STATS_managed_idle_bytes), 256 * MIB);
}

static void the_books_of_all_kinds_are_apart(void **state) {
    (void)state;
    struct pool_usage figures;
    struct call_site key = site(1);
    void *memory = NULL;
    alloc(MIB);
    assert_int_equal(pool_malloc_host(pool, &memory, 2 * MIB, 0, &key), CUDA_SUCCESS);
    managed(3 * MIB, GLOBAL);
    pool_usage(pool, POOL_ALL_DEVICES, &figures);
    assert_int_equal(figures.held, MIB);
    assert_int_equal(stats_get(STATS_host_held_bytes), 2 * MIB);
    assert_int_equal(stats_get(STATS_managed_held_bytes), 3 * MIB);
    assert_int_equal(stats_get(STATS_managed_in_use_bytes), 3 * MIB);
}

static void idle_managed_memory_goes_before_a_device_is_out_of_memory(void **state) {
    (void)state;
    CUdeviceptr pointer;
    alloc(GIB);
    release(managed(MIB, GLOBAL));
    assert_int_equal(try_alloc(&pointer, 79 * GIB + MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.managed_frees, 1);
}

/* It is the device's on machines that cannot evict it. */
static void idle_memory_of_all_kinds_goes_before_managed_memory_runs_out(void **state) {
    (void)state;
    struct call_site key = site(1);
    void *memory = NULL;
    for (int pooled = 0; pooled < 2; pooled++) {
        stop(NULL);
        config.managed = pooled;
        restart();
        release(alloc(MIB));
        assert_int_equal(pool_malloc_host(pool, &memory, MIB, 0, &key), CUDA_SUCCESS);
        assert_int_equal(pool_free_host(pool, memory), CUDA_SUCCESS);
        fake.host_capacity = 8 * MIB;
        release(managed(8 * MIB, GLOBAL)); /* what is pinned is in its way */
        assert_int_equal(stats_get(STATS_oom_rescued), 1);
        CUdeviceptr pointer = 0;
        assert_int_equal(try_managed(&pointer, 16 * MIB, GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(fake.used + fake.host_used, 0);
    }
}

static void it_ends_with_its_context(void **state) {
    (void)state;
    CUdeviceptr live = managed(MIB, GLOBAL);
    release(managed(MIB, HOST_ONLY));
    pool_context_ending(pool, fake.current);
    assert_true(pool_is_valid(pool));
    assert_int_equal(fake.managed_frees, 1);
    release(live); /* the driver's to say */
    assert_int_equal(fake.managed_frees, 2);
}

/* On some machines the host may not touch what is attached to all while any kernel runs. */
static void who_may_touch_it_clears_it(void **state) {
    (void)state;
    stop(NULL);
    config.zero = true;
    restart();
    CUdeviceptr global = managed(MIB, GLOBAL), host_only = managed(MIB, HOST_ONLY);
    memset((void *)(uintptr_t)host_only, 0xab, MIB);
    release(global);
    release(host_only);
    assert_int_equal(managed(MIB, HOST_ONLY), host_only);
    assert_int_equal(fake.cleared_bytes, 0);
    assert_int_equal(*(unsigned char *)(uintptr_t)host_only, 0);
    assert_int_equal(managed(MIB, GLOBAL), global);
    assert_int_equal(fake.cleared, global);
    assert_int_equal(fake.cleared_bytes, MIB);
}

static void the_drivers_own_errors_are_its_own(void **state) {
    (void)state;
    CUdeviceptr pointer = 0;
    assert_int_equal(try_managed(&pointer, 0, GLOBAL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(try_managed(NULL, MIB, GLOBAL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(try_managed(&pointer, SIZE_MAX, GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
}

#define TEST_WITH_MANAGED(name) cmocka_unit_test_setup_teardown(name, start_with_managed, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_MANAGED(what_a_site_has_freed_serves_it_again),
        TEST_WITH_MANAGED(by_default_it_is_the_drivers),
        TEST_WITH_MANAGED(kinds_and_flags_are_kept_apart),
        TEST_WITH_MANAGED(flags_that_we_do_not_know_are_left_to_the_driver),
        TEST_WITH_MANAGED(it_is_no_host_memory_to_free),
        TEST_WITH_MANAGED(no_two_blocks_share_a_page_of_any_host),
        TEST_WITH_MANAGED(a_free_waits_even_where_others_owe_it),
        TEST_WITH_MANAGED(what_is_deferred_is_handed_out_once_a_fence_has_passed),
        TEST_WITH_MANAGED(advice_is_undone_before_the_next_owner),
        TEST_WITH_MANAGED(every_processor_that_may_have_been_named_is_taken_back),
        TEST_WITH_MANAGED(nothing_is_undone_while_work_may_use_it),
        TEST_WITH_MANAGED(an_attachment_goes_back_to_the_blocks_own),
        TEST_WITH_MANAGED(it_is_undone_in_the_blocks_own_context),
        TEST_WITH_MANAGED(what_cannot_be_undone_is_really_freed),
        TEST_WITH_MANAGED(so_is_what_is_in_a_state_that_we_do_not_know),
        TEST_WITH_MANAGED(a_capture_lets_nothing_be_undone),
        TEST_WITH_MANAGED(nor_does_one_that_begins_during_the_wait),
        TEST_WITH_MANAGED(nor_does_a_context_that_ends_during_the_wait),
        TEST_WITH_MANAGED(a_former_owners_prefetch_is_not_the_next_ones),
        TEST_WITH_MANAGED(at_most_64_mib_lie_idle),
        TEST_WITH_MANAGED(unless_the_user_says_otherwise),
        TEST_WITH_MANAGED(the_books_of_all_kinds_are_apart),
        TEST_WITH_MANAGED(idle_managed_memory_goes_before_a_device_is_out_of_memory),
        TEST_WITH_MANAGED(idle_memory_of_all_kinds_goes_before_managed_memory_runs_out),
        TEST_WITH_MANAGED(it_ends_with_its_context),
        TEST_WITH_MANAGED(who_may_touch_it_clears_it),
        TEST_WITH_MANAGED(the_drivers_own_errors_are_its_own),
    };
    return cmocka_run_group_tests_name("pool_managed", tests, NULL, NULL);
}
