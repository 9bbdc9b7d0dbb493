/* Limits that no allocator beats: what is live at once, a packing, driver allocations. */
#include "trace/bounds.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Work is bounded by counts, not by a clock: the same trace always has the same bounds. */
enum {
    PAIRS_AT_MOST = 16 << 20,  /* of blocks live together, that a packing looks at */
    PAIRS_IN_ALL = 20 << 20,   /* by all attempts at it */
    PAIRS_IN_TIME = 1 << 30,   /* by one in order of time, where a look is quick */
    ENTRIES_AT_MOST = 2 << 20, /* of requests in the moments that the relaxation compares */
    NEAR_MOMENTS = 8           /* that each moment is compared with, apart from powers of two */
};

/* A request's life: live from moment `start` to before `end`. Moment m is the state after the
 * device's m-th ALLOC or FREE. */
struct life {
    uint64_t size;
    size_t start, end;
    size_t block; /* its number in the trace */
};

/* The lives of one device, in order of start. */
struct lives {
    struct life *life;
    size_t *changed; /* by moment: whose start or end it is */
    size_t count, moments;
    uint64_t peak_bytes;
    size_t peak_count;
};

static bool of_device(const struct trace_event *event, uint32_t device) {
    return (event->op == TRACE_ALLOC || event->op == TRACE_FREE) &&
           (device == BOUNDS_ALL_DEVICES || event->device == device);
}

static void *array(size_t count, size_t size) {
    return calloc(count ? count : 1, size);
}

static void forget_lives(struct lives *lives) {
    free(lives->life);
    free(lives->changed);
}

static bool starts(const struct lives *lives, size_t moment) {
    return lives->life[lives->changed[moment]].start == moment;
}

static void note_peaks(struct lives *lives) {
    uint64_t bytes = 0;
    size_t count = 0;
    for (size_t m = 0; m < lives->moments; m++) {
        uint64_t size = lives->life[lives->changed[m]].size;
        bytes += starts(lives, m) ? size : -size;
        count += starts(lives, m) ? 1 : (size_t)-1;
        if (bytes > lives->peak_bytes)
            lives->peak_bytes = bytes;
        if (count > lives->peak_count)
            lives->peak_count = count;
    }
}

static void note_event(struct lives *lives, const struct trace_event *event, size_t *by_block) {
    size_t moment = lives->moments++;
    if (event->op == TRACE_ALLOC) {
        by_block[event->block] = lives->count;
        lives->life[lives->count++] = (struct life){event->value, moment, SIZE_MAX, event->block};
    } else {
        lives->life[by_block[event->block]].end = moment;
    }
    lives->changed[moment] = by_block[event->block];
}

static bool get_lives(const struct trace *trace, uint32_t device, struct lives *lives) {
    size_t *by_block = array(trace->block_count, sizeof *by_block);
    size_t moments = 0;
    for (size_t i = 0; i < trace->event_count; i++)
        moments += of_device(&trace->events[i], device);
    *lives = (struct lives){.life = array(moments, sizeof *lives->life),
                            .changed = array(moments, sizeof *lives->changed)};
    bool done = by_block && lives->life && lives->changed;
    for (size_t i = 0; done && i < trace->event_count; i++)
        if (of_device(&trace->events[i], device))
            note_event(lives, &trace->events[i], by_block);
    for (size_t i = 0; i < lives->count; i++)
        if (lives->life[i].end == SIZE_MAX)
            lives->life[i].end = lives->moments;
    if (done)
        note_peaks(lives);
    else
        forget_lives(lives);
    free(by_block);
    return done;
}

/* For each moment the top of what lies there: a tree over moments, whose leaf m is node
 * `leaves` + m. */
struct skyline {
    size_t leaves;
    uint64_t *top;    /* highest below the node */
    uint64_t *raised; /* what all moments below the node are at least */
};

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static void raise_node(struct skyline *skyline, size_t node, uint64_t top) {
    skyline->top[node] = larger(skyline->top[node], top);
    skyline->raised[node] = larger(skyline->raised[node], top);
}

static void update_above(struct skyline *skyline, size_t node) {
    while (node /= 2)
        skyline->top[node] = larger(larger(skyline->top[2 * node], skyline->top[2 * node + 1]),
                                    skyline->raised[node]);
}

static void raise_to(struct skyline *skyline, size_t start, size_t end, uint64_t top) {
    size_t left = skyline->leaves + start, right = skyline->leaves + end;
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1)
            raise_node(skyline, left++, top);
        if (right & 1)
            raise_node(skyline, --right, top);
    }
    update_above(skyline, skyline->leaves + start);
    update_above(skyline, skyline->leaves + end - 1);
}

static uint64_t raised_above(const struct skyline *skyline, size_t node) {
    uint64_t top = 0;
    while (node /= 2)
        top = larger(top, skyline->raised[node]);
    return top;
}

static uint64_t highest(const struct skyline *skyline, size_t start, size_t end) {
    size_t left = skyline->leaves + start, right = skyline->leaves + end;
    uint64_t top = larger(raised_above(skyline, left), raised_above(skyline, right - 1));
    for (; left < right; left /= 2, right /= 2) {
        if (left & 1)
            top = larger(top, skyline->top[left++]);
        if (right & 1)
            top = larger(top, skyline->top[--right]);
    }
    return top;
}

struct ranked {
    double key;
    size_t index;
};

struct extent {
    uint64_t from, to;
};

/* A packing that is being made. Its core, all blocks of at least a certain size, is packed with a
 * look at each block's neighbours: those of the core live at some moment of its life. */
struct packing {
    const struct lives *lives;
    uint64_t granule;
    uint64_t *address, *best; /* by life; address: UINT64_MAX before it is placed */
    uint64_t best_height;
    uint64_t core_size;        /* the smallest in the core */
    uint64_t pairs, all_pairs; /* in the core, and altogether */
    uint32_t *earlier;         /* of each life's neighbours those that started earlier, */
    size_t *first;             /* from here to the next life's first */
    struct extent *heap;
    struct ranked *order;
    struct skyline skyline;
};

static uint64_t rounded(const struct packing *packing, size_t life) {
    uint64_t mask = packing->granule - 1;
    return (packing->lives->life[life].size + mask) & ~mask;
}

static uint64_t place(struct packing *packing, size_t life, uint64_t address) {
    packing->address[life] = address;
    return address + rounded(packing, life);
}

static bool in_core(const struct packing *packing, size_t life) {
    return packing->lives->life[life].size >= packing->core_size;
}

/* The number of pairs of blocks of at least `size` bytes that are live at one time. */
static uint64_t count_pairs(const struct lives *lives, uint64_t size) {
    uint64_t pairs = 0, live = 0;
    for (size_t m = 0; m < lives->moments; m++) {
        if (lives->life[lives->changed[m]].size < size)
            continue;
        if (starts(lives, m))
            pairs += live++;
        else
            live--;
    }
    return pairs;
}

static void choose_core(struct packing *packing) {
    uint64_t low = 1, high = UINT64_MAX; /* few enough pairs from `high` on */
    packing->all_pairs = count_pairs(packing->lives, low);
    if (packing->all_pairs <= PAIRS_AT_MOST)
        high = low;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (count_pairs(packing->lives, middle) <= PAIRS_AT_MOST)
            high = middle;
        else
            low = middle + 1;
    }
    packing->core_size = high;
    packing->pairs = count_pairs(packing->lives, high);
}

/* Fills in `earlier`. live, where: room for the lives. */
static void list_earlier(struct packing *packing, uint32_t *live, size_t *where) {
    const struct lives *lives = packing->lives;
    size_t count = 0, filled = 0;
    for (size_t m = 0; m < lives->moments; m++) {
        size_t life = lives->changed[m];
        if (starts(lives, m))
            packing->first[life] = filled;
        if (!in_core(packing, life))
            continue;
        if (starts(lives, m)) {
            memcpy(packing->earlier + filled, live, count * sizeof *live);
            filled += count;
            where[life] = count;
            live[count++] = (uint32_t)life;
        } else {
            live[where[life]] = live[--count];
            where[live[count]] = where[life];
        }
    }
    packing->first[lives->count] = filled;
}

static void sink(struct extent *heap, size_t count, size_t node) {
    struct extent moved = heap[node];
    for (size_t child; (child = 2 * node + 1) < count; node = child) {
        if (child + 1 < count && heap[child + 1].from < heap[child].from)
            child++;
        if (moved.from <= heap[child].from)
            break;
        heap[node] = heap[child];
    }
    heap[node] = moved;
}

static size_t add_if_placed(struct packing *packing, size_t count, size_t life) {
    uint64_t address = packing->address[life];
    if (address != UINT64_MAX)
        packing->heap[count++] = (struct extent){address, address + rounded(packing, life)};
    return count;
}

/* Makes a heap, lowest first, of the life's neighbours that have their place. Returns how many. */
static size_t heap_neighbours(struct packing *packing, size_t life) {
    const struct lives *lives = packing->lives;
    size_t count = 0;
    for (size_t i = packing->first[life]; i < packing->first[life + 1]; i++)
        count = add_if_placed(packing, count, packing->earlier[i]);
    for (size_t i = life + 1; i < lives->count && lives->life[i].start < lives->life[life].end; i++)
        if (in_core(packing, i))
            count = add_if_placed(packing, count, i);
    for (size_t node = count / 2; node-- > 0;)
        sink(packing->heap, count, node);
    return count;
}

/* The lowest gap between neighbours that is large enough. */
static uint64_t find_gap(struct packing *packing, size_t life) {
    uint64_t size = rounded(packing, life), top = 0;
    size_t count = heap_neighbours(packing, life);
    while (count) {
        struct extent next = packing->heap[0];
        if (next.from > top && next.from - top >= size)
            break;
        top = larger(top, next.to);
        packing->heap[0] = packing->heap[--count];
        sink(packing->heap, count, 0);
    }
    return top;
}

/* The place among `count` extents, ascending, before which the tightest gap for `size` is; the end
 * if none is large enough. */
static size_t tightest_gap(const struct extent *live, size_t count, uint64_t size) {
    uint64_t top = 0, least = UINT64_MAX;
    size_t found = count;
    for (size_t i = 0; i < count; i++) {
        uint64_t gap = live[i].from - top;
        if (gap >= size && gap < least) {
            least = gap;
            found = i;
        }
        top = live[i].to;
    }
    return found;
}

static size_t place_of(const struct extent *live, size_t count, uint64_t address) {
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (live[middle].from < address)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Places all blocks in order of time: what is live, by address, is all there is to look at. */
static uint64_t place_in_time(struct packing *packing) {
    const struct lives *lives = packing->lives;
    struct extent *live = packing->heap;
    uint64_t height = 0;
    size_t count = 0;
    for (size_t m = 0; m < lives->moments; m++) {
        size_t life = lives->changed[m];
        if (!starts(lives, m)) {
            size_t i = place_of(live, count--, packing->address[life]);
            memmove(live + i, live + i + 1, (count - i) * sizeof *live);
            continue;
        }
        size_t i = tightest_gap(live, count, rounded(packing, life));
        uint64_t top = place(packing, life, i ? live[i - 1].to : 0);
        memmove(live + i + 1, live + i, (count++ - i) * sizeof *live);
        live[i] = (struct extent){packing->address[life], top};
        height = larger(height, top);
    }
    return height;
}

/* The orders in which blocks are placed. None is best for all traces; by size often is. */
enum order { BY_SIZE, BY_AREA, BY_LENGTH, ORDERS };

static double order_key(const struct life *life, enum order order) {
    double length = (double)(life->end - life->start);
    switch (order) {
    case BY_AREA:
        return length * (double)life->size;
    case BY_LENGTH:
        return length;
    default:
        return (double)life->size;
    }
}

static int compare_ranked(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void put_in_order(struct packing *packing, enum order order) {
    const struct lives *lives = packing->lives;
    for (size_t i = 0; i < lives->count; i++)
        packing->order[i] = (struct ranked){order_key(&lives->life[i], order), i};
    qsort(packing->order, lives->count, sizeof *packing->order, compare_ranked);
}

static uint64_t place_core(struct packing *packing, enum order order) {
    uint64_t height = 0;
    put_in_order(packing, order);
    for (size_t i = 0; i < packing->lives->count; i++) {
        size_t life = packing->order[i].index;
        if (in_core(packing, life))
            height = larger(height, place(packing, life, find_gap(packing, life)));
    }
    return height;
}

/* The blocks outside the core go on top of all that is there in their life, the long-lived first.
 */
static uint64_t place_rest(struct packing *packing) {
    const struct lives *lives = packing->lives;
    struct skyline *skyline = &packing->skyline;
    uint64_t height = 0;
    memset(skyline->top, 0, 2 * skyline->leaves * sizeof *skyline->top);
    memset(skyline->raised, 0, 2 * skyline->leaves * sizeof *skyline->raised);
    for (size_t i = 0; i < lives->count; i++)
        if (in_core(packing, i))
            raise_to(skyline, lives->life[i].start, lives->life[i].end,
                     packing->address[i] + rounded(packing, i));
    put_in_order(packing, BY_LENGTH);
    for (size_t i = 0; i < lives->count; i++) {
        size_t life = packing->order[i].index;
        size_t start = lives->life[life].start, end = lives->life[life].end;
        if (in_core(packing, life))
            continue;
        uint64_t top = place(packing, life, highest(skyline, start, end));
        raise_to(skyline, start, end, top);
        height = larger(height, top);
    }
    return height;
}

static void keep_if_best(struct packing *packing, uint64_t height) {
    if (height < packing->best_height) {
        packing->best_height = height;
        memcpy(packing->best, packing->address, packing->lives->count * sizeof *packing->best);
    }
}

static void pack_in(struct packing *packing, enum order order) {
    memset(packing->address, 0xff, packing->lives->count * sizeof *packing->address);
    uint64_t height = place_core(packing, order);
    if (packing->core_size > 1)
        height = larger(height, place_rest(packing));
    keep_if_best(packing, height);
}

/* What is live at most, in granules: no packing is lower, so there is no use in trying on. */
static uint64_t least_height(const struct packing *packing) {
    uint64_t live = 0, peak = 0;
    for (size_t m = 0; m < packing->lives->moments; m++) {
        uint64_t size = rounded(packing, packing->lives->changed[m]);
        live += starts(packing->lives, m) ? size : -size;
        peak = larger(peak, live);
    }
    return peak;
}

/* No address passes the sum of all sizes, as every gap that is filled is below some block. */
static bool sum_fits(const struct packing *packing) {
    uint64_t sum = 0;
    for (size_t i = 0; i < packing->lives->count; i++) {
        uint64_t size = rounded(packing, i);
        if (size < packing->lives->life[i].size || sum + size < sum)
            return false;
        sum += size;
    }
    return sum < UINT64_MAX;
}

static bool prepare(struct packing *packing) {
    size_t count = packing->lives->count, moments = packing->lives->moments;
    choose_core(packing);
    packing->best_height = UINT64_MAX;
    packing->address = array(count, sizeof *packing->address);
    packing->best = array(count, sizeof *packing->best);
    packing->first = array(count + 1, sizeof *packing->first);
    packing->earlier = array(packing->pairs, sizeof *packing->earlier);
    packing->heap = array(count, sizeof *packing->heap);
    packing->order = array(count, sizeof *packing->order);
    packing->skyline.leaves = moments ? moments : 1;
    packing->skyline.top = array(2 * packing->skyline.leaves, sizeof(uint64_t));
    packing->skyline.raised = array(2 * packing->skyline.leaves, sizeof(uint64_t));
    uint32_t *live = array(count, sizeof *live);
    size_t *where = array(count, sizeof *where);
    bool done = packing->address && packing->best && packing->first && packing->earlier &&
                packing->heap && packing->order && packing->skyline.top &&
                packing->skyline.raised && live && where;
    if (done)
        list_earlier(packing, live, where);
    free(live);
    free(where);
    return done;
}

static void forget_packing(struct packing *packing) {
    free(packing->address);
    free(packing->best);
    free(packing->first);
    free(packing->earlier);
    free(packing->heap);
    free(packing->order);
    free(packing->skyline.top);
    free(packing->skyline.raised);
}

static void pack_in_all_orders(struct packing *packing) {
    uint64_t least = least_height(packing), looked_at = 0;
    if (packing->all_pairs <= PAIRS_IN_TIME)
        keep_if_best(packing, place_in_time(packing));
    for (enum order order = 0; order < ORDERS && packing->best_height > least; order++) {
        if (order > 0 && looked_at + packing->pairs > PAIRS_IN_ALL)
            break;
        looked_at += packing->pairs;
        pack_in(packing, order);
    }
}

static bool pack(const struct lives *lives, uint64_t granule, struct bounds *bounds,
                 uint64_t *addresses) {
    struct packing packing = {.lives = lives, .granule = granule};
    bounds->packed = sum_fits(&packing);
    bounds->packed_bytes = UINT64_MAX;
    if (!bounds->packed)
        return true;
    bool done = prepare(&packing);
    if (done) {
        pack_in_all_orders(&packing);
        bounds->packed_bytes = packing.best_height;
        bounds->rough = packing.core_size > 1;
        for (size_t i = 0; addresses && i < lives->count; i++)
            addresses[lives->life[i].block] = packing.best[i];
    }
    forget_packing(&packing);
    return done;
}

static bool bounds_of_one(const struct trace *trace, uint32_t device, uint64_t granule,
                          struct bounds *bounds, uint64_t *addresses) {
    struct lives lives;
    if (!get_lives(trace, device, &lives))
        return false;
    *bounds = (struct bounds){.live_bytes = lives.peak_bytes, .live_blocks = lives.peak_count};
    bool done = pack(&lives, granule, bounds, addresses);
    forget_lives(&lives);
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

/* A moment that the relaxation looks at: what is live. */
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
    struct life *sorted = array(lives->count, sizeof *sorted);
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

/* Only moments from which on something is freed: what is live then includes all since the last
 * free, and so says more than the moments before. */
static bool is_top(const struct lives *lives, size_t moment) {
    return starts(lives, moment) && (moment + 1 == lives->moments || !starts(lives, moment + 1));
}

static size_t count_top_entries(const struct lives *lives) {
    size_t live = 0, entries = 0;
    for (size_t m = 0; m < lives->moments; m++) {
        live += starts(lives, m) ? 1 : (size_t)-1;
        if (is_top(lives, m))
            entries += live;
    }
    return entries;
}

/* Of every so many tops the one with the most bytes: little room for idle blocks is what forces
 * driver allocations. Any choice is sound. */
static void choose_samples(struct relaxation *relaxation) {
    const struct lives *lives = relaxation->lives;
    size_t each = count_top_entries(lives) / ENTRIES_AT_MOST + 1, tops = 0, live = 0;
    uint64_t bytes = 0;
    for (size_t m = 0; m < lives->moments; m++) {
        uint64_t size = lives->life[lives->changed[m]].size;
        bytes += starts(lives, m) ? size : -size;
        live += starts(lives, m) ? 1 : (size_t)-1;
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
 * the requests of then: largest to largest is the cheapest way. */
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

/* What it costs that a request of `after` bytes takes the block of a request of `smaller` bytes (0:
 * an idle one) or of `larger_one` bytes (0: there is none), whichever is cheaper; a block
 * that alone passes the room at one of the moments is out of the question. */
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

/* Up to moment t at least as many driver allocations as requests are live at t; and for each
 * earlier t1, as many as up to t1 and those between: they are different ones. */
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
    relaxation->size = array(count, sizeof *relaxation->size);
    relaxation->rank = array(count, sizeof *relaxation->rank);
    relaxation->is_live = array(count / 64 + 1, sizeof *relaxation->is_live);
    relaxation->moment = array(count, sizeof *relaxation->moment);
    relaxation->samples = array(count, sizeof *relaxation->samples);
    relaxation->before = array(count, sizeof *relaxation->before);
    relaxation->after = array(count, sizeof *relaxation->after);
    relaxation->cost = array(count, sizeof *relaxation->cost);
    if (!relaxation->size || !relaxation->rank || !relaxation->is_live || !relaxation->moment ||
        !relaxation->samples || !relaxation->before || !relaxation->after || !relaxation->cost ||
        !rank_lives(relaxation))
        return false;
    choose_samples(relaxation);
    relaxation->entries = array(relaxation->entry_count, sizeof *relaxation->entries);
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

/* 0 or 1: no more than one is proven necessary, whatever is held. */
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
    if (!get_lives(trace, device, &lives))
        return BOUNDS_NO_MEMORY;
    enum bounds_answer answer = fewest(&lives, held, allocations);
    forget_lives(&lives);
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
