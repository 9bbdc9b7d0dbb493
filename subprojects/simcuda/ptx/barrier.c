/* Barriers of a block and of a warp. PTX ISA, "Parallel Synchronization and Communication
 * Instructions: barrier, bar, bar.warp.sync". */
#include "handlers.h"
#include "machine.h"

#include <string.h>

enum reduction { REDUCE_AND, REDUCE_OR, REDUCE_COUNT };

/* Threads that are at the barrier. Where it counts threads, a warp's ended ones and those that it
 * never had count with the others: barriers count whole warps. */
static unsigned int arrived(const struct block *block, const struct barrier *barrier) {
    unsigned int count = 0;

    for (unsigned int i = 0; i < block->warp_count; i++) {
        uint32_t lanes = barrier->arrived[i];

        if (barrier->expected != 0)
            count += lanes == 0
                         ? 0
                         : LANES - (unsigned int)__builtin_popcount(block->warps[i].live & ~lanes);
        else
            count += (unsigned int)__builtin_popcount(lanes & block->warps[i].live);
    }
    return count;
}

static bool is_complete(const struct block *block, const struct barrier *barrier) {
    unsigned int expected = barrier->expected;

    if (expected == 0)
        for (unsigned int i = 0; i < block->warp_count; i++)
            expected += (unsigned int)__builtin_popcount(block->warps[i].live);
    return arrived(block, barrier) >= expected;
}

/* Gives the waiting lanes of a group what bar.red is to give. */
static void give_result(struct warp *warp, const struct group *group,
                        const struct barrier *barrier) {
    const struct instruction *instruction = group->reduction;
    uint32_t yes;

    if (instruction == NULL)
        return;
    if (instruction->mode == REDUCE_COUNT) {
        for (uint32_t lanes = group->mask; lanes != 0; lanes &= lanes - 1)
            group->frame->rows[instruction->d][__builtin_ctz(lanes)] = barrier->yes;
        return;
    }
    yes = (instruction->mode == REDUCE_AND ? barrier->no == 0 : barrier->yes != 0) ? ALL_LANES : 0;
    group->frame->predicates[instruction->d >> 1] =
        (group->frame->predicates[instruction->d >> 1] & ~group->mask) | (yes & group->mask);
    (void)warp;
}

void barrier_check(struct block *block, unsigned int which) {
    struct barrier *barrier = &block->barriers[which];

    if (!barrier->used || !is_complete(block, barrier))
        return;
    for (unsigned int i = 0; i < block->warp_count; i++) {
        struct warp *warp = &block->warps[i];

        for (unsigned int k = 0; k < warp->group_count; k++) {
            struct group *group = &warp->groups[k];

            if (group->state != GROUP_AT_BARRIER || group->barrier != which)
                continue;
            give_result(warp, group, barrier);
            group->state = GROUP_RUNS;
            group->reduction = NULL;
        }
    }
    memset(barrier, 0, sizeof *barrier);
}

void barrier_check_all(struct block *block) {
    for (unsigned int i = 0; i < BARRIERS; i++)
        if (block->barriers[i].used)
            barrier_check(block, i);
}

/* Notes the active lanes' arrival. The barrier and the number of threads are the same for all lanes
 * of a warp. NULL: there is no such barrier. */
static struct barrier *arrive(struct warp *warp, const struct instruction *instruction,
                              unsigned int *which) {
    unsigned int lane = (unsigned int)__builtin_ctz(warp->active);
    struct barrier *barrier;

    *which = (unsigned int)source(warp, instruction->a)[lane];
    if (*which >= BARRIERS) {
        fault(warp, instruction, lane, SIMT_TRAPPED, "names a barrier that is none", *which, 0);
        return NULL;
    }
    warp->worker->effects++;
    barrier = &warp->block->barriers[*which];
    barrier->used = true;
    if (instruction->b != NO_ROW)
        barrier->expected = (unsigned int)source(warp, instruction->b)[lane];
    barrier->arrived[warp->number] |= warp->active;
    return barrier;
}

/* The active lanes wait; whether that is over already is found out at once. */
static enum step wait_at(struct warp *warp, unsigned int which,
                         const struct instruction *reduction) {
    struct group *group;

    warp_split(warp, warp->active, warp->place, GROUP_AT_BARRIER);
    group = &warp->groups[warp->group_count - 1];
    group->barrier = which;
    group->reduction = reduction;
    barrier_check(warp->block, which);
    return STEP_AGAIN;
}

enum step run_barrier(struct warp *warp, const struct instruction *instruction) {
    unsigned int which;

    return arrive(warp, instruction, &which) == NULL ? STEP_AGAIN : wait_at(warp, which, NULL);
}

enum step run_barrier_arrive(struct warp *warp, const struct instruction *instruction) {
    unsigned int which;

    if (arrive(warp, instruction, &which) != NULL)
        barrier_check(warp->block, which);
    return STEP_AGAIN;
}

enum step run_barrier_reduce(struct warp *warp, const struct instruction *instruction) {
    uint32_t yes = predicate(warp, instruction->c) & warp->active;
    unsigned int which;
    struct barrier *barrier = arrive(warp, instruction, &which);

    if (barrier == NULL)
        return STEP_AGAIN;
    barrier->yes += (unsigned int)__builtin_popcount(yes);
    barrier->no += (unsigned int)__builtin_popcount(warp->active & ~yes);
    return wait_at(warp, which, instruction);
}

enum step run_warp_sync(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *wanted = source(warp, instruction->a);
    uint32_t place = warp->place - 1, waiting = 0;

    for (uint32_t left = warp->active; left != 0;) {
        uint32_t mask = (uint32_t)wanted[__builtin_ctz(left)], same = 0;

        for (uint32_t lanes = left; lanes != 0; lanes &= lanes - 1)
            if ((uint32_t)wanted[__builtin_ctz(lanes)] == mask)
                same |= lanes & -lanes;
        left &= ~same;
        if ((mask & warp->live & ~same) == 0)
            continue;
        warp_split(warp, same, place, GROUP_AT_SYNC);
        warp->groups[warp->group_count - 1].wanted = mask;
        waiting |= same;
    }
    return waiting != 0 ? STEP_AGAIN : STEP_ON;
}
