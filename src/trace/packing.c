#include "trace/packing.h"

#include <string.h>

/* Work is bounded by counts, not by a clock: the same trace always has the same packing. */
enum {
    PAIRS_AT_MOST = 16 << 20, /* of blocks live together, that a packing looks at */
    PAIRS_IN_ALL = 20 << 20,  /* by all attempts at it */
    PAIRS_IN_TIME = 1 << 30   /* by one in order of time, where a look is quick */
};

/* The top of what lies there at each moment: a tree over moments, whose leaf m is node `leaves` +
 * m. */
struct skyline {
    size_t leaves;
    uint64_t *top;    /* highest below the node */
    uint64_t *raised; /* what all moments below the node are at least */
};

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
        if (lives_start_at(lives, m))
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
        if (lives_start_at(lives, m))
            packing->first[life] = filled;
        if (!in_core(packing, life))
            continue;
        if (lives_start_at(lives, m)) {
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
        if (!lives_start_at(lives, m)) {
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

/* The orders in which blocks are placed. None is best for all traces; BY_SIZE often is. */
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

/* The most that is live at once, in granules: no packing is lower, so there is no use in trying
 * on. */
static uint64_t least_height(const struct packing *packing) {
    uint64_t live = 0, peak = 0;
    for (size_t m = 0; m < packing->lives->moments; m++) {
        uint64_t size = rounded(packing, packing->lives->changed[m]);
        live += lives_start_at(packing->lives, m) ? size : -size;
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
    packing->address = zeroed_array(count, sizeof *packing->address);
    packing->best = zeroed_array(count, sizeof *packing->best);
    packing->first = zeroed_array(count + 1, sizeof *packing->first);
    packing->earlier = zeroed_array(packing->pairs, sizeof *packing->earlier);
    packing->heap = zeroed_array(count, sizeof *packing->heap);
    packing->order = zeroed_array(count, sizeof *packing->order);
    packing->skyline.leaves = moments ? moments : 1;
    packing->skyline.top = zeroed_array(2 * packing->skyline.leaves, sizeof(uint64_t));
    packing->skyline.raised = zeroed_array(2 * packing->skyline.leaves, sizeof(uint64_t));
    uint32_t *live = zeroed_array(count, sizeof *live);
    size_t *where = zeroed_array(count, sizeof *where);
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

bool packing_find(const struct lives *lives, uint64_t granule, struct bounds *bounds,
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
