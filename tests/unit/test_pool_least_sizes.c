/* The least size that a site's avoided calls were about, from which the time saved is told: never
 * more than that of any hit or kept free, whichever way it went. */
#include "base/sizes.h"
#include "peers/own_open.h"
#include "pool/policy.h"
#include "pool_test.h"

#include <pthread.h>

enum { SITES = 3, HELD = 40, STEPS = 4000 };

static void say(const char *line) {
    (void)line;
    fail();
}

/* With a page, so that each site has a record of its own. */
static void begin(const struct pool_config *config) {
    stats_open(NULL, false, say);
    start_with(config, 80 * GIB);
}

static int start_with_page(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    config.free_mode = POOL_FREE_AUTO;
    begin(&config);
    return 0;
}

static int stop_with_page(void **state) {
    stop(state);
    stats_forget_after_fork();
    return 0;
}

static struct stats_site *stats_of(CUdeviceptr pointer) {
    pool_lock(pool);
    const struct pool_block *block = ledger_find(pool, pointer);
    pool_unlock(pool);
    assert_non_null(block);
    return block->site->stats;
}

static uint64_t least(CUdeviceptr pointer) {
    return stats_site_least(stats_of(pointer));
}

static void a_size_is_noted_when_it_is_freed_or_served_again(void **state) {
    (void)state;
    CUdeviceptr pointer = alloc(5000);
    assert_int_equal(least(pointer), 0);
    release(pointer);
    assert_int_equal(least(pointer), 5120);
    assert_int_equal(alloc(3000), pointer);
    assert_int_equal(least(pointer), 3072);
    assert_int_equal(least(alloc(1)), 3072);
}

static void a_larger_one_does_not_raise_it(void **state) {
    (void)state;
    CUdeviceptr pointer = alloc(512);
    release(pointer);
    for (size_t size = 1024; size <= GIB; size *= 2)
        release(alloc(size));
    assert_int_equal(least(alloc(512)), 512);
}

static void a_block_of_another_site_counts_for_the_one_that_it_serves(void **state) {
    (void)state;
    CUdeviceptr other = alloc_at(8 * MIB, 2);
    struct stats_site *others = stats_of(other);
    release(other);
    CUdeviceptr own = alloc_at(6 * MIB, 1);
    assert_int_equal(own, other);
    assert_int_equal(least(own), 6 * MIB);
    assert_int_equal(stats_site_least(others), 8 * MIB);
}

static void sizes_of_the_host_are_whole_pages(void **state) {
    (void)state;
    stop_with_page(state);
    struct pool_config config = pool_defaults;
    config.host = true;
    config.host_memory = 16 * GIB;
    begin(&config);
    fake.host_capacity = 16 * GIB;
    struct call_site key = site(1);
    void *memory = NULL;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pool_malloc_host(pool, &memory, 5000, 0, &key), CUDA_SUCCESS);
        assert_int_equal(least((CUdeviceptr)(uintptr_t)memory), i * 8192);
        assert_int_equal(pool_free_host(pool, memory), CUDA_SUCCESS);
    }
}

/* Asks and frees at random: the least of each site is that of all its hits and frees so far. */
static void follow(uint64_t seed) {
    CUdeviceptr held[HELD] = {0};
    size_t sizes[HELD], wanted[SITES] = {0};
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned place = (unsigned)(seed >> 33) % HELD, number = place % SITES;
        unsigned halvings = step < STEPS / 2 ? (unsigned)(seed >> 43) % 3 : 12;
        CUdeviceptr freed = held[place];
        uint64_t hits = stats_get(STATS_malloc_hits);
        if (!freed) {
            sizes[place] = (((size_t)(seed >> 46) % 4 + 1) * 4 * MIB >> halvings) - place;
            held[place] = alloc_at(sizes[place], number + 1);
        }
        const struct stats_site *stats = stats_of(held[place]);
        if (freed) {
            release(freed);
            held[place] = 0;
        }
        size_t size = round_physical(sizes[place]);
        bool counts = freed || stats_get(STATS_malloc_hits) > hits;
        if (counts && (!wanted[number] || size < wanted[number]))
            wanted[number] = size;
        assert_int_equal(stats_site_least(stats), wanted[number]);
    }
    assert_true(stats_get(STATS_malloc_hits) > STEPS / 10);
}

static const struct policy in_bins = {"bins", &keeper_bins, &source_plain};

static void every_way_of_serving_and_freeing_notes_the_size(void **state) {
    for (int mode = POOL_FREE_SYNC; mode <= POOL_FREE_DEFER; mode++)
        for (int bins = 0; bins < 2; bins++)
            for (int kept = 0; kept < 2; kept++) {
                struct pool_config config = pool_defaults;
                stop_with_page(state);
                config.free_mode = (enum pool_free_mode)mode;
                config.site_keep = kept ? 100 : 0; /* past threads' caches */
                config.policy = bins ? &in_bins : NULL;
                begin(&config);
                fake.quiet = true;
                follow((uint64_t)mode + 1);
            }
}

/* In another thread, which has a cache of its own. */
static void *use_there(void *unused) {
    (void)unused;
    for (int i = 0; i < 3000; i++)
        release(alloc_at(MIB + (size_t)i % 3 * 512 * KIB, 1));
    return NULL;
}

static void threads_that_share_a_site_note_in_one_place(void **state) {
    (void)state;
    pthread_t thread;
    CUdeviceptr stays = alloc_at(32 * MIB, 1);
    for (int i = 0; i < 3000; i++)
        release(alloc_at(4 * MIB, 1));
    assert_int_equal(least(stays), 4 * MIB);
    assert_int_equal(pthread_create(&thread, NULL, use_there, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(least(stays), MIB);
}

#define TEST_WITH_PAGE(name) cmocka_unit_test_setup_teardown(name, start_with_page, stop_with_page)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_PAGE(a_size_is_noted_when_it_is_freed_or_served_again),
        TEST_WITH_PAGE(a_larger_one_does_not_raise_it),
        TEST_WITH_PAGE(a_block_of_another_site_counts_for_the_one_that_it_serves),
        TEST_WITH_PAGE(sizes_of_the_host_are_whole_pages),
        TEST_WITH_PAGE(every_way_of_serving_and_freeing_notes_the_size),
        TEST_WITH_PAGE(threads_that_share_a_site_note_in_one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
