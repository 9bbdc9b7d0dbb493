/* Threads that wait for memory to change. A group that is, where it goes backward, as it was there
 * before, and nothing but computing and reading memory has happened since, will do the same again
 * until another thread or the host writes what it reads: so much is certain. It is looked for only
 * in turns behind one in which nothing else happened, and in few branches of each. */
#include "allocate.h"
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 16, CLOCK_READS = 16 };

static size_t row_bytes(const struct frame *frame) {
    return ((size_t)frame->function->rows + 1) * sizeof(lane_row);
}

static size_t state_bytes(const struct frame *frame) {
    return row_bytes(frame) + frame->function->predicates * sizeof(uint32_t);
}

static bool is_quiet(const struct warp *warp) {
    return warp->worker->effects == warp->effects && warp->worker->clock_reads == warp->clock_reads;
}

void spin_turn_begins(struct warp *warp) {
    if (is_quiet(warp) && warp->tries == 0)
        warp->tries = TRIES;
    warp->spins = false;
    warp->reads_clock = false;
    warp->effects = warp->worker->effects;
    warp->clock_reads = warp->worker->clock_reads;
}

static bool others_run(const struct warp *warp) {
    for (unsigned int i = 0; i < warp->group_count; i++)
        if (i != warp->current && warp->groups[i].state == GROUP_RUNS)
            return true;
    return false;
}

/* A frame's predicates are right behind its rows. */
static void note_state(struct warp *warp) {
    size_t bytes = state_bytes(warp->frame);
    struct spin *spin = warp->spin;

    if (spin->room < bytes) {
        spin->state = allocate_again(spin->state, bytes);
        spin->room = bytes;
    }
    memcpy(spin->state, warp->frame->rows, bytes);
    spin->frame = warp->frame;
    spin->place = warp->place;
    spin->mask = warp->mask;
    spin->effects = warp->worker->effects;
    spin->clock_reads = warp->worker->clock_reads;
    spin->word_count = 0;
}

static bool is_pure(const struct warp *warp) {
    return warp->spin->effects == warp->worker->effects &&
           warp->spin->clock_reads == warp->worker->clock_reads;
}

static bool is_same(const struct warp *warp) {
    const struct spin *spin = warp->spin;

    return spin->place == warp->place && spin->mask == warp->mask && !others_run(warp) &&
           memcmp(spin->state, warp->frame->rows, state_bytes(warp->frame)) == 0;
}

static void give_up(struct warp *warp) {
    warp->spin->frame = NULL;
    warp->tries = 0;
}

bool spin_look(struct warp *warp) {
    struct spin *spin = warp->spin;

    if (spin == NULL)
        spin = warp->spin = allocate_zeroed(sizeof *spin);
    if (spin->frame == NULL) {
        note_state(warp);
        return false;
    }
    if (!is_pure(warp)) {
        give_up(warp);
        return false;
    }
    if (spin->frame != warp->frame || !is_same(warp)) {
        if (--warp->tries == 0)
            give_up(warp);
        return false;
    }
    memcpy(spin->seen, spin->words, spin->word_count * sizeof *spin->seen);
    spin->seen_count = spin->word_count;
    spin->word_count = 0;
    warp->tries = TRIES;
    warp->spins = true;
    warp->budget = 0;
    return true;
}

static uint64_t without_sign(uint64_t value, unsigned int size) {
    return size == 8 ? value : value & ((UINT64_C(1) << size * 8) - 1);
}

/* False: there are too many. */
static bool add_word(struct spin *spin, const struct simt_word *word) {
    for (unsigned int i = 0; i < spin->word_count; i++)
        if (spin->words[i].address == word->address && spin->words[i].size == word->size) {
            spin->words[i] = *word;
            return true;
        }
    if (spin->word_count == SPIN_WORDS)
        return false;
    spin->words[spin->word_count++] = *word;
    return true;
}

void spin_read(struct warp *warp, uint32_t lanes, const uint64_t *addresses, const uint64_t *read,
               unsigned int size) {
    if (warp->spin == NULL || warp->spin->frame == NULL)
        return;
    for (; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);
        const struct simt_word word = {addresses[lane], without_sign(read[lane], size), size};

        if (!add_word(warp->spin, &word)) {
            give_up(warp);
            return;
        }
    }
}

void spin_end(struct warp *warp) {
    if (warp->spin != NULL)
        free(warp->spin->state);
    free(warp->spin);
}

bool spin_reads_clock(struct warp *warp) {
    warp->reads_clock = warp->worker->effects == warp->effects &&
                        warp->worker->clock_reads - warp->clock_reads >= CLOCK_READS;
    return warp->reads_clock;
}
