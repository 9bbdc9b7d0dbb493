/* The map from device addresses to blocks. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "blocks/pointer_map.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 5000, ROUNDS = 60000 };

static struct pool_block *blocks;
static bool present[BLOCKS];
static struct pointer_map map;

static int start(void **state) {
    (void)state;
    blocks = aligned_alloc(_Alignof(struct pool_block), BLOCKS * sizeof *blocks);
    assert_non_null(blocks);
    memset(blocks, 0, BLOCKS * sizeof *blocks);
    memset(present, 0, sizeof present);
    pointer_map_init(&map);
    return 0;
}

static int stop(void **state) {
    (void)state;
    pointer_map_destroy(&map);
    free(blocks);
    return 0;
}

static void add(struct pool_block *block) {
    struct pool_block *replaced;
    assert_true(pointer_map_add(&map, block, &replaced));
    assert_null(replaced);
}

static void an_empty_map_finds_nothing(void **state) {
    (void)state;
    assert_null(pointer_map_find(&map, 0));
    assert_null(pointer_map_find(&map, 0x7f0000000000));
}

/* Addresses as drivers give them: in a row, with gaps, and of neighbouring pages. */
static uint64_t address(size_t i) {
    return 0x7f1200000000 + (i % 2 ? i * 512 : i * ((uint64_t)2 << 20));
}

static void what_is_in_it_is_found_however_it_came_and_went(void **state) {
    (void)state;
    uint32_t seed = 7;
    size_t count = 0;
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i].pointer = address(i);
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1664525u + 1013904223u;
        size_t i = (seed >> 8) % BLOCKS;
        if (present[i])
            pointer_map_remove(&map, &blocks[i]);
        else
            add(&blocks[i]);
        present[i] = !present[i];
        count += present[i] ? 1 : (size_t)-1;
        assert_int_equal(map.count, count);
        assert_ptr_equal(pointer_map_find(&map, blocks[i].pointer), present[i] ? &blocks[i] : NULL);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        assert_ptr_equal(pointer_map_find(&map, blocks[i].pointer), present[i] ? &blocks[i] : NULL);
    assert_null(pointer_map_find(&map, address(0) + 256));
}

static void a_block_of_the_same_address_takes_the_place_of_the_first(void **state) {
    (void)state;
    struct pool_block *replaced;
    blocks[0].pointer = blocks[1].pointer = address(2);
    add(&blocks[0]);
    assert_true(pointer_map_add(&map, &blocks[1], &replaced));
    assert_ptr_equal(replaced, &blocks[0]);
    assert_int_equal(map.count, 1);
    assert_ptr_equal(pointer_map_find(&map, address(2)), &blocks[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_empty_map_finds_nothing),
        TEST(what_is_in_it_is_found_however_it_came_and_went),
        TEST(a_block_of_the_same_address_takes_the_place_of_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
