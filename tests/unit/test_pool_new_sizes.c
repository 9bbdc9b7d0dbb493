/* Misses of sizes larger than any before: each finds a block idle that does not fit, and is too
 * much beside another. The thread's cache gives it back by itself, as the long way would. For sizes
 * smaller than any before the long way is taken. */
#include "peers/own_open.h"
#include "pool/cache_parts.h"
#include "pool_test.h"

#include <pthread.h>
#include <semaphore.h>

static int start_in_auto(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    config.free_mode = POOL_FREE_AUTO;
    start_with(&config, 80 * GIB);
    return 0;
}

/* One block stays, so that frees owe their waits. */
static void grow_up(void) {
    quick_alloc(100, 99);
    for (int i = 0; i < GROWN_UP / 2; i++)
        quick_release(quick_alloc(MIB, 98));
}

/* Whether a cache serves a miss without the pool's lock. */
static bool misses_quickly(CUdeviceptr *pointer, size_t bytes, uintptr_t number) {
    return quick_malloc(pool, pointer, bytes, number, true) == QUICK_MISS &&
           cache_miss(pool, pointer, bytes, number);
}

/* In another thread, which has a cache of its own. */
static void *allocate_there(void *unused) {
    (void)unused;
    quick_alloc(MIB, 1);
    return NULL;
}

static void allocate_elsewhere(void) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, allocate_there, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A block of a size that is larger than any before, and then frees the last one: so that each
 * request finds a block idle that does not fit, and has to go for it. */
struct growing {
    CUdeviceptr live;
    size_t bytes;
};

static bool grows_quickly(struct growing *growing) {
    CUdeviceptr before = growing->live;
    growing->bytes += 2 * MIB;
    bool quick = misses_quickly(&growing->live, growing->bytes, 1);
    if (!quick)
        growing->live = quick_alloc(growing->bytes, 1);
    assert_int_equal(stats_get(STATS_held_bytes), fake.used);
    quick_release(before);
    assert_int_equal(stats_get(STATS_held_bytes), fake.used);
    return quick;
}

static struct growing grow_up_and_on(void) {
    grow_up();
    struct growing growing = {.bytes = 300 * MIB};
    growing.live = quick_alloc(growing.bytes, 1);
    for (int i = 0; i < 200; i++)
        grows_quickly(&growing);
    assert_true(grows_quickly(&growing) || grows_quickly(&growing));
    assert_true(pool_is_valid(pool));
    return growing;
}

static void misses_of_ever_new_sizes_give_back_what_is_too_much_without_the_long_way(void **state) {
    enum { ROUNDS = 300 };
    (void)state;
    struct growing growing = grow_up_and_on();
    int frees = fake.frees, allocs = fake.allocs, quick = 0;
    uint64_t calls = stats_get(STATS_malloc_calls),
             released = stats_get(STATS_bound_released_blocks);
    unsigned bins = cache_mine.cache->table.used_count;
    for (int i = 0; i < ROUNDS; i++)
        quick += grows_quickly(&growing);
    assert_in_range(quick, ROUNDS * 9 / 10, ROUNDS);
    assert_int_equal(fake.allocs, allocs + ROUNDS);
    assert_int_equal(fake.frees, frees + ROUNDS);
    assert_int_equal(stats_get(STATS_malloc_calls), calls + ROUNDS);
    assert_int_equal(stats_get(STATS_bound_released_blocks), released + ROUNDS);
    assert_int_equal(stats_get(STATS_driver_frees), fake.frees);
    assert_in_range(cache_mine.cache->table.used_count, 1, bins + ROUNDS / 10);
    assert_true(cache_table_is_valid(&cache_mine.cache->table));
    assert_true(pool_is_valid(pool));
}

/* The free that follows may wait, as natively it does. */
static void nothing_is_given_back_for_a_new_size_while_work_runs(void **state) {
    (void)state;
    struct growing growing = grow_up_and_on();
    uint64_t postponed = stats_get(STATS_bound_postponed);
    fake.quiet = false;
    for (int i = 0; i < 10; i++) {
        int frees = fake.frees;
        CUdeviceptr before = growing.live;
        growing.live = quick_alloc(growing.bytes += 2 * MIB, 1);
        assert_int_equal(fake.frees, frees);
        assert_int_equal(stats_get(STATS_held_bytes), fake.used);
        quick_release(before);
    }
    assert_in_range(stats_get(STATS_bound_postponed), postponed + 10, postponed + 20);
    assert_true(pool_is_valid(pool));
    fake.quiet = true;
    int quick = 0;
    for (int i = 0; i < 10; i++)
        quick += grows_quickly(&growing);
    assert_in_range(quick, 8, 10);
    assert_true(pool_is_valid(pool));
}

static void what_the_driver_does_not_take_back_for_a_new_size_is_idle_again(void **state) {
    (void)state;
    struct growing growing = grow_up_and_on();
    size_t kept = growing.bytes - 2 * MIB;
    fake.free_result = CUDA_ERROR_NOT_PERMITTED;
    grows_quickly(&growing);
    fake.free_result = CUDA_SUCCESS;
    assert_true(pool_is_valid(pool));
    int allocs = fake.allocs;
    quick_alloc(kept, 1);
    assert_int_equal(fake.allocs, allocs);
    grows_quickly(&growing);
    assert_true(pool_is_valid(pool));
}

static void look_meanwhile(void) {
    fake.on_query = NULL;
    allocate_elsewhere();
}

static void look_while_freed(CUdeviceptr pointer) {
    (void)pointer;
    fake.on_free = NULL;
    allocate_elsewhere();
}

static void others_may_have_the_pool_while_a_new_size_is_made_room_for(void **state) {
    (void)state;
    struct growing growing = grow_up_and_on();
    fake.on_query = look_meanwhile;
    grows_quickly(&growing);
    assert_null(fake.on_query);
    assert_true(pool_is_valid(pool));
    for (int i = 0; i < 300; i++) /* until the other thread's cache rests */
        quick_release(quick_alloc(MIB, 98));
    fake.on_free = look_while_freed;
    grows_quickly(&growing);
    assert_null(fake.on_free);
    assert_true(pool_is_valid(pool));
    assert_int_equal(TAILQ_FIRST(&pool->devices)->releasing, 0);
    grows_quickly(&growing);
    assert_true(pool_is_valid(pool));
}

/* Two threads with one cache, as of more than CACHE_THREADS some have, whose turns are set. */
struct sharing {
    pthread_t thread;
    sem_t goes, rests;
    size_t bytes; /* asked for in the second turn; 0: in the first one, to have the cache */
    CUdeviceptr got;
};
static struct sharing sharing;

static void *take_number(void *unused) {
    (void)unused;
    thread_number();
    return NULL;
}

static void *allocate_in_turn(void *unused) {
    (void)unused;
    quick_release(quick_alloc(MIB, 98));
    sem_post(&sharing.rests);
    sem_wait(&sharing.goes);
    sharing.got = quick_alloc(sharing.bytes, 1);
    sem_post(&sharing.rests);
    return NULL;
}

static void begin_sharing(void) {
    pthread_t thread;
    unsigned own = thread_number();
    sem_init(&sharing.goes, 0, 0);
    sem_init(&sharing.rests, 0, 0);
    while ((thread_numbers() + 1 - own) % CACHE_THREADS) {
        assert_int_equal(pthread_create(&thread, NULL, take_number, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_int_equal(pthread_create(&sharing.thread, NULL, allocate_in_turn, NULL), 0);
    sem_wait(&sharing.rests);
}

static void end_sharing(void) {
    assert_int_equal(pthread_join(sharing.thread, NULL), 0);
    sem_destroy(&sharing.goes);
    sem_destroy(&sharing.rests);
}

/* The other thread is at its allocation, and goes on once this one has freed. */
static void rest_while_allocating(void) {
    fake.on_alloc = NULL;
    sem_post(&sharing.rests);
    sem_wait(&sharing.goes);
}

static void share_meanwhile(void) {
    fake.on_query = NULL;
    fake.on_alloc = rest_while_allocating;
    sem_post(&sharing.goes);
    sem_wait(&sharing.rests);
}

static void threads_with_one_cache_do_not_give_back_a_block_twice(void **state) {
    (void)state;
    struct growing growing = grow_up_and_on();
    begin_sharing();
    for (int i = 0; i < 10; i++)
        grows_quickly(&growing);
    CUdeviceptr before = growing.live;
    sharing.bytes = growing.bytes; /* no larger than all before: its bin stays */
    fake.on_query = share_meanwhile;
    growing.bytes += 2 * MIB;
    if (!misses_quickly(&growing.live, growing.bytes, 1))
        growing.live = quick_alloc(growing.bytes, 1);
    assert_null(fake.on_query);
    sem_post(&sharing.goes);
    end_sharing();
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_held_bytes), fake.used);
    assert_int_equal(stats_get(STATS_driver_frees), fake.frees);
    quick_release(before);
    quick_release(sharing.got);
    quick_release(growing.live);
    assert_true(pool_is_valid(pool));
}

static void end_while_asked(void) {
    fake.on_query = NULL;
    pool_primary_ending(pool, 0);
}

static pthread_t ending;

static void *end_primary(void *unused) {
    (void)unused;
    pool_primary_ending(pool, 0);
    return NULL;
}

/* Else the driver would free the block with the context, and the free reach whoever has its address
 * by then. */
static void the_end_waits_for_the_free(CUdeviceptr pointer) {
    (void)pointer;
    fake.on_free = NULL;
    assert_int_equal(pthread_create(&ending, NULL, end_primary, NULL), 0);
    for (int i = 0; i < 400 && LIST_EMPTY(&pool->ended); i++)
        futex_pause();
    assert_true(LIST_EMPTY(&pool->ended));
}

static bool cache_is_asking_now(void) {
    pool_lock(pool);
    bool asking = cache_is_asking(pool);
    pool_unlock(pool);
    return asking;
}

static void grow_by_a_step(struct growing *growing) {
    size_t bytes = growing->bytes + 2 * MIB;
    if (!misses_quickly(&growing->live, bytes, 1))
        quick_alloc(bytes, 1);
}

static void nothing_is_left_under_way(void) {
    assert_true(!fake.on_query && !fake.on_free);
    assert_true(pool_is_valid(pool));
    assert_int_equal(TAILQ_FIRST(&pool->devices)->releasing, 0);
    assert_false(cache_is_asking_now());
}

static void the_context_may_end_while_it_is_asked_about_for_a_new_size(void **state) {
    (void)state;
    struct growing growing = grow_up_and_on();
    fake.on_query = end_while_asked;
    grow_by_a_step(&growing);
    nothing_is_left_under_way();
}

static void a_context_ends_once_what_made_room_for_a_new_size_is_given_back(void **state) {
    (void)state;
    struct growing growing = grow_up_and_on();
    fake.on_free = the_end_waits_for_the_free;
    grow_by_a_step(&growing);
    assert_int_equal(pthread_join(ending, NULL), 0);
    nothing_is_left_under_way();
}

#define TEST_IN_AUTO(name) cmocka_unit_test_setup_teardown(name, start_in_auto, stop)

static void say(const char *line) {
    (void)line;
}

/* The long way gives up what is too large for a site whose sizes only fall. */
static void a_size_smaller_than_all_before_goes_the_long_way(void **state) {
    (void)state;
    grow_up();
    CUdeviceptr one = quick_alloc(512 * MIB, 1), other = quick_alloc(512 * MIB, 1), live;
    quick_release(one);
    quick_release(other);
    uint64_t held = stats_get(STATS_held_bytes);
    assert_false(misses_quickly(&live, 128 * MIB, 1));
    quick_alloc(128 * MIB, 1);
    assert_int_equal(stats_get(STATS_held_bytes), held - 384 * MIB);
    assert_true(misses_quickly(&live, 128 * MIB, 1)); /* smaller than none */
    assert_int_equal(stats_get(STATS_held_bytes), held - 256 * MIB);
    assert_true(pool_is_valid(pool));
}

int main(void) {
    stats_open(NULL, false, say); /* without a page no site has figures of its own */
    const struct CMUnitTest tests[] = {
        TEST_IN_AUTO(misses_of_ever_new_sizes_give_back_what_is_too_much_without_the_long_way),
        TEST_IN_AUTO(nothing_is_given_back_for_a_new_size_while_work_runs),
        TEST_IN_AUTO(what_the_driver_does_not_take_back_for_a_new_size_is_idle_again),
        TEST_IN_AUTO(others_may_have_the_pool_while_a_new_size_is_made_room_for),
        TEST_IN_AUTO(threads_with_one_cache_do_not_give_back_a_block_twice),
        TEST_IN_AUTO(the_context_may_end_while_it_is_asked_about_for_a_new_size),
        TEST_IN_AUTO(a_context_ends_once_what_made_room_for_a_new_size_is_given_back),
        TEST_IN_AUTO(a_size_smaller_than_all_before_goes_the_long_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
