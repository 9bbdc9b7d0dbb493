/* Who of a warp's threads runs. PTX ISA, "Independent Thread Scheduling": threads that have taken
 * different branches go on by themselves. The group at the earliest place in the deepest call runs
 * first, so that groups meet again where the paths do; but one that goes backward all the time
 * gives way to the others after a while, since it may wait for them. */
#include "allocate.h"
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum { BUDGET = 256 };                      /* branches backward in one turn */
static const size_t most_local = 512 << 10; /* bytes of a thread: CUDA's limit */

/* --- frames --- */

static unsigned int room_class(size_t bytes) {
    unsigned int power = 10;

    while (((size_t)1 << power) < bytes)
        power++;
    return power;
}

static struct frame *take_frame(struct worker *worker, const struct function *function) {
    size_t rows = ((size_t)function->rows + 1) * sizeof(lane_row); /* with that of the carries */
    size_t bytes = sizeof(struct frame) + rows + function->predicates * sizeof(uint32_t) + 64;
    unsigned int power = room_class(bytes);
    struct frame *frame = worker->spare[power];
    uintptr_t memory;

    if (frame != NULL)
        worker->spare[power] = frame->next_spare;
    else
        frame = allocate_zeroed((size_t)1 << power);
    memset(frame, 0, bytes);
    memory = ((uintptr_t)(frame + 1) + 63) & ~(uintptr_t)63;
    frame->rows = (lane_row *)memory;
    frame->predicates = (uint32_t *)(memory + rows);
    frame->predicates[PREDICATE_TRUE] = ALL_LANES;
    frame->room = power;
    return frame;
}

/* Gives each lane as much local memory as the frame needs. False: that is too much. */
static bool reserve_local(struct warp *warp, size_t bytes) {
    size_t room = warp->local_room == 0 ? 256 : warp->local_room;
    unsigned char *memory;

    if (bytes <= warp->local_room)
        return true;
    if (bytes > most_local)
        return false;
    while (room < bytes)
        room *= 2;
    memory = allocate_zeroed(room * LANES);
    for (unsigned int lane = 0; lane < LANES && warp->local != NULL; lane++)
        memcpy(memory + lane * room, warp->local + lane * warp->local_room, warp->local_room);
    free(warp->local);
    warp->local = memory;
    warp->local_room = room;
    return true;
}

struct frame *frame_enter(struct warp *warp, const struct function *function, uint32_t lanes,
                          struct frame *caller, const struct instruction *call,
                          uint32_t return_to) {
    size_t local = caller == NULL ? 0 : caller->local + caller->function->local_bytes;
    struct frame *frame;

    local = (local + 15) & ~(size_t)15;
    if (!reserve_local(warp, local + function->local_bytes) ||
        (caller != NULL && caller->depth > 100000))
        return NULL;
    frame = take_frame(warp->worker, function);
    frame->function = function;
    frame->constants = (const lane_row *)warp->block->launch->kernel->constants[function->index];
    frame->caller = caller;
    frame->call = call;
    frame->return_to = return_to;
    frame->lanes = lanes;
    frame->depth = caller == NULL ? 0 : caller->depth + 1;
    frame->local = local;
    return frame;
}

void frame_leave(struct warp *warp, struct frame *frame, uint32_t lanes) {
    if (warp->spin != NULL && warp->spin->frame == frame)
        warp->spin->frame = NULL;
    frame->lanes &= ~lanes;
    if (frame->lanes != 0)
        return;
    frame->next_spare = warp->worker->spare[frame->room];
    warp->worker->spare[frame->room] = frame;
}

/* --- groups --- */

static void load_frame(struct warp *warp, struct frame *frame) {
    warp->frame = frame;
    warp->rows = frame->rows;
    warp->constants = frame->constants;
    warp->predicates = frame->predicates;
}

static void load(struct warp *warp, unsigned int which) {
    const struct group *group = &warp->groups[which];

    warp->current = which;
    warp->mask = group->mask;
    warp->place = group->place;
    load_frame(warp, group->frame);
}

static void store(struct warp *warp) {
    struct group *group = &warp->groups[warp->current];

    group->mask = warp->mask;
    group->place = warp->place;
    group->frame = warp->frame;
}

static void remove_group(struct warp *warp, unsigned int which) {
    warp->groups[which] = warp->groups[--warp->group_count];
}

static bool can_join(const struct group *a, const struct group *b) {
    return a->place == b->place && a->frame == b->frame && a->state == b->state &&
           a->state != GROUP_AT_BARRIER && a->wanted == b->wanted;
}

static void join_groups(struct warp *warp) {
    for (unsigned int i = 0; i < warp->group_count; i++) {
        for (unsigned int k = i + 1; k < warp->group_count;) {
            if (can_join(&warp->groups[i], &warp->groups[k])) {
                warp->groups[i].mask |= warp->groups[k].mask;
                remove_group(warp, k);
            } else {
                k++;
            }
        }
    }
}

static uint32_t lanes_at_sync(const struct warp *warp, uint32_t wanted) {
    uint32_t lanes = 0;

    for (unsigned int i = 0; i < warp->group_count; i++)
        if (warp->groups[i].state == GROUP_AT_SYNC && warp->groups[i].wanted == wanted)
            lanes |= warp->groups[i].mask;
    return lanes;
}

/* Lets those go on who have waited for others of the warp that are there now. */
static void wake_groups(struct warp *warp) {
    for (unsigned int i = 0; i < warp->group_count; i++) {
        struct group *group = &warp->groups[i];
        uint32_t wanted = group->wanted & warp->live;

        if (group->state == GROUP_AT_WARP && (wanted & ~group->mask) == 0)
            group->state = GROUP_RUNS;
        if (group->state != GROUP_AT_SYNC || (wanted & ~lanes_at_sync(warp, group->wanted)) != 0)
            continue;
        for (unsigned int k = 0; k < warp->group_count; k++) {
            struct group *other = &warp->groups[k];

            if (k != i && other->state == GROUP_AT_SYNC && other->wanted == group->wanted) {
                other->state = GROUP_RUNS;
                other->place++;
            }
        }
        group->state = GROUP_RUNS;
        group->place++;
    }
    for (unsigned int i = 0; i < warp->group_count; i++)
        if (warp->groups[i].state == GROUP_RUNS)
            warp->groups[i].wanted = 0;
}

static bool is_before(const struct group *a, const struct group *b) {
    if (a->frame->depth != b->frame->depth)
        return a->frame->depth > b->frame->depth;
    return a->place < b->place;
}

/* Whom to run. -1: all wait. */
static int choose(const struct warp *warp) {
    int best = -1;

    for (unsigned int n = 0; n < warp->group_count; n++) {
        unsigned int i = (warp->current + 1 + n) % warp->group_count;

        if (warp->groups[i].state != GROUP_RUNS)
            continue;
        if (best < 0 || is_before(&warp->groups[i], &warp->groups[best]))
            best = (int)i;
        if (warp->rotates)
            break;
    }
    return best;
}

static void note_others(struct warp *warp) {
    warp->stop = UINT32_MAX;
    warp->others_before = false;
    for (unsigned int i = 0; i < warp->group_count; i++) {
        const struct group *group = &warp->groups[i];

        if (i == warp->current || group->frame != warp->frame)
            continue;
        if (group->place < warp->place)
            warp->others_before = true;
        else if (group->place < warp->stop)
            warp->stop = group->place;
    }
}

/* Somebody whom nobody joins any more waits for others of the warp, as the program has it: it goes
 * on with who is there. False: there is no such group. */
static bool force_one(struct warp *warp) {
    for (unsigned int i = 0; i < warp->group_count; i++) {
        struct group *group = &warp->groups[i];

        if (group->state != GROUP_AT_WARP && group->state != GROUP_AT_SYNC)
            continue;
        group->place += group->state == GROUP_AT_SYNC;
        group->state = GROUP_RUNS;
        group->wanted = 0;
        warp->forced = true;
        return true;
    }
    return false;
}

static bool waits_at_barrier(const struct warp *warp) {
    for (unsigned int i = 0; i < warp->group_count; i++)
        if (warp->groups[i].state == GROUP_AT_BARRIER)
            return true;
    return false;
}

/* False: nobody can run. */
static bool select_group(struct warp *warp) {
    int which;

    if (warp->group_count > 1)
        join_groups(warp);
    wake_groups(warp);
    which = choose(warp);
    if (which < 0 && !waits_at_barrier(warp) && force_one(warp))
        which = choose(warp);
    warp->rotates = false;
    if (which < 0)
        return false;
    load(warp, (unsigned int)which);
    note_others(warp);
    return true;
}

void warp_split(struct warp *warp, uint32_t lanes, uint32_t place, enum group_state state) {
    struct group *group = &warp->groups[warp->group_count++];

    *group = (struct group){.mask = lanes, .place = place, .frame = warp->frame, .state = state};
    warp->mask &= ~lanes;
    if (state == GROUP_RUNS && place >= warp->place && place < warp->stop)
        warp->stop = place;
}

void warp_exit(struct warp *warp, uint32_t lanes) {
    struct frame *frame, *caller;

    warp->worker->effects++;
    for (frame = warp->frame; frame != NULL; frame = caller) {
        caller = frame->caller;
        frame_leave(warp, frame, lanes);
    }
    warp->live &= ~lanes;
    warp->mask &= ~lanes;
    if (warp->live == 0)
        warp->block->live_warps--;
    barrier_check_all(warp->block);
}

uint32_t lanes_together(struct warp *warp, const uint64_t *wanted) {
    uint32_t together = 0, place = warp->place - 1;

    if (warp->forced) {
        warp->forced = false;
        return warp->active;
    }
    for (uint32_t left = warp->active; left != 0;) {
        uint32_t mask = (uint32_t)wanted[__builtin_ctz(left)], same = 0;

        for (uint32_t lanes = left; lanes != 0; lanes &= lanes - 1)
            if ((uint32_t)wanted[__builtin_ctz(lanes)] == mask)
                same |= lanes & -lanes;
        left &= ~same;
        if ((mask & warp->live & ~same) == 0) {
            together |= same;
            continue;
        }
        warp_split(warp, same, place, GROUP_AT_WARP);
        warp->groups[warp->group_count - 1].wanted = mask;
    }
    return together;
}

/* --- the loop --- */

static void execute(struct warp *warp) {
    const struct instruction *code = warp->frame->function->code;
    uint64_t instructions = 0;

    for (;;) {
        const struct instruction *instruction = &code[warp->place++];

        warp->active = warp->mask & predicate(warp, instruction->guard);
        if (warp->active != 0) {
            instructions +=
                warp->active == ALL_LANES ? LANES : (unsigned int)__builtin_popcount(warp->active);
            if (instruction->run(warp, instruction) != STEP_ON)
                break;
        }
        if (warp->place == warp->stop)
            break;
    }
    warp->worker->instructions += instructions;
}

bool warp_run(struct warp *warp) {
    bool moved = false;

    warp->budget = BUDGET;
    spin_turn_begins(warp);
    memory_forget_gone(warp->worker);
    while (warp->live != 0) {
        if (!select_group(warp))
            return moved;
        moved = true;
        execute(warp);
        store(warp);
        if (warp->mask == 0)
            remove_group(warp, warp->current);
        if (atomic_load_explicit(&warp->block->launch->result, memory_order_relaxed) != SIMT_DONE)
            return true;
        if (warp->budget <= 0) {
            warp->rotates = true;
            return true;
        }
    }
    return true;
}

bool warp_begin(struct warp *warp, struct block *block, struct worker *worker,
                unsigned int number) {
    unsigned int threads = block->launch->threads - number * LANES;
    const struct function *function = block->launch->kernel->function;

    warp->block = block;
    warp->worker = worker;
    warp->number = number;
    warp->live = threads >= LANES ? ALL_LANES : (1u << threads) - 1;
    warp->effects = UINT64_MAX; /* there was no turn yet */
    warp->groups[0].mask = warp->live;
    warp->groups[0].frame = frame_enter(warp, function, warp->live, NULL, NULL, 0);
    warp->group_count = warp->groups[0].frame != NULL;
    return warp->group_count != 0;
}

/* Where the launch has failed, it may have threads that have not ended. */
void warp_end(struct warp *warp) {
    for (unsigned int i = 0; i < warp->group_count; i++) {
        struct frame *frame, *caller;

        for (frame = warp->groups[i].frame; frame != NULL; frame = caller) {
            caller = frame->caller;
            if (frame->lanes != 0)
                frame_leave(warp, frame, warp->groups[i].mask);
        }
    }
    spin_end(warp);
    free(warp->local);
}
