/* Threads' caches: what they keep is the pool's all the same, whoever wants it. */
#include "peers/own_open.h"
#include "pool/cache_parts.h"
#include "pool_test.h"

#include <pthread.h>

static void say(const char *line) {
    (void)line;
}

static int start_in_auto(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    config.free_mode = POOL_FREE_AUTO;
    start_with(&config, GIB);
    return 0;
}

/* One block stays, so that frees owe their waits: returns it. */
static CUdeviceptr grow_up(void) {
    CUdeviceptr stays = quick_alloc(100, 99);
    for (int i = 0; i < GROWN_UP / 2; i++)
        quick_release(quick_alloc(MIB, 98));
    return stays;
}

/* In another thread, which has a cache of its own. */
static void *release_there(void *pointer) {
    quick_release(*(CUdeviceptr *)pointer);
    return NULL;
}

static void elsewhere(void *(*run)(void *), void *data) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, data), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void hits_make_no_call_of_the_driver(void **state) {
    (void)state;
    grow_up();
    CUdeviceptr first = quick_alloc(3 * MIB, 1);
    quick_release(first);
    int allocs = fake.allocs, frees = fake.frees, waits = fake.waits;
    for (int i = 0; i < GROWN_UP; i++) {
        assert_int_equal(quick_alloc(3 * MIB, 1), first);
        quick_release(first);
    }
    assert_int_equal(fake.allocs, allocs);
    assert_int_equal(fake.frees, frees);
    assert_int_equal(fake.waits, waits);
    assert_true(pool_is_valid(pool));
}

static void the_stats_know_of_each_hit_at_once(void **state) {
    (void)state;
    grow_up();
    quick_release(quick_alloc(10000, 1));
    for (int i = 0; i < 500; i++) {
        uint64_t hits = stats_get(STATS_malloc_hits), frees = stats_get(STATS_free_calls);
        uint64_t in_use = stats_get(STATS_in_use_bytes), held = stats_get(STATS_held_bytes);
        uint64_t idle = stats_get(STATS_idle_bytes), live = stats_get(STATS_live_blocks);
        CUdeviceptr pointer = quick_alloc(10000, 1);
        assert_int_equal(stats_get(STATS_malloc_hits), hits + 1);
        assert_int_equal(stats_get(STATS_in_use_bytes), in_use + 10000);
        assert_int_equal(stats_get(STATS_idle_bytes), idle - fake_size(pointer));
        assert_int_equal(stats_get(STATS_held_bytes), held);
        assert_int_equal(stats_get(STATS_live_blocks), live + 1);
        quick_release(pointer);
        assert_int_equal(stats_get(STATS_free_calls), frees + 1);
        assert_int_equal(stats_get(STATS_in_use_bytes), in_use);
    }
    assert_true(pool_is_valid(pool));
}

static void peaks_count_what_was_live_between_looks(void **state) {
    (void)state;
    CUdeviceptr blocks[8];
    grow_up();
    for (int i = 0; i < 8; i++)
        blocks[i] = quick_alloc(20 * MIB, 1);
    for (int i = 0; i < 8; i++)
        quick_release(blocks[i]);
    for (int i = 0; i < 8; i++)
        blocks[i] = quick_alloc(16 * MIB, 2); /* no site's own: other blocks serve */
    for (int i = 0; i < 8; i++)
        quick_release(blocks[i]);
    struct pool_usage figures;
    pool_usage(pool, 0, &figures);
    assert_in_range(figures.peak_live, 160 * MIB, 163 * MIB);
    assert_true(pool_is_valid(pool));
}

static void what_another_thread_has_freed_serves_its_site(void **state) {
    (void)state;
    grow_up();
    CUdeviceptr pointer = quick_alloc(5 * MIB, 1);
    elsewhere(release_there, &pointer);
    int allocs = fake.allocs;
    assert_int_equal(quick_alloc(5 * MIB, 1), pointer);
    assert_int_equal(fake.allocs, allocs);
    assert_true(pool_is_valid(pool));
}

static void alloc_all(CUdeviceptr *blocks, int count, uintptr_t number) {
    for (int i = 0; i < count; i++)
        blocks[i] = quick_alloc(3 * MIB, number);
}

static void release_all(const CUdeviceptr *blocks, int count) {
    for (int i = 0; i < count; i++)
        quick_release(blocks[i]);
}

static void what_a_site_goes_on_taking_of_another_comes_several_at_once(void **state) {
    enum { COUNT = 60 };
    CUdeviceptr blocks[COUNT];
    (void)state;
    grow_up();
    quick_release(quick_alloc(3 * MIB, 2));
    alloc_all(blocks, COUNT, 1);
    release_all(blocks, COUNT);
    assert_true(pool_is_valid(pool));
    int allocs = fake.allocs;
    uint64_t stolen = stats_get(STATS_malloc_stolen);
    alloc_all(blocks, COUNT, 2);
    assert_true(pool_is_valid(pool));
    assert_int_equal(fake.allocs, allocs);
    assert_in_range(stats_get(STATS_malloc_stolen) - stolen, 1, COUNT / 6);
    release_all(blocks, COUNT);
    alloc_all(blocks, COUNT, 1); /* and back */
    release_all(blocks, COUNT);
    assert_int_equal(fake.allocs, allocs);
    assert_true(pool_is_valid(pool));
}

enum { MANY_SITES = 3000 };

/* At so many sites of its own and of sizes that earlier phases' blocks do not suffice for, and
 * frees; which part of them the caches have served, in percent. */
static int served_at_many(uintptr_t phase, uintptr_t count) {
    static CUdeviceptr blocks[MANY_SITES];
    int served = 0;
    for (uintptr_t i = 0; i < count; i++) {
        size_t bytes = 512 * (1 + i % 37 + 37 * phase);
        uintptr_t number = MANY_SITES * (1 + phase) + i;
        enum quick quick = quick_malloc(pool, &blocks[i], bytes, number, true);
        if (quick == QUICK_MISS)
            cache_unlock(cache_mine.cache); /* in cache_miss's stead */
        if (quick == QUICK_DONE)
            served++;
        else
            blocks[i] = quick_alloc(bytes, number);
    }
    assert_true(pool_is_valid(pool));
    release_all(blocks, (int)count);
    assert_true(pool_is_valid(pool));
    return served * 100 / (int)count;
}

static void a_thread_of_thousands_of_sites_and_sizes_is_served_by_its_cache(void **state) {
    (void)state;
    grow_up();
    for (int round = 0; round < 3; round++)
        served_at_many(0, MANY_SITES);
    assert_in_range(served_at_many(0, MANY_SITES), 95, 100);
}

static void a_thread_that_goes_on_to_other_sites_and_sizes_is_served_by_its_cache(void **state) {
    (void)state;
    grow_up();
    for (uintptr_t phase = 0; phase < 6; phase++) {
        for (int round = 0; round < 6; round++) /* as long as nobody knows that it has gone on */
            served_at_many(phase, MANY_SITES / 2);
        assert_in_range(served_at_many(phase, MANY_SITES / 2), 95, 100);
    }
}

static int start_in_sync(void **state) {
    struct pool_config config = pool_defaults;
    (void)state;
    config.free_mode = POOL_FREE_SYNC;
    start_with(&config, GIB);
    return 0;
}

static void *use_site_one(void *nothing) {
    (void)nothing;
    for (int i = 0; i < 500; i++)
        quick_release(quick_alloc(3 * MIB, 1));
    return NULL;
}

static void a_sites_stats_are_right_where_another_threads_frees_wait(void **state) {
    const struct stats_site *figures = NULL;
    (void)state;
    use_site_one(NULL);
    elsewhere(use_site_one, NULL);
    assert_true(pool_is_valid(pool));
    for (const struct site_record *record = pool->site_records; record;
         record = record->by_key.next)
        if (record->key.frames[0] == site(1).frames[0])
            figures = record->stats;
    if (!figures)
        fail();
    assert_int_equal(stats_read(&figures->live_bytes), 0);
    assert_int_equal(stats_read(&figures->peak_live_bytes), 4 * MIB);
    assert_in_range(stats_read(&figures->hits), 997, 999);
}

static void what_any_cache_keeps_is_there_when_the_device_runs_out(void **state) {
    (void)state;
    grow_up();
    CUdeviceptr blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = quick_alloc((200 + (size_t)i * 2) * MIB, (uintptr_t)i + 1);
    for (int i = 0; i < 2; i++)
        quick_release(blocks[i]);
    for (int i = 2; i < 4; i++)
        elsewhere(release_there, &blocks[i]);
    quick_release(quick_alloc(1000 * MIB, 9));
    assert_true(pool_is_valid(pool));
}

static void a_second_free_is_refused_in_whatever_thread(void **state) {
    (void)state;
    grow_up();
    CUdeviceptr mine = quick_alloc(MIB, 1), theirs = quick_alloc(MIB, 1);
    quick_release(mine);
    elsewhere(release_there, &theirs);
    assert_int_equal(pool_free(pool, mine), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(pool_free(pool, theirs), CUDA_ERROR_INVALID_VALUE);
}

/* Frees that owe their waits name a block that lives on, which shows that they are not the last.
 * Where that one is freed after all, all caches are stopped to find another: so it has to be one
 * that is rarely freed. */
static void the_block_that_lives_on_is_one_that_does(void **state) {
    enum { SHORT_LIVED = 50, FREES = 4000, FEW = 10 };
    CUdeviceptr blocks[SHORT_LIVED];
    (void)state;
    CUdeviceptr named = grow_up();
    quick_alloc(100, 2);
    alloc_all(blocks, SHORT_LIVED, 1);
    release_all(blocks, SHORT_LIVED);
    alloc_all(blocks, SHORT_LIVED, 1);
    quick_release(named);
    uint64_t stops = cache_mine.cache->stops;
    for (int i = 0; i < FREES; i++) {
        quick_release(blocks[i % SHORT_LIVED]);
        blocks[i % SHORT_LIVED] = quick_alloc(3 * MIB, 1);
    }
    assert_in_range(cache_mine.cache->stops - stops, 0, FEW);
}

static void a_capture_bars_the_caches(void **state) {
    (void)state;
    grow_up();
    CUdeviceptr pointer = quick_alloc(MIB, 1);
    quick_release(quick_alloc(2 * MIB, 1));
    pool_capture_began(pool, "cuStreamBeginCapture_v2");
    int allocs = fake.allocs, frees = fake.frees;
    quick_release(quick_alloc(2 * MIB, 1));
    quick_release(pointer);
    assert_int_equal(fake.allocs, allocs + 1);
    assert_int_equal(fake.frees, frees + 2);
    pool_capture_ended(pool);
    quick_release(quick_alloc(2 * MIB, 1));
    assert_int_equal(fake.allocs, allocs + 1);
}

static void a_wait_that_was_paid_is_owed_again_by_the_next_free(void **state) {
    (void)state;
    grow_up();
    for (int i = 0; i < 5; i++) {
        CUdeviceptr one = quick_alloc(MIB, 1), two = quick_alloc(MIB, 1);
        quick_release(one);
        assert_true(wait_is_owed());
        quick_release(two);
        int waits = fake.event_waits;
        pool_pay(pool, "cuEventQuery");
        assert_int_equal(fake.event_waits, waits + 1);
        assert_int_equal(order_word, 0);
    }
}

static void the_last_live_block_waits_whichever_it_is(void **state) {
    (void)state;
    CUdeviceptr blocks[6];
    for (int start = 0; start < 6; start++) {
        for (int i = 0; i < 6; i++)
            blocks[i] = quick_alloc((size_t)(i + 1) * MIB, 1);
        for (int i = 0; i < 6; i++) {
            int waits = fake.event_waits;
            quick_release(blocks[(start + i) % 6]);
            assert_int_equal(fake.event_waits, waits + (i == 5));
        }
    }
}

/* No block lives but the one of the loop: there is none that lives on, so each free waits. */
static CUdeviceptr grow_up_with_one_block(void) {
    CUdeviceptr block = 0;
    for (int i = 0; i < GROWN_UP / 2; i++)
        quick_release(block = quick_alloc(MIB, 1));
    return block;
}

static void the_only_block_is_freed_with_a_wait_and_without_the_long_way(void **state) {
    (void)state;
    CUdeviceptr block = grow_up_with_one_block();
    uint64_t owed = stats_get(STATS_waits_owed), stops = cache_mine.cache->stops;
    uint64_t frees = stats_get(STATS_free_calls);
    int calls = fake.allocs + fake.frees + fake.events, waits = fake.event_waits;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(quick_alloc(MIB, 1), block);
        quick_release(block);
        assert_int_equal(fake.event_waits, waits + i + 1);
        assert_int_equal(order_word, 0);
    }
    assert_in_range(cache_mine.cache->stops - stops, 0, 2);
    assert_int_equal(fake.allocs + fake.frees + fake.events, calls);
    assert_int_equal(fake.waits, 0);
    assert_int_equal(stats_get(STATS_free_calls), frees + 50);
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_waits_owed), owed);
}

static void after_the_only_block_frees_of_several_owe_but_for_the_last(void **state) {
    (void)state;
    CUdeviceptr block = grow_up_with_one_block();
    for (int i = 0; i < 10; i++) {
        int waits = fake.event_waits;
        assert_int_equal(quick_alloc(MIB, 1), block);
        CUdeviceptr other = quick_alloc(2 * MIB, 2);
        quick_release(block);
        assert_int_equal(fake.event_waits, waits);
        assert_true(order_word & ORDER_OWED);
        quick_release(other);
        assert_int_equal(fake.event_waits, waits + 1);
        assert_int_equal(order_word, 0);
        assert_true(pool_is_valid(pool));
    }
}

static CUdeviceptr waiting_block;
static void *allocate_there(void *made) {
    *(CUdeviceptr *)made = quick_alloc(MIB, 1);
    return NULL;
}

static CUdeviceptr made_meanwhile;
static void allocate_meanwhile(void) {
    fake.on_wait = NULL;
    elsewhere(allocate_there, &made_meanwhile);
}

static void nobody_has_the_only_block_while_its_free_waits(void **state) {
    (void)state;
    waiting_block = grow_up_with_one_block();
    assert_int_equal(quick_alloc(MIB, 1), waiting_block);
    fake.on_wait = allocate_meanwhile;
    quick_release(waiting_block);
    assert_int_not_equal(made_meanwhile, waiting_block);
    assert_true(pool_is_valid(pool));
    assert_int_equal(quick_alloc(MIB, 1), waiting_block);
}

static void *free_there_in_vain(void *unused) {
    (void)unused;
    assert_int_equal(pool_free(pool, waiting_block), CUDA_ERROR_INVALID_VALUE);
    return NULL;
}

static void free_again_meanwhile(void) {
    fake.on_wait = NULL;
    elsewhere(free_there_in_vain, NULL);
}

static void the_only_block_cannot_be_freed_again_while_its_free_waits(void **state) {
    (void)state;
    waiting_block = grow_up_with_one_block();
    assert_int_equal(quick_alloc(MIB, 1), waiting_block);
    fake.on_wait = free_again_meanwhile;
    quick_release(waiting_block);
    assert_true(pool_is_valid(pool));
    assert_int_equal(quick_alloc(MIB, 1), waiting_block);
}

static void end_the_primary_context(void) {
    fake.on_wait = NULL;
    pool_primary_ending(pool, 0);
}

static void the_context_may_end_while_the_free_of_its_only_block_waits(void **state) {
    (void)state;
    waiting_block = grow_up_with_one_block();
    assert_int_equal(quick_alloc(MIB, 1), waiting_block);
    fake.on_wait = end_the_primary_context;
    pool_free(pool, waiting_block);
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_live_blocks), 0);
    quick_release(quick_alloc(MIB, 1));
    assert_true(pool_is_valid(pool));
}

static void an_only_block_whose_wait_failed_is_the_drivers(void **state) {
    (void)state;
    waiting_block = grow_up_with_one_block();
    assert_int_equal(quick_alloc(MIB, 1), waiting_block);
    int frees = fake.frees;
    fake.wait_result = CUDA_ERROR_NOT_PERMITTED;
    quick_release(waiting_block);
    assert_int_equal(fake.frees, frees + 1);
    fake.wait_result = CUDA_SUCCESS;
    assert_true(pool_is_valid(pool));
}

static void with_streams_about_the_only_block_waits_for_its_context(void **state) {
    (void)state;
    CUdeviceptr block = grow_up_with_one_block();
    CUstream stream = (CUstream)&fake.allocs;
    assert_int_equal(quick_alloc(MIB, 1), block);
    pool_stream_created(pool, stream, true);
    pool_submits(pool, stream, "cuLaunchKernel");
    int records = fake.records;
    quick_release(block);
    assert_int_equal(fake.records, records + 1);
    assert_null(fake.recorded_in);
    assert_true(pool_is_valid(pool));
}

static void a_reason_to_wait_holds_from_when_it_begins(void **state) {
    (void)state;
    grow_up();
    CUdeviceptr one = quick_alloc(MIB, 1), two = quick_alloc(MIB, 1);
    quick_release(one);
    pool_reason_begins(pool, WAIT_REASON_stream);
    int waits = fake.event_waits;
    quick_release(two);
    assert_int_equal(fake.event_waits, waits + 1);
}

static void new_blocks_are_the_pools_as_soon_as_the_program_has_them(void **state) {
    (void)state;
    enum { BLOCKS = 700 };
    static CUdeviceptr blocks[BLOCKS];
    size_t requested;
    for (int i = 0; i < BLOCKS; i++) { /* nothing is ever idle */
        blocks[i] = quick_alloc(100 * KIB, 1);
        assert_int_equal(stats_get(STATS_live_blocks), i + 1);
        assert_int_equal(stats_get(STATS_held_bytes), (uint64_t)(i + 1) * 102400);
        assert_int_equal(stats_get(STATS_driver_allocs), i + 1);
    }
    assert_int_equal(pool_pointer_state(pool, blocks[BLOCKS - 1], &requested), POOL_POINTER_LIVE);
    assert_int_equal(requested, 100 * KIB);
    assert_true(pool_is_valid(pool));
    CUdeviceptr tainted = quick_alloc(100 * KIB, 1), freed = quick_alloc(100 * KIB, 1);
    pool_taint(pool, tainted, POOL_TAINT_IPC);
    elsewhere(release_there, &freed);
    int frees = fake.frees;
    quick_release(tainted);
    assert_int_equal(fake.frees, frees + 1);
    assert_true(pool_is_valid(pool));
    assert_int_equal(fake_size(tainted), 0);
}

/* Whether a cache serves a miss without a look at the ledger. */
static bool misses_quickly(CUdeviceptr *pointer, size_t bytes, uintptr_t number) {
    return quick_malloc(pool, pointer, bytes, number, true) == QUICK_MISS &&
           cache_miss(pool, pointer, bytes, number);
}

static void misses_are_quick_while_nothing_idle_fits(void **state) {
    CUdeviceptr pointer, idle;
    (void)state;
    grow_up();
    idle = quick_alloc(40 * MIB, 1);
    quick_release(idle);
    quick_alloc(4096, 2);
    int allocs = fake.allocs, quick = 0;
    for (int i = 0; i < 100; i++) {
        if (misses_quickly(&pointer, 4096, 2))
            quick++;
        else
            quick_alloc(4096, 2);
    }
    assert_in_range(quick, 90, 100);
    assert_int_equal(fake.allocs, allocs + 100);
    assert_int_equal(quick_alloc(30 * MIB, 2), idle); /* and this does fit */
    assert_int_equal(fake.allocs, allocs + 100);
    quick_release(idle);
    assert_true(pool_is_valid(pool));
}

static void what_quick_misses_leave_idle_is_known_to_be_in_nobodys_need(void **state) {
    CUdeviceptr pointer;
    const struct device *device;
    (void)state;
    grow_up();
    quick_release(quick_alloc(40 * MIB, 1));
    quick_alloc(4096, 2);
    assert_true(pool_is_valid(pool));
    device = TAILQ_FIRST(&pool->devices);
    ((struct device *)(uintptr_t)device)->bounds.least_idle = device_idle(device);
    for (int i = 0; i < 50; i++)
        if (!misses_quickly(&pointer, 4096, 2))
            quick_alloc(4096, 2);
    assert_true(pool_is_valid(pool));
    assert_true(device->bounds.least_idle >= 40 * MIB);
    pointer = quick_alloc(40 * MIB, 1);
    for (int i = 0; i < 50; i++)
        if (!misses_quickly(&(CUdeviceptr){0}, 4096, 2))
            quick_alloc(4096, 2);
    quick_release(pointer);
    assert_true(pool_is_valid(pool));
    assert_true(device->bounds.least_idle < 40 * MIB);
}

static void misses_are_not_quick_beyond_the_bound_on_idle_memory(void **state) {
    enum { COUNT = 64 };
    CUdeviceptr blocks[COUNT];
    (void)state;
    grow_up();
    for (int i = 0; i < COUNT; i++)
        blocks[i] = quick_alloc(10 * MIB, 1);
    for (int i = 0; i < COUNT; i++)
        quick_release(blocks[i]);
    int frees = fake.frees;
    for (int i = 0; i < 400; i++)
        quick_alloc(MIB, 2);
    assert_true(fake.frees > frees); /* else 640 MiB idle beside 400 MiB, of 640 at their peak */
    assert_true(pool_is_valid(pool));
}

static void a_context_that_ends_takes_its_caches_along(void **state) {
    (void)state;
    grow_up();
    CUdeviceptr other = quick_alloc(7 * MIB, 1);
    elsewhere(release_there, &other);
    quick_alloc(100 * KIB, 5); /* just made */
    pool_context_ending(pool, fake.current);
    assert_int_equal(stats_get(STATS_held_bytes), 0);
    assert_true(pool_is_valid(pool));
    grow_up(); /* the driver may use the handle again */
    assert_true(pool_is_valid(pool));
}

/* Threads that free each other's blocks. There are some more than are live, so that the driver is
 * not asked: the fake one is not made for threads. */
enum { THREADS = 4, EACH = 16, MORE = 2 * THREADS, ROUNDS = 20000 };
static _Atomic CUdeviceptr shared[THREADS * EACH];

static void *exchange(void *data) {
    uint32_t seed = *(uint32_t *)data;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        size_t slot = (seed >> 8) % (THREADS * EACH);
        CUdeviceptr none = 0, pointer = atomic_exchange(&shared[slot], 0);
        if (!pointer)
            continue;
        quick_release(pointer);
        pointer = quick_alloc(64 * KIB, 1);
        for (; !atomic_compare_exchange_strong(&shared[slot], &none, pointer); none = 0)
            slot = (slot + 1) % (THREADS * EACH);
    }
    return NULL;
}

static void threads_that_free_each_others_blocks_lose_none(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    uint32_t seeds[THREADS];
    CUdeviceptr more[MORE];
    grow_up();
    for (int i = 0; i < MORE; i++)
        more[i] = quick_alloc(64 * KIB, 1);
    for (int i = 0; i < THREADS * EACH; i++)
        shared[i] = quick_alloc(64 * KIB, 1);
    for (int i = 0; i < MORE; i++)
        quick_release(more[i]);
    int allocs = fake.allocs;
    for (uint32_t i = 0; i < THREADS; i++) {
        seeds[i] = i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, exchange, &seeds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(fake.allocs, allocs);
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_live_blocks), THREADS * EACH + 1);
    for (int i = 0; i < THREADS * EACH; i++)
        quick_release(shared[i]);
    assert_true(pool_is_valid(pool));
}

#define TEST_IN_AUTO(name) cmocka_unit_test_setup_teardown(name, start_in_auto, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_IN_AUTO(hits_make_no_call_of_the_driver),
        TEST_IN_AUTO(the_stats_know_of_each_hit_at_once),
        TEST_IN_AUTO(peaks_count_what_was_live_between_looks),
        TEST_IN_AUTO(what_another_thread_has_freed_serves_its_site),
        TEST_IN_AUTO(what_a_site_goes_on_taking_of_another_comes_several_at_once),
        TEST_IN_AUTO(what_any_cache_keeps_is_there_when_the_device_runs_out),
        TEST_IN_AUTO(a_second_free_is_refused_in_whatever_thread),
        TEST_IN_AUTO(the_block_that_lives_on_is_one_that_does),
        TEST_IN_AUTO(a_capture_bars_the_caches),
        TEST_IN_AUTO(a_wait_that_was_paid_is_owed_again_by_the_next_free),
        TEST_IN_AUTO(the_last_live_block_waits_whichever_it_is),
        TEST_IN_AUTO(the_only_block_is_freed_with_a_wait_and_without_the_long_way),
        TEST_IN_AUTO(after_the_only_block_frees_of_several_owe_but_for_the_last),
        TEST_IN_AUTO(nobody_has_the_only_block_while_its_free_waits),
        TEST_IN_AUTO(the_only_block_cannot_be_freed_again_while_its_free_waits),
        TEST_IN_AUTO(the_context_may_end_while_the_free_of_its_only_block_waits),
        TEST_IN_AUTO(an_only_block_whose_wait_failed_is_the_drivers),
        TEST_IN_AUTO(with_streams_about_the_only_block_waits_for_its_context),
        TEST_IN_AUTO(a_reason_to_wait_holds_from_when_it_begins),
        TEST_IN_AUTO(new_blocks_are_the_pools_as_soon_as_the_program_has_them),
        TEST_IN_AUTO(misses_are_quick_while_nothing_idle_fits),
        TEST_IN_AUTO(what_quick_misses_leave_idle_is_known_to_be_in_nobodys_need),
        TEST_IN_AUTO(misses_are_not_quick_beyond_the_bound_on_idle_memory),
        TEST_IN_AUTO(a_context_that_ends_takes_its_caches_along),
        TEST_IN_AUTO(threads_that_free_each_others_blocks_lose_none),
        cmocka_unit_test_setup_teardown(a_sites_stats_are_right_where_another_threads_frees_wait,
                                        start_in_sync, stop),
        /* At last: they use up the page's places for sites, without which no miss is quick. */
        TEST_IN_AUTO(a_thread_of_thousands_of_sites_and_sizes_is_served_by_its_cache),
        TEST_IN_AUTO(a_thread_that_goes_on_to_other_sites_and_sizes_is_served_by_its_cache),
    };
    stats_open(NULL, false, say); /* sites have figures of their own then */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
