/* Limits that no allocator beats: what is live at once, a packing, driver allocations. */
#include "trace/bounds.h"

#include "trace/packing.h"

#include <assert.h>
#include <string.h>

/* Work is bounded by counts, not by a clock: the same trace always has the same bounds. */
enum {
    ENTRIES_AT_MOST = 2 << 20, /* of requests in the moments that the relaxation compares */
    NEAR_MOMENTS = 8           /* that each moment is compared with, apart from powers of two */
};

static bool bounds_of_one(const struct trace *trace, uint32_t device, uint64_t granule,
                          struct bounds *bounds, uint64_t *addresses) {
    struct lives lives;
    if (!lives_get(trace, device, &lives))
        return false;
    *bounds = (struct bounds){.live_bytes = lives.peak_bytes, .live_blocks = lives.peak_count};
    bool done = packing_find(&lives, granule, bounds, addresses);
    lives_free(&lives);
    return done;
}

static void add_bounds(struct bounds *sum, const struct bounds *one) {
    sum->live_blocks += one->live_blocks;
    sum->packed = sum->packed && one->packed && sum->packed_bytes < UINT64_MAX - one->packed_bytes;
    sum->packed_bytes = sum->packed ? sum->packed_bytes + one->packed_bytes : UINT64_MAX;
    sum->rough = sum->rough || one->rough;
}

bool bounds_of(const struct trace *trace, uint32_t device, uint64_t granule, struct bounds *bounds,
               uint64_t *addresses) {
    assert(granule && (granule & (granule - 1)) == 0);
    if (device != BOUNDS_ALL_DEVICES)
        return bounds_of_one(trace, device, granule, bounds, addresses);
    *bounds = (struct bounds){.live_bytes = trace->peak_live_bytes, .packed = true};
    for (uint32_t d = 0; d < trace->device_count; d++) {
        struct bounds one;
        if (!bounds_of_one(trace, d, granule, &one, addresses))
            return false;
        add_bounds(bounds, &one);
    }
    return true;
}

/* A moment that the relaxation looks at, with what is live then. */
struct sample {
    const uint32_t *live; /* ranks, ascending */
    size_t count;
    uint64_t bytes;
    uint64_t fewest; /* driver allocations up to here */
};

/* The relaxation: ranks number lives by size, so that sets of them stay sorted by it. */
struct relaxation {
    const struct lives *lives;
    uint64_t held;
    uint64_t *size;    /* by rank */
    uint32_t *rank;    /* by life */
    uint64_t *is_live; /* a bit for each rank */
    size_t *moment;    /* of the samples */
    struct sample *samples;
    size_t count;
    uint32_t *entries;
    size_t entry_count;
    uint64_t *before, *after, *cost; /* scratch: sizes, ascending; as many as lives */
};

static int compare_sizes(const void *left, const void *right) {
    const uint64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

static int compare_lives(const void *left, const void *right) {
    const struct life *a = left, *b = right;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return a->start < b->start ? -1 : a->start > b->start;
}

static bool rank_lives(struct relaxation *relaxation) {
    const struct lives *lives = relaxation->lives;
    struct life *sorted = zeroed_array(lives->count, sizeof *sorted);
    if (!sorted)
        return false;
    memcpy(sorted, lives->life, lives->count * sizeof *sorted);
    qsort(sorted, lives->count, sizeof *sorted, compare_lives);
    for (size_t r = 0; r < lives->count; r++) {
        relaxation->size[r] = sorted[r].size;
        relaxation->rank[lives->changed[sorted[r].start]] = (uint32_t)r;
    }
    free(sorted);
    return true;
}

/* Whether something is freed from the moment on: what is live then includes all since the last
 * free, and so says more than the moments before. */
static bool is_top(const struct lives *lives, size_t moment) {
    return lives_start_at(lives, moment) &&
           (moment + 1 == lives->moments || !lives_start_at(lives, moment + 1));
}

static size_t count_top_entries(const struct lives *lives) {
    size_t live = 0, entries = 0;
    for (size_t m = 0; m < lives->moments; m++) {
        live += lives_start_at(lives, m) ? 1 : (size_t)-1;
        if (is_top(lives, m))
            entries += live;
    }
    return entries;
}

/* Chooses, of every so many tops, the one with the most bytes: little room for idle blocks is what
 * forces driver allocations. Any choice is sound. */
static void choose_samples(struct relaxation *relaxation) {
    const struct lives *lives = relaxation->lives;
    size_t each = count_top_entries(lives) / ENTRIES_AT_MOST + 1, tops = 0, live = 0;
    uint64_t bytes = 0;
    for (size_t m = 0; m < lives->moments; m++) {
        uint64_t size = lives->life[lives->changed[m]].size;
        bytes += lives_start_at(lives, m) ? size : -size;
        live += lives_start_at(lives, m) ? 1 : (size_t)-1;
        if (!is_top(lives, m))
            continue;
        size_t n = tops++ / each;
        if (n < relaxation->count && bytes <= relaxation->samples[n].bytes)
            continue;
        relaxation->count = n + 1;
        relaxation->moment[n] = m;
        relaxation->samples[n] = (struct sample){NULL, live, bytes, 0};
    }
    for (size_t n = 0; n < relaxation->count; n++)
        relaxation->entry_count += relaxation->samples[n].count;
}

static void list_live(const struct relaxation *relaxation, uint32_t *entry) {
    for (size_t word = 0; word <= relaxation->lives->count / 64; word++)
        for (uint64_t bits = relaxation->is_live[word]; bits; bits &= bits - 1)
            *entry++ = (uint32_t)(64 * word + (size_t)__builtin_ctzll(bits));
}

static void fill_samples(struct relaxation *relaxation) {
    size_t n = 0;
    uint32_t *entry = relaxation->entries;
    for (size_t m = 0; m < relaxation->lives->moments && n < relaxation->count; m++) {
        uint32_t rank = relaxation->rank[relaxation->lives->changed[m]];
        relaxation->is_live[rank / 64] ^= (uint64_t)1 << rank % 64;
        if (relaxation->moment[n] != m)
            continue;
        list_live(relaxation, entry);
        relaxation->samples[n].live = entry;
        entry += relaxation->samples[n++].count;
    }
}

/* Lists the sizes of what is live in `one` and not in `other`, ascending. Returns how many. */
static size_t only_in(const struct relaxation *relaxation, const struct sample *one,
                      const struct sample *other, uint64_t *sizes) {
    size_t count = 0;
    for (size_t i = 0, j = 0; i < one->count; i++) {
        while (j < other->count && other->live[j] < one->live[i])
            j++;
        if (j == other->count || other->live[j] != one->live[i])
            sizes[count++] = relaxation->size[one->live[i]];
    }
    return count;
}

/* Whether the `kept` smallest of `after` fit into blocks that are there before, by what they add to
 * the requests of then: putting largest to largest is the cheapest way. */
static bool fit_before(const struct relaxation *relaxation, size_t before_count, size_t kept,
                       uint64_t room) {
    for (size_t i = 0; i < kept; i++) {
        uint64_t after = relaxation->after[kept - 1 - i];
        uint64_t before = i < before_count ? relaxation->before[before_count - 1 - i] : 0;
        if (after <= before)
            continue;
        if (after - before > room)
            return false;
        room -= after - before;
    }
    return true;
}

static size_t most_fit_before(const struct relaxation *relaxation, size_t before_count,
                              size_t after_count, uint64_t room) {
    size_t low = 0, high = after_count;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (fit_before(relaxation, before_count, middle, room))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static uint64_t at_most_sum(uint64_t a, uint64_t b) {
    return a + b < a ? UINT64_MAX : a + b;
}

/* The cost when a request of `after` bytes takes the block of a request of `smaller` bytes (0: an
 * idle one) or of `larger_one` bytes (0: there is none), whichever is cheaper; a block that alone
 * passes the room at one of the moments is out of the question. */
static uint64_t least_cost(uint64_t after, uint64_t smaller, uint64_t larger_one, uint64_t room1,
                           uint64_t room2, unsigned shift) {
    uint64_t growth = after - smaller, waste = larger_one - after;
    if (growth > room1)
        growth = UINT64_MAX;
    waste = larger_one == 0 || waste > room2 ? UINT64_MAX : waste >> shift;
    return growth < waste ? growth : waste;
}

/* How many of `after` fit if what a block is larger than its request afterwards counts, too, with
 * weight 2^-shift, and each takes the block that is cheapest for it, though another has it. */
static size_t most_fit_both(const struct relaxation *relaxation, size_t before_count,
                            size_t after_count, uint64_t room1, uint64_t room2, unsigned shift) {
    const uint64_t *before = relaxation->before;
    uint64_t room = at_most_sum(room1, room2 >> shift);
    size_t next = 0, fit = 0;
    for (size_t i = 0; i < after_count; i++) {
        uint64_t after = relaxation->after[i];
        while (next < before_count && before[next] < after)
            next++;
        relaxation->cost[i] =
            least_cost(after, next ? before[next - 1] : 0, next < before_count ? before[next] : 0,
                       room1, room2, shift);
    }
    qsort(relaxation->cost, after_count, sizeof *relaxation->cost, compare_sizes);
    for (; fit < after_count && relaxation->cost[fit] <= room; fit++) {
        if (relaxation->cost[fit] == UINT64_MAX)
            break;
        room -= relaxation->cost[fit];
    }
    return fit;
}

/* Driver allocations that must be made after moment t1 up to t2.
 *
 * Let N be the requests live at t2 and not at t1; those live at both keep their blocks. A request
 * of N is served at t2 by a block made since t1, or by one, of size z, that was held at t1: for a
 * request of a bytes that is gone by t2, or idle (a = 0). For a request of b bytes, z is at least
 * max(a, b). With L1, L2 the bytes live at t1 and t2, and sums over the requests of N whose blocks
 * are old, what is held
 *     at t1 is at least  L1 + sum max(0, b - a)  and at most `held`,    (1)
 *     at t2 is at least  L2 + sum max(0, a - b)  and at most `held`,    (2)
 * where different b have different a, or none. The most old blocks that (1) allows, and the most
 * that (1) + (2) * 2^-shift allows, even with one a for many b, are at least as many as there are;
 * and no term of (1) or (2) alone may pass the room there is, `held` less L1 or L2. Every other
 * request of N has had its own driver allocation since t1. */
static size_t new_between(const struct relaxation *relaxation, const struct sample *t1,
                          const struct sample *t2) {
    static const unsigned shifts[] = {0, 3};
    uint64_t room1 = relaxation->held - t1->bytes, room2 = relaxation->held - t2->bytes;
    size_t before_count = only_in(relaxation, t1, t2, relaxation->before);
    size_t after_count = only_in(relaxation, t2, t1, relaxation->after);
    size_t old = most_fit_before(relaxation, before_count, after_count, room1);
    for (size_t i = 0; i < sizeof shifts / sizeof shifts[0]; i++) {
        size_t fit = most_fit_both(relaxation, before_count, after_count, room1, room2, shifts[i]);
        old = fit < old ? fit : old;
    }
    return after_count - old;
}

/* Finds the most that two rules prove. Up to moment t at least as many driver allocations are made
 * as requests are live at t; and for each earlier t1, as many as up to t1 and those between: they
 * are different ones. */
static uint64_t fewest_of_samples(struct relaxation *relaxation) {
    uint64_t fewest = relaxation->lives->peak_count;
    for (size_t n = 0; n < relaxation->count; n++) {
        struct sample *sample = &relaxation->samples[n];
        sample->fewest = sample->count;
        for (size_t back = 1; back <= n; back = back < NEAR_MOMENTS ? back + 1 : 2 * back) {
            const struct sample *t1 = &relaxation->samples[n - back];
            sample->fewest =
                larger(sample->fewest, t1->fewest + new_between(relaxation, t1, sample));
        }
        fewest = larger(fewest, sample->fewest);
    }
    return fewest;
}

static bool make_relaxation(struct relaxation *relaxation) {
    size_t count = relaxation->lives->count;
    relaxation->size = zeroed_array(count, sizeof *relaxation->size);
    relaxation->rank = zeroed_array(count, sizeof *relaxation->rank);
    relaxation->is_live = zeroed_array(count / 64 + 1, sizeof *relaxation->is_live);
    relaxation->moment = zeroed_array(count, sizeof *relaxation->moment);
    relaxation->samples = zeroed_array(count, sizeof *relaxation->samples);
    relaxation->before = zeroed_array(count, sizeof *relaxation->before);
    relaxation->after = zeroed_array(count, sizeof *relaxation->after);
    relaxation->cost = zeroed_array(count, sizeof *relaxation->cost);
    if (!relaxation->size || !relaxation->rank || !relaxation->is_live || !relaxation->moment ||
        !relaxation->samples || !relaxation->before || !relaxation->after || !relaxation->cost ||
        !rank_lives(relaxation))
        return false;
    choose_samples(relaxation);
    relaxation->entries = zeroed_array(relaxation->entry_count, sizeof *relaxation->entries);
    if (!relaxation->entries)
        return false;
    fill_samples(relaxation);
    return true;
}

static void forget_relaxation(struct relaxation *relaxation) {
    free(relaxation->size);
    free(relaxation->rank);
    free(relaxation->is_live);
    free(relaxation->moment);
    free(relaxation->samples);
    free(relaxation->before);
    free(relaxation->after);
    free(relaxation->cost);
    free(relaxation->entries);
}

static enum bounds_answer whole_of_lives(const struct lives *lives, uint64_t held,
                                         uint64_t *allocations) {
    struct relaxation relaxation = {.lives = lives, .held = held};
    if (held < lives->peak_bytes)
        return BOUNDS_IMPOSSIBLE;
    bool made = make_relaxation(&relaxation);
    if (made)
        *allocations = fewest_of_samples(&relaxation);
    forget_relaxation(&relaxation);
    return made ? BOUNDS_FOUND : BOUNDS_NO_MEMORY;
}

/* Proves 0 or 1: no more than one is proven necessary, whatever is held. */
static enum bounds_answer cut_of_lives(const struct lives *lives, uint64_t held,
                                       uint64_t *allocations) {
    if (held < lives->peak_bytes)
        return BOUNDS_IMPOSSIBLE;
    *allocations = lives->count > 0;
    return BOUNDS_FOUND;
}

typedef enum bounds_answer fewest_of_lives(const struct lives *lives, uint64_t held,
                                           uint64_t *allocations);

static enum bounds_answer fewest_on_one(const struct trace *trace, uint32_t device, uint64_t held,
                                        fewest_of_lives *fewest, uint64_t *allocations) {
    struct lives lives;
    if (!lives_get(trace, device, &lives))
        return BOUNDS_NO_MEMORY;
    enum bounds_answer answer = fewest(&lives, held, allocations);
    lives_free(&lives);
    return answer;
}

/* A block lies on one device, and what one holds all hold together: the sum of what each needs, if
 * it might hold `held` alone, is needed. */
static enum bounds_answer fewest_on(const struct trace *trace, uint32_t device, uint64_t held,
                                    fewest_of_lives *fewest, uint64_t *allocations) {
    if (device != BOUNDS_ALL_DEVICES)
        return fewest_on_one(trace, device, held, fewest, allocations);
    if (held < trace->peak_live_bytes)
        return BOUNDS_IMPOSSIBLE;
    *allocations = 0;
    for (uint32_t d = 0; d < trace->device_count; d++) {
        uint64_t one = 0;
        enum bounds_answer answer = fewest_on_one(trace, d, held, fewest, &one);
        if (answer != BOUNDS_FOUND)
            return answer;
        *allocations += one;
    }
    return BOUNDS_FOUND;
}

enum bounds_answer bounds_fewest_whole(const struct trace *trace, uint32_t device, uint64_t held,
                                       uint64_t *allocations) {
    return fewest_on(trace, device, held, whole_of_lives, allocations);
}

enum bounds_answer bounds_fewest_cut(const struct trace *trace, uint32_t device, uint64_t held,
                                     uint64_t *allocations) {
    return fewest_on(trace, device, held, cut_of_lives, allocations);
}
