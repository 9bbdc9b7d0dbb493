/* The table of a thread's cache's bins. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "pool/cache_table_change.h"

#include <stdlib.h>

enum { BINS = 3000, ROUNDS = 60000, SOME_SIZES = 40 };

static struct cache_table table;
static struct site some_site;
static bool present[BINS];
static unsigned count;

static int start(void **state) {
    (void)state;
    table = cache_table_empty;
    assert_true(cache_table_grow(&table));
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
        assert_int_equal(find(i) != NULL, present[i]);
        if (round % 1000 == 0)
            assert_true(cache_table_is_valid(&table));
    }
    assert_true(cache_table_is_valid(&table));
    assert_int_equal(table.used_count, count);
    assert_in_range(count, BINS / 3, BINS);
    for (unsigned i = 0; i < BINS; i++)
        if (present[i])
            assert_int_equal(find(i)->along, i);
}

static struct pool_block some_block;

/* Gives every third bin a block. */
static unsigned fill_some(void) {
    unsigned filled = 0;
    for (unsigned at = 0; at < table.used_count; at++)
        if (at % 3 == 0) {
            cache_table_list(&table, cache_table_at(&table, at));
            cache_table_at(&table, at)->head = &some_block;
            filled++;
        }
    return filled;
}

/* How many a walk from `least` to `most` finds; each must be as large as the one before. */
static unsigned walk(size_t least, size_t most) {
    struct cache_walk walk = {.least = least, .most = most, .tries = BINS};
    const struct cache_bin *bin;
    size_t before = least;
    unsigned found = 0;
    for (; (bin = cache_table_walk(&table, &walk)); found++) {
        assert_ptr_equal(bin->head, &some_block);
        assert_in_range(bin->size, before, most);
        before = bin->size;
    }
    assert_true(cache_table_is_valid(&table));
    return found;
}

static unsigned count_filled(size_t least, size_t most) {
    unsigned filled = 0;
    for (unsigned at = 0; at < table.used_count; at++) {
        const struct cache_bin *bin = cache_table_at(&table, at);
        filled += bin->head && bin->size >= least && bin->size <= most;
    }
    return filled;
}

static void a_walk_goes_along_the_bins_with_blocks_from_small_to_large(void **state) {
    (void)state;
    for (unsigned i = 0; i < 500; i++)
        add(i);
    assert_int_equal(walk(0, SIZE_MAX), 0);
    unsigned filled = fill_some();
    assert_int_equal(walk(0, SIZE_MAX), filled);
    for (size_t least = 512; least < 512 * SOME_SIZES; least += 512)
        for (size_t most = least; most < 512 * SOME_SIZES; most += 1536)
            assert_int_equal(walk(least, most), count_filled(least, most));
    struct cache_walk few = {.most = SIZE_MAX, .tries = 3};
    unsigned found = 0;
    while (cache_table_walk(&table, &few))
        found++;
    assert_in_range(found, 1, 3);
    assert_int_equal(few.tries, 0);
}

static void what_was_emptied_is_passed_until_it_has_a_block_again(void **state) {
    struct cache_bin *bin;
    size_t before = SIZE_MAX;
    bool alike;
    (void)state;
    for (unsigned i = 0; i < 500; i++)
        add(i);
    unsigned filled = fill_some();
    for (; (bin = cache_table_largest(&table, &alike)); filled--) {
        assert_in_range(bin->size, 512, before);
        before = bin->size;
        bin->head = NULL;
    }
    assert_int_equal(filled, 0);
    assert_int_equal(walk(0, SIZE_MAX), 0);
    filled = fill_some();
    assert_int_equal(walk(0, SIZE_MAX), filled);
}

/* Bins come and go, of which few are left at a time: the table stays as small as that. */
static void a_bin_is_gone_as_soon_as_its_last_block_is_if_it_is_a_late_one(void **state) {
    (void)state;
    struct cache_bin bin = {.id = 16, .site = &some_site}, *late[3] = {NULL};
    struct pool_block block;
    for (unsigned i = 0; i < 20; i++)
        add(i);
    unsigned used = table.used_count;
    for (unsigned i = 0; i < 3000; i++) {
        bin.size = (size_t)512 * (1000 + i * 7);
        if (late[i % 3]) {
            late[i % 3]->head = NULL;
            cache_table_remove_late(&table, late[i % 3]);
        }
        late[i % 3] = cache_table_add(&table, &bin);
        assert_non_null(late[i % 3]);
        cache_table_list(&table, late[i % 3]);
        late[i % 3]->head = &block;
        assert_true(cache_table_is_valid(&table));
    }
    assert_int_equal(table.used_count, used + 3);
    bool alike;
    assert_ptr_equal(cache_table_largest(&table, &alike), late[2999 % 3]);
    assert_false(alike);
    assert_false(cache_table_reaches(&table, bin.size + 512));
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(find(i)->along, i);
}

enum { CROWD = 600, FIRST_SIZE = 512 << 10, SIZES_OF_CLASS = 64 };

/* Bins of one class, all with blocks but those of its largest size. */
static void add_crowd(void) {
    for (unsigned i = 0; i < CROWD; i++) {
        size_t size = FIRST_SIZE + 512 * (size_t)(i * 29 % (SIZES_OF_CLASS - 1));
        const struct cache_bin bin = {.id = 16 + i * 16, .size = size, .site = &some_site};
        while (table.used_count >= table.count / 2)
            assert_true(cache_table_grow(&table));
        struct cache_bin *added = cache_table_add(&table, &bin);
        assert_non_null(added);
        cache_table_list(&table, added);
        added->head = &some_block;
    }
}

/* That suffices for what the bin is for. */
static struct cache_bin *first(const struct cache_bin *bin) {
    return cache_table_first(&table, bin->class, bin->size);
}

static void a_crowd_of_smaller_bins_of_the_class_hides_no_larger_one(void **state) {
    (void)state;
    enum { LARGEST = FIRST_SIZE + 512 * (SIZES_OF_CLASS - 1) };
    add_crowd();
    const struct cache_bin bin = {.id = 8, .size = LARGEST, .site = &some_site};
    struct cache_bin *largest = cache_table_add(&table, &bin);
    assert_non_null(largest);
    cache_table_list(&table, largest);
    largest->head = &some_block;
    struct cache_walk few = {.least = LARGEST, .most = LARGEST, .tries = 2};
    assert_true(cache_table_walk(&table, &few) == largest);
    assert_true(first(largest) == largest);
}

static void the_first_bin_that_suffices_is_found_beyond_smaller_and_empty_ones(void **state) {
    (void)state;
    static const size_t sizes[] = {512, 1024, 2048, 512 << 10, 64 << 20};
    struct cache_bin *bins[5];
    for (unsigned i = 0; i < 5; i++) {
        const struct cache_bin bin = {.id = 16 + i * 16, .size = sizes[i], .site = &some_site};
        bins[i] = cache_table_add(&table, &bin);
        assert_non_null(bins[i]);
        cache_table_list(&table, bins[i]);
    }
    bins[0]->head = bins[3]->head = &some_block;
    assert_true(first(bins[0]) == bins[0]);
    assert_true(first(bins[1]) == bins[3]);
    assert_null(bins[1]->listed);
    assert_null(bins[2]->listed);
    assert_null(first(bins[4]));
    assert_true(cache_table_is_valid(&table));
}

static bool is_second(struct cache_bin *bin, void *number) {
    (void)bin;
    return ++*(unsigned *)number % 2 == 0;
}

static void bins_are_walked_by_size_after_some_have_gone_and_the_table_has_grown(void **state) {
    (void)state;
    unsigned number = 0;
    add_crowd();
    for (unsigned i = 0; i < 300; i++)
        add(i);
    fill_some();
    cache_table_filter(&table, is_second, &number);
    assert_true(cache_table_is_valid(&table));
    assert_int_equal(walk(0, SIZE_MAX), count_filled(0, SIZE_MAX));
    assert_true(cache_table_grow(&table));
    assert_true(cache_table_is_valid(&table));
    assert_int_equal(walk(0, SIZE_MAX), count_filled(0, SIZE_MAX));
    assert_int_equal(walk(FIRST_SIZE, SIZE_MAX), count_filled(FIRST_SIZE, SIZE_MAX));
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

static void one_without_places_is_looked_in_as_any_other_and_takes_no_bin(void **state) {
    (void)state;
    struct cache_table empty = cache_table_empty;
    const struct cache_bin bin = bin_number(0);
    bool alike;
    assert_null(cache_table_find(&empty, bin.id, bin.size));
    assert_false(cache_table_reaches(&empty, bin.size));
    assert_null(cache_table_largest(&empty, &alike));
    assert_null(cache_table_add(&empty, &bin));
    unsigned none = 0;
    cache_table_filter(&empty, is_not_number, &none);
    assert_null(cache_table_find(&empty, bin.id, bin.size));
    assert_true(cache_table_is_valid(&empty));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_in_it_is_found_however_it_came_and_went, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_walk_goes_along_the_bins_with_blocks_from_small_to_large,
                                        start, stop),
        cmocka_unit_test_setup_teardown(what_was_emptied_is_passed_until_it_has_a_block_again,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            a_bin_is_gone_as_soon_as_its_last_block_is_if_it_is_a_late_one, start, stop),
        cmocka_unit_test_setup_teardown(
            the_first_bin_that_suffices_is_found_beyond_smaller_and_empty_ones, start, stop),
        cmocka_unit_test_setup_teardown(a_crowd_of_smaller_bins_of_the_class_hides_no_larger_one,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            bins_are_walked_by_size_after_some_have_gone_and_the_table_has_grown, start, stop),
        cmocka_unit_test_setup_teardown(it_grows_to_a_bound_and_then_refuses, start, stop),
        cmocka_unit_test(one_without_places_is_looked_in_as_any_other_and_takes_no_bin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
