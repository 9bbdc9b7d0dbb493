#include "blocks/reservation.h"

static int compare(const struct chunk *one, const struct chunk *other) {
    return one->base < other->base ? -1 : one->base > other->base;
}

RB_GENERATE_INTERNAL(chunk_tree, chunk, by_base, compare, static __attribute__((unused)))

static void find_end(struct reservation *reservation) {
    const struct chunk *last = RB_MAX(chunk_tree, &reservation->chunks);
    if (!reservation->growing)
        reservation->end = last ? last->base + last->size : reservation->base;
}

uint64_t reservation_claim(struct reservation *reservation, size_t bytes) {
    uint64_t base = reservation->end;
    if (bytes > reservation->size - (base - reservation->base))
        return 0;
    reservation->growing++;
    reservation->end += bytes;
    return base;
}

void reservation_claim_ends(struct reservation *reservation) {
    reservation->growing--;
    find_end(reservation);
}

bool reservation_is_empty(const struct reservation *reservation) {
    return RB_EMPTY(&reservation->chunks) && !reservation->growing;
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
