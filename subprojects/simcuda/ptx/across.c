/* What the lanes of a warp do together. PTX ISA, "shfl.sync", "vote.sync", "match.sync",
 * "activemask", "redux.sync", "elect.sync". */
#include "handlers.h"
#include "machine.h"

/* Lanes that are here together, of those that `members` names for the lane. */
static uint32_t with_lane(const uint64_t *members, uint32_t together, unsigned int lane) {
    return (uint32_t)members[lane] & together;
}

/* The lanes that can go on are all that is active from here on. False: there is none. */
static bool come_together(struct warp *warp, const uint64_t *members, uint32_t *together) {
    *together = lanes_together(warp, members);
    warp->active = *together;
    return *together != 0;
}

static enum step step_after(const struct warp *warp, uint32_t before) {
    return warp->mask == before ? STEP_ON : STEP_AGAIN;
}

enum shuffle { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BUTTERFLY, SHUFFLE_INDEX };

/* Where a lane takes its value from; *inside: that lane is one of its segment. */
static unsigned int shuffle_from(enum shuffle mode, unsigned int lane, uint32_t b, uint32_t c,
                                 bool *inside) {
    unsigned int clamp = c & 31, segment = c >> 8 & 31, distance = b & 31;
    unsigned int most = (lane & segment) | (clamp & ~segment);
    unsigned int least = lane & segment;
    int from;

    switch (mode) {
    case SHUFFLE_UP:
        from = (int)lane - (int)distance;
        *inside = from >= (int)most;
        break;
    case SHUFFLE_DOWN:
        from = (int)(lane + distance);
        *inside = from <= (int)most;
        break;
    case SHUFFLE_BUTTERFLY:
        from = (int)(lane ^ distance);
        *inside = from <= (int)most;
        break;
    default:
        from = (int)(least | (distance & ~segment));
        *inside = from <= (int)most;
        break;
    }
    return *inside ? (unsigned int)from : lane;
}

/* What comes from a lane that takes no part is undefined ("shfl.sync"): 0 (assumed), which
 * reductions of less than a warp count on when they sum up. */
enum step run_shuffle(struct warp *warp, const struct instruction *instruction) {
    const struct extra *extra = instruction->extra;
    const uint64_t *members = source(warp, extra->rows[1]), *a, *b, *c;
    uint32_t together = warp->active, before = warp->mask, insides = 0;
    uint64_t values[LANES], *d;

    if (instruction->flag && !come_together(warp, members, &together))
        return STEP_AGAIN;
    a = source(warp, instruction->a);
    b = source(warp, instruction->b);
    c = source(warp, instruction->c);
    d = destination(warp, instruction->d);
    for (unsigned int lane = 0; lane < LANES; lane++) {
        bool inside;
        unsigned int from = shuffle_from((enum shuffle)instruction->mode, lane, (uint32_t)b[lane],
                                         (uint32_t)c[lane], &inside);

        values[lane] = together >> from & 1 ? (uint32_t)a[from] : 0;
        insides |= (uint32_t)inside << lane;
    }
    FOR_LANES(warp, lane, { d[lane] = values[lane]; });
    if (extra->rows[0] != NO_ROW)
        set_predicate(warp, extra->rows[0], insides);
    return step_after(warp, before);
}

enum vote { VOTE_ALL, VOTE_ANY, VOTE_UNIFORM, VOTE_BALLOT };

enum step run_vote(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *members = source(warp, instruction->b);
    uint32_t together = warp->active, before = warp->mask, votes, holds = 0;

    if (instruction->flag && !come_together(warp, members, &together))
        return STEP_AGAIN;
    votes = predicate(warp, instruction->c);
    if (instruction->mode == VOTE_BALLOT) {
        uint64_t *d = destination(warp, instruction->d);

        FOR_LANES(warp, lane, { d[lane] = votes & with_lane(members, together, lane); });
        return step_after(warp, before);
    }
    for (uint32_t lanes = together; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        uint32_t all = with_lane(members, together, lane), yes = votes & all;
        bool is = instruction->mode == VOTE_ALL   ? yes == all
                  : instruction->mode == VOTE_ANY ? yes != 0
                                                  : yes == all || yes == 0;

        holds |= (uint32_t)is << lane;
    }
    set_predicate(warp, instruction->d, holds);
    return step_after(warp, before);
}

enum step run_match(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *members = source(warp, instruction->b), *a;
    uint64_t mask = instruction->size == 8 ? UINT64_MAX : UINT32_MAX, *d, found[LANES] = {0};
    uint32_t together, before = warp->mask, holds = 0;

    if (!come_together(warp, members, &together))
        return STEP_AGAIN;
    a = source(warp, instruction->a);
    d = destination(warp, instruction->d);
    for (uint32_t lanes = together; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        uint32_t all = with_lane(members, together, lane), same = 0;

        for (uint32_t others = all; others != 0; others &= others - 1)
            if (((a[__builtin_ctz(others)] ^ a[lane]) & mask) == 0)
                same |= others & -others;
        found[lane] = instruction->mode == 0 ? same : same == all ? all : 0;
        holds |= (uint32_t)(same == all) << lane;
    }
    FOR_LANES(warp, lane, { d[lane] = found[lane]; });
    if (instruction->extra != NULL)
        set_predicate(warp, instruction->extra->rows[0], holds);
    return step_after(warp, before);
}

enum reduction { REDUCE_ADD, REDUCE_MIN, REDUCE_MAX, REDUCE_AND, REDUCE_OR, REDUCE_XOR };

static uint32_t reduce(const struct instruction *instruction, uint32_t x, uint32_t y) {
    bool is_signed = instruction->type == TYPE_S32;
    bool is_less = is_signed ? (int32_t)x < (int32_t)y : x < y;

    switch ((enum reduction)instruction->mode) {
    case REDUCE_ADD:
        return x + y;
    case REDUCE_MIN:
        return is_less ? x : y;
    case REDUCE_MAX:
        return is_less ? y : x;
    case REDUCE_AND:
        return x & y;
    case REDUCE_OR:
        return x | y;
    default:
        return x ^ y;
    }
}

enum step run_reduce(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *members = source(warp, instruction->b), *a;
    uint32_t together, before = warp->mask, results[LANES] = {0};
    uint64_t *d;

    if (!come_together(warp, members, &together))
        return STEP_AGAIN;
    a = source(warp, instruction->a);
    d = destination(warp, instruction->d);
    for (uint32_t left = together; left != 0;) {
        uint32_t all = with_lane(members, together, (unsigned int)__builtin_ctz(left));
        uint32_t others = all & (all - 1), result;

        if (all == 0)
            all = left & -left;
        result = (uint32_t)a[__builtin_ctz(all)];
        for (; others != 0; others &= others - 1)
            result = reduce(instruction, result, (uint32_t)a[__builtin_ctz(others)]);
        for (uint32_t lanes = all & left; lanes != 0; lanes &= lanes - 1)
            results[__builtin_ctz(lanes)] = result;
        left &= ~(all | (left & -left));
    }
    FOR_LANES(warp, lane, { d[lane] = results[lane]; });
    return step_after(warp, before);
}

enum step run_activemask(struct warp *warp, const struct instruction *instruction) {
    uint64_t *d = destination(warp, instruction->d), mask = warp->active;

    FOR_LANES(warp, lane, { d[lane] = mask; });
    return STEP_ON;
}

/* The first of the members. */
enum step run_elect(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *members = source(warp, instruction->b);
    uint32_t together, before = warp->mask, leaders = 0;
    uint64_t *d;

    if (!come_together(warp, members, &together))
        return STEP_AGAIN;
    d = destination(warp, instruction->d);
    for (uint32_t lanes = together; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        uint32_t all = with_lane(members, together, lane);

        d[lane] = all != 0 ? (uint64_t)__builtin_ctz(all) : lane;
        leaders |= (uint32_t)(d[lane] == lane) << lane;
    }
    set_predicate(warp, instruction->c, leaders);
    return step_after(warp, before);
}
