/* The bounds of a trace, against the true optimum of thousands of tiny ones, found by trying all.
 */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "trace/bounds.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 7, MOST_MOMENTS = 2 * MOST_BLOCKS };

static uint64_t seed;

static uint64_t random_below(uint64_t limit) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    return (seed >> 33) % limit;
}

static struct trace *new_trace(void) {
    struct trace *trace = trace_new();
    uint32_t site;
    assert_non_null(trace);
    assert_true(trace_name_site(trace, "", &site));
    return trace;
}

static uint32_t add_alloc(struct trace *trace, uint16_t device, uint64_t bytes) {
    uint32_t block = (uint32_t)trace->block_count;
    struct trace_event event = {
        .op = TRACE_ALLOC, .block = block, .value = bytes, .device = device};
    assert_true(trace_append(trace, &event));
    return block;
}

static void add_free(struct trace *trace, uint16_t device, uint32_t block) {
    struct trace_event event = {.op = TRACE_FREE, .block = block, .device = device};
    assert_true(trace_append(trace, &event));
}

static struct bounds all_bounds(const struct trace *trace) {
    struct bounds bounds;
    assert_true(bounds_of(trace, BOUNDS_ALL_DEVICES, 1, &bounds, NULL));
    return bounds;
}

static uint64_t fewest_whole(const struct trace *trace, uint64_t held) {
    uint64_t allocations = UINT64_MAX;
    assert_int_equal(bounds_fewest_whole(trace, BOUNDS_ALL_DEVICES, held, &allocations),
                     BOUNDS_FOUND);
    return allocations;
}

/* What the searches know of a trace: lives of one device, by number of block in the whole trace. */
struct tiny {
    size_t count, moments;
    struct {
        uint64_t size;
        size_t start, end, block;
    } life[MOST_BLOCKS];
};

static void note_event(struct tiny *tiny, const struct trace_event *event) {
    size_t moment = tiny->moments++;
    if (event->op == TRACE_ALLOC) {
        tiny->life[tiny->count].size = event->value;
        tiny->life[tiny->count].start = moment;
        tiny->life[tiny->count].end = SIZE_MAX;
        tiny->life[tiny->count++].block = event->block;
    }
    for (size_t i = 0; event->op == TRACE_FREE && i < tiny->count; i++)
        if (tiny->life[i].block == event->block)
            tiny->life[i].end = moment;
}

static struct tiny tiny_of(const struct trace *trace, uint32_t device) {
    struct tiny tiny = {0};
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].device == device)
            note_event(&tiny, &trace->events[i]);
    for (size_t i = 0; i < tiny.count; i++)
        if (tiny.life[i].end == SIZE_MAX)
            tiny.life[i].end = tiny.moments;
    return tiny;
}

static bool meet(const struct tiny *tiny, size_t one, size_t other) {
    return tiny->life[one].start < tiny->life[other].end &&
           tiny->life[other].start < tiny->life[one].end;
}

/* The lowest packing: some order of placing each block on top of all those before it that it meets
 * has the best one (push the best one's blocks down, take its order of addresses). */
static uint64_t lowest_packing(const struct tiny *tiny, uint64_t *top, unsigned placed,
                               uint64_t height, uint64_t best) {
    if (height >= best || placed == (1u << tiny->count) - 1)
        return height < best ? height : best;
    for (size_t i = 0; i < tiny->count; i++) {
        uint64_t address = 0;
        if (placed & 1u << i)
            continue;
        for (size_t j = 0; j < tiny->count; j++)
            if (placed & 1u << j && meet(tiny, i, j) && top[j] > address)
                address = top[j];
        top[i] = address + tiny->life[i].size;
        best = lowest_packing(tiny, top, placed | 1u << i, height > top[i] ? height : top[i], best);
    }
    return best;
}

static uint64_t least_height(const struct tiny *tiny) {
    uint64_t top[MOST_BLOCKS];
    return lowest_packing(tiny, top, 0, 0, UINT64_MAX);
}

/* Driver allocations, made for their first request and released after their last. */
struct chains {
    size_t count;
    struct {
        uint64_t size;
        size_t start, end;
    } chain[MOST_BLOCKS];
};

static bool is_held(const struct chains *chains, size_t moments, uint64_t held) {
    for (size_t m = 0; m < moments; m++) {
        uint64_t sum = 0;
        for (size_t c = 0; c < chains->count; c++)
            if (chains->chain[c].start <= m && m < chains->chain[c].end)
                sum += chains->chain[c].size;
        if (sum > held)
            return false;
    }
    return true;
}

/* The fewest driver allocations of every way to give each request one, old or new. */
static size_t fewest_chains(const struct tiny *tiny, size_t next, const struct chains *chains,
                            uint64_t held, size_t best) {
    if (chains->count >= best || !is_held(chains, tiny->moments, held))
        return best;
    if (next == tiny->count)
        return chains->count;
    for (size_t c = 0; c <= chains->count; c++) {
        struct chains more = *chains;
        bool is_new = c == chains->count;
        if (!is_new && chains->chain[c].end > tiny->life[next].start)
            continue;
        if (is_new) {
            more.count++;
            more.chain[c].start = tiny->life[next].start;
            more.chain[c].size = 0;
        }
        if (tiny->life[next].size > more.chain[c].size)
            more.chain[c].size = tiny->life[next].size;
        more.chain[c].end = tiny->life[next].end;
        best = fewest_chains(tiny, next + 1, &more, held, best);
    }
    return best;
}

static size_t true_fewest(const struct tiny *tiny, uint64_t held) {
    struct chains none = {0};
    return fewest_chains(tiny, 0, &none, held, SIZE_MAX);
}

/* Some blocks stay live to the end. */
static struct trace *random_trace(size_t blocks, uint64_t sizes, uint16_t devices) {
    struct trace *trace = new_trace();
    uint32_t live[MOST_BLOCKS];
    uint16_t device[MOST_BLOCKS];
    size_t count = 0, left = blocks;
    while (left || (count && random_below(4))) {
        if (left && random_below(2)) {
            uint16_t on = (uint16_t)random_below(devices);
            uint32_t block = add_alloc(trace, on, 1 + random_below(sizes));
            device[block] = on;
            live[count++] = block;
            left--;
        } else if (count) {
            size_t i = random_below(count);
            add_free(trace, device[live[i]], live[i]);
            live[i] = live[--count];
        }
    }
    return trace;
}

static void check_no_overlap(const struct trace *trace, const struct tiny *tiny, uint32_t device,
                             uint64_t granule) {
    uint64_t addresses[MOST_BLOCKS], height = 0;
    struct bounds bounds;
    memset(addresses, 0xff, sizeof addresses);
    assert_true(bounds_of(trace, device, granule, &bounds, addresses));
    assert_true(bounds.packed);
    for (size_t i = 0; i < tiny->count; i++) {
        uint64_t address = addresses[tiny->life[i].block];
        uint64_t top = address + (tiny->life[i].size + granule - 1) / granule * granule;
        assert_int_equal(address % granule, 0);
        if (top > height)
            height = top;
        for (size_t j = 0; j < i; j++) {
            uint64_t other = addresses[tiny->life[j].block];
            assert_false(meet(tiny, i, j) && address < other + tiny->life[j].size &&
                         other < address + tiny->life[i].size);
        }
    }
    assert_int_equal(bounds.packed_bytes, height);
}

/* How often a bound was the optimum, and how often it was compared. */
static size_t tight_packings, packings, tight_counts, counts;

static void check_memory(const struct trace *trace, const struct tiny *tiny, uint32_t device) {
    struct bounds bounds;
    assert_true(bounds_of(trace, device, 1, &bounds, NULL));
    uint64_t least = least_height(tiny);
    assert_in_range(least, bounds.live_bytes, bounds.packed_bytes);
    assert_false(bounds.rough);
    check_no_overlap(trace, tiny, device, 1);
    check_no_overlap(trace, tiny, device, 4);
    tight_packings += least == bounds.packed_bytes;
    packings++;
}

static void check_counts(const struct trace *trace, const struct tiny *tiny, uint32_t device) {
    struct bounds bounds;
    uint64_t allocations, before = UINT64_MAX;
    assert_true(bounds_of(trace, device, 1, &bounds, NULL));
    for (uint64_t held = 0; held < bounds.live_bytes; held++)
        assert_int_equal(bounds_fewest_whole(trace, device, held, &allocations), BOUNDS_IMPOSSIBLE);
    for (uint64_t held = bounds.live_bytes; held < bounds.live_bytes + 10; held++) {
        assert_int_equal(bounds_fewest_whole(trace, device, held, &allocations), BOUNDS_FOUND);
        size_t fewest = true_fewest(tiny, held);
        assert_in_range(allocations, bounds.live_blocks, fewest);
        assert_true(allocations <= before);
        before = allocations;
        tight_counts += allocations == fewest;
        counts++;
    }
}

static void the_optimum_lies_between_the_bounds(void **state) {
    (void)state;
    seed = 1;
    tight_packings = packings = 0;
    for (size_t i = 0; i < 4000; i++) {
        struct trace *trace = random_trace(1 + i % 6, i % 2 ? 4 : 9, 1);
        struct tiny tiny = tiny_of(trace, 0);
        check_memory(trace, &tiny, 0);
        trace_free(trace);
    }
    assert_true(tight_packings > packings * 9 / 10);
}

static void no_allocator_that_reuses_whole_blocks_has_fewer_allocations(void **state) {
    (void)state;
    seed = 2;
    tight_counts = counts = 0;
    for (size_t i = 0; i < 4000; i++) {
        struct trace *trace = random_trace(1 + i % 7, i % 2 ? 4 : 9, 1);
        struct tiny tiny = tiny_of(trace, 0);
        check_counts(trace, &tiny, 0);
        trace_free(trace);
    }
    assert_true(tight_counts > counts * 9 / 10);
}

static void devices_are_bounded_each_and_together(void **state) {
    (void)state;
    seed = 3;
    for (size_t i = 0; i < 1000; i++) {
        struct trace *trace = random_trace(1 + i % 7, 4, 2);
        struct bounds all = all_bounds(trace);
        uint64_t packed = 0, blocks = 0, fewest = 0;
        for (uint32_t d = 0; d < trace->device_count; d++) {
            struct tiny tiny = tiny_of(trace, d);
            struct bounds one;
            check_memory(trace, &tiny, d);
            check_counts(trace, &tiny, d);
            assert_true(bounds_of(trace, d, 1, &one, NULL));
            packed += one.packed_bytes;
            blocks += one.live_blocks;
            fewest += true_fewest(&tiny, all.live_bytes);
        }
        assert_int_equal(all.live_bytes, trace->peak_live_bytes);
        assert_int_equal(all.packed_bytes, packed);
        assert_int_equal(all.live_blocks, blocks);
        assert_in_range(fewest_whole(trace, all.live_bytes), blocks, fewest);
        trace_free(trace);
    }
}

static void a_trace_without_blocks_needs_nothing(void **state) {
    (void)state;
    struct trace *trace = new_trace();
    struct bounds bounds = all_bounds(trace);
    uint64_t allocations = 9;
    assert_int_equal(bounds.live_bytes, 0);
    assert_int_equal(bounds.packed_bytes, 0);
    assert_true(bounds.packed);
    assert_int_equal(fewest_whole(trace, 0), 0);
    assert_int_equal(bounds_fewest_cut(trace, 0, 0, &allocations), BOUNDS_FOUND);
    assert_int_equal(allocations, 0);
    trace_free(trace);
}

/* A third block of 2 finds only two gaps of 1, when each is packed as it comes; knowing the future,
 * the blocks that stay lie side by side. */
static void a_packing_knows_the_future(void **state) {
    (void)state;
    struct trace *trace = new_trace();
    uint32_t a = add_alloc(trace, 0, 1), b = add_alloc(trace, 0, 1), c = add_alloc(trace, 0, 1);
    (void)b;
    add_alloc(trace, 0, 1);
    add_free(trace, 0, a);
    add_free(trace, 0, c);
    add_alloc(trace, 0, 2);
    struct bounds bounds = all_bounds(trace);
    assert_int_equal(bounds.live_bytes, 4);
    assert_int_equal(bounds.packed_bytes, 4);
    assert_int_equal(bounds.live_blocks, 4);
    trace_free(trace);
}

static void a_packing_counts_in_granules(void **state) {
    (void)state;
    struct trace *trace = new_trace();
    struct bounds bounds;
    add_alloc(trace, 0, 1);
    add_alloc(trace, 0, 513);
    assert_true(bounds_of(trace, 0, 512, &bounds, NULL));
    assert_int_equal(bounds.live_bytes, 514);
    assert_int_equal(bounds.packed_bytes, 3 * 512);
    trace_free(trace);
}

/* One block of 100 and ten of 10 by turns. */
static struct trace *two_phases(size_t turns) {
    struct trace *trace = new_trace();
    for (size_t turn = 0; turn < turns; turn++) {
        uint32_t blocks[10];
        add_free(trace, 0, add_alloc(trace, 0, 100));
        for (size_t i = 0; i < 10; i++)
            blocks[i] = add_alloc(trace, 0, 10);
        for (size_t i = 0; i < 10; i++)
            add_free(trace, 0, blocks[i]);
    }
    return trace;
}

static void a_tight_cap_forces_allocations_anew(void **state) {
    (void)state;
    struct trace *trace = two_phases(5);
    assert_int_equal(fewest_whole(trace, 100), 5 * 11);
    assert_int_equal(fewest_whole(trace, 109), 5 * 11);
    /* With 110, one of 10 stays while the one of 100 is there; no less is proven. */
    assert_in_range(fewest_whole(trace, 110), 11, 11 + 4 * 10);
    /* The one of 100 serves a request of 10. */
    assert_int_equal(fewest_whole(trace, 190), 10);
    assert_int_equal(fewest_whole(trace, UINT64_MAX), 10);
    trace_free(trace);
}

static void less_than_is_live_cannot_be_held(void **state) {
    (void)state;
    struct trace *trace = two_phases(1);
    uint64_t allocations;
    assert_int_equal(bounds_fewest_whole(trace, 0, 99, &allocations), BOUNDS_IMPOSSIBLE);
    assert_int_equal(bounds_fewest_cut(trace, 0, 99, &allocations), BOUNDS_IMPOSSIBLE);
    assert_int_equal(bounds_fewest_cut(trace, BOUNDS_ALL_DEVICES, 99, &allocations),
                     BOUNDS_IMPOSSIBLE);
    assert_int_equal(bounds_fewest_cut(trace, 0, 100, &allocations), BOUNDS_FOUND);
    assert_int_equal(allocations, 1);
    trace_free(trace);
}

static void devices_peak_at_their_own_time(void **state) {
    (void)state;
    struct trace *trace = new_trace();
    uint64_t allocations;
    add_free(trace, 0, add_alloc(trace, 0, 10));
    add_alloc(trace, 2, 7);
    struct bounds bounds = all_bounds(trace);
    assert_int_equal(bounds.live_bytes, 10);
    assert_int_equal(bounds.packed_bytes, 17);
    assert_int_equal(bounds.live_blocks, 2);
    assert_int_equal(fewest_whole(trace, 10), 2);
    assert_int_equal(bounds_fewest_cut(trace, BOUNDS_ALL_DEVICES, 10, &allocations), BOUNDS_FOUND);
    assert_int_equal(allocations, 2);
    assert_int_equal(bounds_fewest_cut(trace, 1, 0, &allocations), BOUNDS_FOUND);
    assert_int_equal(allocations, 0);
    trace_free(trace);
}

static void sizes_beyond_what_can_be_added_are_not_packed(void **state) {
    (void)state;
    struct trace *trace = new_trace();
    add_free(trace, 0, add_alloc(trace, 0, UINT64_MAX - 1));
    add_free(trace, 0, add_alloc(trace, 0, UINT64_MAX - 1));
    struct bounds bounds = all_bounds(trace);
    assert_int_equal(bounds.live_bytes, UINT64_MAX - 1);
    assert_false(bounds.packed);
    assert_int_equal(bounds.packed_bytes, UINT64_MAX);
    assert_int_equal(fewest_whole(trace, UINT64_MAX), 1);
    trace_free(trace);
}

struct placed {
    uint64_t from, to;
    size_t start, end;
};

static int compare_placed(const void *left, const void *right) {
    const struct placed *a = left, *b = right;
    return a->from < b->from ? -1 : a->from > b->from;
}

static bool overlap(const struct placed *a, const struct placed *b) {
    return a->start < b->end && b->start < a->end && a->from < b->to && b->from < a->to;
}

/* Those that stay are all live at the end, so none may reach beyond the next one's address; the
 * others are compared with all. */
static void check_large_packing(struct placed *placed, size_t count) {
    uint64_t top = 0;
    qsort(placed, count, sizeof *placed, compare_placed);
    for (size_t i = 0; i < count; i++) {
        if (placed[i].end == SIZE_MAX) {
            assert_true(placed[i].from >= top);
            top = placed[i].to;
            continue;
        }
        for (size_t j = 0; j < count; j++)
            if (j != i && overlap(&placed[i], &placed[j]))
                fail_msg("blocks at %zu and %zu overlap", placed[i].start, placed[j].start);
    }
}

enum { PASSING = 2000 };

/* Adds blocks that stay, then PASSING ones that are freed in random order. */
static void add_many(struct trace *trace, struct placed *placed, size_t blocks) {
    size_t live[PASSING], count = 0;
    for (size_t i = 0; i < blocks; i++) {
        uint64_t size = 1 + random_below(1000);
        placed[i] = (struct placed){.to = size, .start = trace->event_count, .end = SIZE_MAX};
        add_alloc(trace, 0, size);
        if (i >= blocks - PASSING)
            live[count++] = i;
        while (count && (i + 1 == blocks || random_below(2))) {
            size_t which = random_below(count);
            placed[live[which]].end = trace->event_count;
            add_free(trace, 0, (uint32_t)live[which]);
            live[which] = live[--count];
        }
    }
}

static void check_many_blocks(size_t blocks, bool rough, uint64_t percent) {
    struct trace *trace = new_trace();
    struct placed *placed = calloc(blocks, sizeof *placed);
    uint64_t *addresses = calloc(blocks, sizeof *addresses);
    struct bounds bounds;
    assert_true(placed && addresses);
    seed = 4;
    add_many(trace, placed, blocks);
    assert_true(bounds_of(trace, 0, 1, &bounds, addresses));
    for (size_t i = 0; i < blocks; i++) {
        placed[i].from = addresses[i];
        placed[i].to += addresses[i];
        assert_true(placed[i].to <= bounds.packed_bytes);
    }
    check_large_packing(placed, blocks);
    assert_true(bounds.rough == rough);
    assert_in_range(bounds.packed_bytes, bounds.live_bytes, bounds.live_bytes * percent / 100);
    assert_in_range(fewest_whole(trace, bounds.live_bytes), bounds.live_blocks, blocks);
    free(placed);
    free(addresses);
    trace_free(trace);
}

static void many_blocks_are_packed(void **state) {
    (void)state;
    check_many_blocks(5000, false, 101);
}

/* With all large blocks in the core, and too many pairs for a packing in order of time: the small
 * ones lie on top of what is below them. */
static void very_many_live_blocks_are_packed_roughly(void **state) {
    (void)state;
    check_many_blocks(12000, true, 105);
    check_many_blocks(47500, true, 105);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_optimum_lies_between_the_bounds),
        cmocka_unit_test(no_allocator_that_reuses_whole_blocks_has_fewer_allocations),
        cmocka_unit_test(devices_are_bounded_each_and_together),
        cmocka_unit_test(a_trace_without_blocks_needs_nothing),
        cmocka_unit_test(a_packing_knows_the_future),
        cmocka_unit_test(a_packing_counts_in_granules),
        cmocka_unit_test(a_tight_cap_forces_allocations_anew),
        cmocka_unit_test(less_than_is_live_cannot_be_held),
        cmocka_unit_test(devices_peak_at_their_own_time),
        cmocka_unit_test(sizes_beyond_what_can_be_added_are_not_packed),
        cmocka_unit_test(many_blocks_are_packed),
        cmocka_unit_test(very_many_live_blocks_are_packed_roughly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
