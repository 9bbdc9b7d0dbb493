#include "blocks/reservation.h"

static int compare(const struct chunk *one, const struct chunk *other) {
    return one->base < other->base ? -1 : one->base > other->base;
}

RB_GENERATE_INTERNAL(chunk_tree, chunk, by_base, compare, static __attribute__((unused)))

static void find_end(struct reservation *reservation) {
    const struct chunk *last = RB_MAX(chunk_tree, &reservation->chunks);
    if (LIST_EMPTY(&reservation->claims))
        reservation->end = last ? last->base + last->size : reservation->base;
}

size_t reservation_room(const struct reservation *reservation) {
    return reservation->size - (reservation->end - reservation->base);
}

/* What no claim takes of the first part of [from, until) that is free. */
static struct whole unclaimed(const struct reservation *reservation, uint64_t from,
                              uint64_t until) {
    const struct claim *claim;
    for (bool moved = true; moved;) {
        moved = false;
        LIST_FOREACH (claim, &reservation->claims, link)
            if (claim->base <= from && from < claim->base + claim->bytes) {
                from = claim->base + claim->bytes;
                moved = true;
            }
    }
    LIST_FOREACH (claim, &reservation->claims, link)
        if (claim->base > from && claim->base < until)
            until = claim->base;
    return (struct whole){from, from < until ? until - from : 0};
}

struct whole reservation_hole(struct reservation *reservation, size_t bytes) {
    struct whole least = {.bytes = 0}, hole;
    struct chunk *chunk;
    uint64_t at = reservation->base;
    RB_FOREACH (chunk, chunk_tree, &reservation->chunks) {
        if (chunk->base - at >= bytes && (hole = unclaimed(reservation, at, chunk->base)).bytes &&
            hole.bytes >= bytes && (!least.bytes || hole.bytes < least.bytes))
            least = hole;
        at = chunk->base + chunk->size;
    }
    return least;
}

void reservation_claim(struct reservation *reservation, struct claim *claim) {
    LIST_INSERT_HEAD(&reservation->claims, claim, link);
    if (claim->base + claim->bytes > reservation->end)
        reservation->end = claim->base + claim->bytes;
}

void reservation_claim_ends(struct reservation *reservation, struct claim *claim) {
    LIST_REMOVE(claim, link);
    find_end(reservation);
}

bool reservation_is_empty(const struct reservation *reservation) {
    return RB_EMPTY(&reservation->chunks) && LIST_EMPTY(&reservation->claims);
}

void reservation_add(struct reservation *reservation, struct chunk *chunk) {
    RB_INSERT(chunk_tree, &reservation->chunks, chunk);
}

struct chunk *reservation_take(struct reservation *reservation, uint64_t base) {
    struct chunk key = {.base = base};
    struct chunk *chunk = RB_FIND(chunk_tree, &reservation->chunks, &key);
    if (!chunk)
        return NULL;
    RB_REMOVE(chunk_tree, &reservation->chunks, chunk);
    reservation_set_bar(reservation, chunk, BAR_NONE);
    find_end(reservation);
    return chunk;
}

struct chunk *reservation_first(struct reservation *reservation) {
    return RB_MIN(chunk_tree, &reservation->chunks);
}

struct chunk *reservation_next(struct chunk *chunk) {
    return RB_NEXT(chunk_tree, NULL, chunk);
}

void reservation_set_bar(struct reservation *reservation, struct chunk *chunk, enum chunk_bar bar) {
    reservation->barred -= chunk->bar != BAR_NONE;
    reservation->barred += bar != BAR_NONE;
    chunk->bar = bar;
}

/* The first chunk that begins at or behind the address; NULL: there is none. */
static struct chunk *first_from(struct reservation *reservation, uint64_t address) {
    struct chunk key = {.base = address};
    return RB_NFIND(chunk_tree, &reservation->chunks, &key);
}

static struct chunk *before(struct reservation *reservation, struct chunk *chunk) {
    return chunk ? RB_PREV(chunk_tree, NULL, chunk) : RB_MAX(chunk_tree, &reservation->chunks);
}

struct chunk *reservation_at(struct reservation *reservation, uint64_t address) {
    struct chunk *next = first_from(reservation, address);
    return next && next->base == address ? next : before(reservation, next);
}

enum chunk_bar reservation_bar(struct reservation *reservation, uint64_t from, size_t bytes,
                               uint64_t *until) {
    uint64_t end = from + bytes;
    *until = end;
    if (!reservation->barred)
        return BAR_NONE;
    struct chunk *chunk = reservation_at(reservation, from);
    enum chunk_bar first = chunk->bar, strictest = first;
    while ((chunk = reservation_next(chunk)) && chunk->base < end) {
        if (chunk->bar != first && *until == end)
            *until = chunk->base;
        strictest = chunk->bar > strictest ? chunk->bar : strictest;
    }
    return strictest;
}

struct whole reservation_whole(struct reservation *reservation, uint64_t from, size_t bytes) {
    const struct chunk *first = first_from(reservation, from);
    uint64_t end = from + bytes;
    if (!first || first->base + first->size > end)
        return (struct whole){.from = from};
    const struct chunk *last = reservation_at(reservation, end - 1);
    uint64_t until = last->base + last->size <= end ? end : last->base;
    return (struct whole){first->base, until - first->base};
}

struct whole reservation_last(struct reservation *reservation, const struct whole *whole,
                              size_t most) {
    struct whole taken = {.from = whole->from + whole->bytes};
    while (taken.from > whole->from) {
        const struct chunk *chunk = reservation_at(reservation, taken.from - 1);
        if (taken.bytes && (taken.bytes > most || chunk->size > most - taken.bytes))
            break;
        taken.from = chunk->base;
        taken.bytes += chunk->size;
    }
    return taken;
}

size_t reservation_count(struct reservation *reservation, const struct whole *whole) {
    size_t count = 0;
    for (uint64_t at = whole->from; at < whole->from + whole->bytes; count++)
        at += reservation_at(reservation, at)->size;
    return count;
}
