/* The table of a thread's cache's bins. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "pool/cache_table.h"

#include <stdlib.h>

enum { BINS = 3000, ROUNDS = 60000, SOME_SIZES = 40 };

static struct cache_table table;
static struct site some_site;
static bool present[BINS];
static unsigned count;

static int start(void **state) {
    (void)state;
    assert_true(cache_table_init(&table));
    for (int i = 0; i < BINS; i++)
        present[i] = false;
    count = 0;
    return 0;
}

static int stop(void **state) {
    (void)state;
    free(table.memory);
    return 0;
}

static struct cache_bin bin_number(unsigned i) {
    return (struct cache_bin){.id = 0x401000 + i / 7 * 16,
                              .size = (size_t)512 * (1 + i % SOME_SIZES),
                              .along = i,
                              .site = &some_site};
}

static struct cache_bin *find(unsigned i) {
    const struct cache_bin bin = bin_number(i);
    return cache_table_find(&table, bin.id, bin.size);
}

static void add(unsigned i) {
    const struct cache_bin bin = bin_number(i);
    while (table.used_count >= table.count / 2 && cache_table_grow(&table)) {
    }
    if (cache_table_add(&table, &bin)) {
        present[i] = true;
        count++;
    }
}

static bool is_not_number(struct cache_bin *bin, void *number) {
    return bin->along != *(unsigned *)number;
}

static void take_out(unsigned i) {
    cache_table_filter(&table, is_not_number, &i);
    present[i] = false;
    count--;
}

static void what_is_in_it_is_found_however_it_came_and_went(void **state) {
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1664525u + 1013904223u;
        unsigned i = (seed >> 8) % (round < ROUNDS / 2 ? BINS / 4 : BINS);
        if (present[i])
            take_out(i);
        else
            add(i);
        if (i % 4 != 3)
            assert_int_equal(find(i) != NULL, present[i]);
        if (round % 1000 == 0)
            assert_true(cache_table_is_valid(&table));
    }
    assert_true(cache_table_is_valid(&table));
    assert_int_equal(table.used_count, count);
    assert_in_range(count, BINS / 3, BINS);
    for (unsigned i = 0; i < BINS; i++)
        if (present[i] && i % 4 != 3)
            assert_int_equal(find(i)->along, i);
}

static void bins_are_listed_by_the_size_of_their_blocks(void **state) {
    size_t before = 0;
    unsigned listed = 0;
    (void)state;
    for (unsigned i = 0; i < 500; i++)
        add(i);
    for (unsigned at = 0; at < table.used_count; at++) {
        const struct cache_bin *bin = cache_table_at(&table, at);
        assert_true(bin->size >= before);
        before = bin->size;
        listed++;
    }
    assert_int_equal(listed, count);
    unsigned first = cache_table_from(&table, 513);
    assert_int_equal(table.bins[table.used[first]].size, 1024);
    assert_int_equal(table.bins[table.used[first - 1]].size, 512);
    assert_int_equal(cache_table_from(&table, 0), 0);
    assert_int_equal(cache_table_from(&table, SIZE_MAX), count);
}

static void it_grows_to_a_bound_and_then_refuses(void **state) {
    unsigned refused = 0;
    (void)state;
    while (cache_table_grow(&table)) {
    }
    for (unsigned i = 0; i < 2 * table.count; i++) {
        const struct cache_bin bin = {.id = 16 + i * 16, .size = 512, .site = &some_site};
        refused += !cache_table_add(&table, &bin);
    }
    assert_in_range(refused, table.count, table.count * 5 / 4);
    assert_true(cache_table_is_valid(&table));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_in_it_is_found_however_it_came_and_went, start,
                                        stop),
        cmocka_unit_test_setup_teardown(bins_are_listed_by_the_size_of_their_blocks, start, stop),
        cmocka_unit_test_setup_teardown(it_grows_to_a_bound_and_then_refuses, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
