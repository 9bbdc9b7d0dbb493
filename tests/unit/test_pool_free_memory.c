/* How much idle memory counts as free: what the driver would have back, page by page. */
#include "pool_test.h"

#include <stdlib.h>

enum { PAGE = 2 << 20, SMALL = 1 << 20 };

/* Two of these many blocks of each class are too many to be all looked at. */
enum { FEW = 400, MANY = 3000 };

static uint64_t idle_as_free(void) {
    size_t available = 0, total = 0;
    assert_int_equal(pool_mem_get_info(pool, &available, &total), CUDA_SUCCESS);
    return available - (fake.capacity - fake.used);
}

struct shared {
    uint64_t number;
    bool live;
};

static int compare_pages(const void *one, const void *other) {
    uint64_t a = ((const struct shared *)one)->number, b = ((const struct shared *)other)->number;
    return (a > b) - (a < b);
}

/* The same from each block by itself. *small_live: small live blocks. */
static uint64_t worth_of_idle(uint64_t *small_live) {
    static struct shared pages[8 * MANY];
    size_t count = 0;
    uint64_t bytes = 0;
    const struct pool_block *block;
    struct ledger_place place = {0};
    *small_live = 0;
    pool_lock(pool);
    while ((block = ledger_next(pool, &place))) {
        bool live = block->state == BLOCK_LIVE;
        if (block->size > SMALL) {
            bytes += live ? 0 : (block->size + PAGE - 1) / PAGE * PAGE;
            continue;
        }
        *small_live += live;
        for (uint64_t page = block->pointer / PAGE; page * PAGE < block->pointer + block->size;
             page++) {
            assert_true(count < sizeof pages / sizeof pages[0]);
            pages[count++] = (struct shared){page, live};
        }
    }
    pool_unlock(pool);
    qsort(pages, count, sizeof pages[0], compare_pages);
    for (size_t i = 0; i < count;) {
        bool live = false;
        uint64_t number = pages[i].number;
        for (; i < count && pages[i].number == number; i++)
            live = live || pages[i].live;
        bytes += live ? 0 : PAGE;
    }
    return bytes < fake.used ? bytes : fake.used; /* never more than there is */
}

static uint32_t random_state;

static uint32_t random_below(uint32_t limit) {
    random_state = random_state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(random_state >> 4) * limit >> 28);
}

static CUdeviceptr blocks[2 * MANY];

/* So many live blocks: small ones at the even places, large ones at the odd. */
static void fill(int small, int large) {
    struct call_site key = site(1);
    memset(blocks, 0, sizeof blocks);
    for (int i = 0; i < small; i++)
        assert_int_equal(pool_malloc(pool, &blocks[2 * i], 1 + random_below(SMALL), &key),
                         CUDA_SUCCESS);
    for (int i = 0; i < large; i++)
        assert_int_equal(
            pool_malloc(pool, &blocks[2 * i + 1], SMALL + 1 + random_below(4 * MIB), &key),
            CUDA_SUCCESS);
}

static void free_place(int i) {
    if (blocks[i])
        assert_int_equal(pool_free(pool, blocks[i]), CUDA_SUCCESS);
    blocks[i] = 0;
}

/* Whether what is said is as much as it is, or less by two pages for each small live block. */
static void expect_little_less(void) {
    uint64_t small_live, is = worth_of_idle(&small_live), said = idle_as_free();
    assert_true(said <= is);
    assert_true(said + 2 * PAGE * small_live >= is);
}

static void expect_just(void) {
    uint64_t small_live;
    assert_int_equal(idle_as_free(), worth_of_idle(&small_live));
}

static void churn(int places, int rounds, void (*expect)(void)) {
    struct call_site key = site(1);
    for (int i = 0; i < rounds; i++) {
        int place = (int)random_below((uint32_t)places);
        size_t bytes = place % 2 ? SMALL + 1 + random_below(4 * MIB) : 1 + random_below(SMALL);
        free_place(place);
        if (random_below(2))
            assert_int_equal(pool_malloc(pool, &blocks[place], bytes, &key), CUDA_SUCCESS);
        if (i % 50 == 0)
            expect();
        if (i % 500 == 0)
            assert_true(pool_is_valid(pool));
    }
}

static void of_few_blocks_each_page_counts(void **state) {
    (void)state;
    random_state = 1;
    fill(FEW, FEW);
    expect_just();
    churn(2 * FEW, 3000, expect_just);
}

static void of_many_small_blocks_each_live_one_may_keep_a_page(void **state) {
    (void)state;
    random_state = 2;
    fill(MANY, FEW);
    expect_just(); /* nothing is idle */
    for (int i = 0; i < 2 * FEW; i++) {
        free_place(2 * i + 1);
        expect_little_less();
    }
    expect_just(); /* nothing but large blocks is idle */
    churn(2 * MANY, 3000, expect_little_less);
    for (int i = 0; i < MANY; i++)
        free_place(2 * i);
    expect_just(); /* all small blocks are */
}

static void of_many_large_blocks_each_counts(void **state) {
    (void)state;
    random_state = 3;
    struct call_site key = site(1);
    fill(FEW, 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(pool_malloc(pool, &blocks[2 * i + 1], PAGE * (1 + i % 3), &key),
                         CUDA_SUCCESS);
    for (int i = 0; i < 2 * MANY; i += 3)
        free_place(i);
    expect_just();
}

/* Then the small ones that may be idle are left out: never more, and all once nothing is live. */
static void of_many_blocks_of_both_kinds_it_is_never_more(void **state) {
    (void)state;
    random_state = 4;
    uint64_t live, is;
    struct call_site key = site(1);
    fill(MANY, 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(pool_malloc(pool, &blocks[2 * i + 1], PAGE, &key), CUDA_SUCCESS);
    expect_just();
    for (int i = 0; i < 2 * MANY; i++) {
        free_place(i);
        if (i % 100 == 0) {
            is = worth_of_idle(&live);
            assert_true(idle_as_free() <= is);
        }
    }
    expect_just();
}

static int start_large(void **state) {
    struct pool_config config = pool_defaults;
    (void)state;
    config.max_idle = (struct limit){.kind = LIMIT_PERCENT, .percent = 100};
    start_with(&config, 1000 * GIB);
    return 0;
}

#define LARGE_TEST(name) cmocka_unit_test_setup_teardown(name, start_large, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        LARGE_TEST(of_few_blocks_each_page_counts),
        LARGE_TEST(of_many_small_blocks_each_live_one_may_keep_a_page),
        LARGE_TEST(of_many_large_blocks_each_counts),
        LARGE_TEST(of_many_blocks_of_both_kinds_it_is_never_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
