/* Branches, calls, ends. PTX ISA, "Control Flow Instructions". */
#include "handlers.h"
#include "machine.h"

#include <sched.h>
#include <string.h>
#include <time.h>

/* --- branches --- */

/* The group as a whole goes to `target`. */
static enum step go_to(struct warp *warp, uint32_t target) {
    bool backward = target < warp->place;

    warp->place = target;
    if (backward && warp->tries != 0 && spin_look(warp))
        return STEP_AGAIN;
    if (backward && --warp->budget <= 0)
        return STEP_AGAIN;
    if (warp->group_count == 1)
        return STEP_ON;
    return target > warp->stop || (backward && warp->others_before) ? STEP_AGAIN : STEP_ON;
}

enum step run_branch(struct warp *warp, const struct instruction *instruction) {
    uint32_t others = warp->mask & ~warp->active;

    if (others == 0)
        return go_to(warp, instruction->target);
    if (instruction->target < warp->place) { /* those who go back go first */
        warp_split(warp, others, warp->place, GROUP_RUNS);
        warp->stop = warp->stop < warp->place ? warp->stop : warp->place;
        return go_to(warp, instruction->target);
    }
    warp_split(warp, warp->active, instruction->target, GROUP_RUNS);
    return STEP_ON;
}

enum step run_branch_by_index(struct warp *warp, const struct instruction *instruction) {
    const struct extra *extra = instruction->extra;
    const uint64_t *index = source(warp, instruction->a);
    uint32_t left = warp->active, split = warp->mask & ~warp->active;

    if (split != 0)
        warp_split(warp, split, warp->place, GROUP_RUNS);
    while (left != 0) {
        uint32_t which = (uint32_t)index[__builtin_ctz(left)], same = 0;

        for (uint32_t lanes = left; lanes != 0; lanes &= lanes - 1)
            if ((uint32_t)index[__builtin_ctz(lanes)] == which)
                same |= lanes & -lanes;
        left &= ~same;
        if (which >= extra->target_count)
            return fault(warp, instruction, (unsigned int)__builtin_ctz(same), SIMT_INVALID_CALL,
                         "branches beyond its table", which, 0);
        if (left == 0)
            return go_to(warp, extra->targets[which]) == STEP_ON && split == 0 ? STEP_ON
                                                                               : STEP_AGAIN;
        warp_split(warp, same, extra->targets[which], GROUP_RUNS);
        split |= same;
    }
    return STEP_AGAIN;
}

/* --- calls --- */

static void copy_between(const struct warp *warp, uint32_t lanes, size_t to, size_t from,
                         size_t bytes) {
    for (; lanes != 0; lanes &= lanes - 1) {
        unsigned int lane = (unsigned int)__builtin_ctz(lanes);

        memcpy(local_memory(warp, lane, to), local_memory(warp, lane, from), bytes);
    }
}

/* From a row of one frame to local memory or a row of another, or back. */
static void copy_row(uint64_t *to, const uint64_t *from, uint32_t lanes) {
    for (; lanes != 0; lanes &= lanes - 1)
        to[__builtin_ctz(lanes)] = from[__builtin_ctz(lanes)];
}

static void pass(const struct warp *warp, uint32_t lanes, const struct frame *callee,
                 const struct variable *formal, const struct argument *given) {
    const struct frame *caller = warp->frame;

    if (given->variable != NULL && formal->space != SPACE_REG) {
        size_t bytes = formal->size < given->variable->size ? formal->size : given->variable->size;

        copy_between(warp, lanes, callee->local + formal->offset,
                     caller->local + given->variable->offset, bytes);
    } else if (given->variable == NULL && formal->space == SPACE_REG) {
        copy_row(callee->rows[formal->row], source(warp, given->row), lanes);
    } else if (given->variable == NULL) {
        const uint64_t *from = source(warp, given->row);

        for (; lanes != 0; lanes &= lanes - 1) {
            unsigned int lane = (unsigned int)__builtin_ctz(lanes);

            memcpy(local_memory(warp, lane, callee->local + formal->offset), &from[lane],
                   formal->size < 8 ? formal->size : 8);
        }
    }
}

static void pass_back(struct warp *warp, uint32_t lanes, const struct frame *callee,
                      const struct variable *formal, const struct argument *received) {
    struct frame *caller = callee->caller;

    if (received->variable != NULL && formal->space != SPACE_REG) {
        size_t bytes =
            formal->size < received->variable->size ? formal->size : received->variable->size;

        copy_between(warp, lanes, caller->local + received->variable->offset,
                     callee->local + formal->offset, bytes);
    } else if (received->variable == NULL && received->row != NO_ROW &&
               formal->space == SPACE_REG) {
        copy_row(caller->rows[received->row], callee->rows[formal->row], lanes);
    } else if (received->variable == NULL && received->row != NO_ROW) {
        for (; lanes != 0; lanes &= lanes - 1) {
            unsigned int lane = (unsigned int)__builtin_ctz(lanes);
            uint64_t value = 0;

            memcpy(&value, local_memory(warp, lane, callee->local + formal->offset),
                   formal->size < 8 ? formal->size : 8);
            caller->rows[received->row][lane] = value;
        }
    }
}

/* The lanes, which are all of the group that runs, call. */
static enum step call(struct warp *warp, const struct instruction *instruction,
                      const struct function *callee) {
    const struct extra *extra = instruction->extra;
    const struct variable *formal;
    struct frame *frame;
    unsigned int i = 0;

    frame = frame_enter(warp, callee, warp->mask, warp->frame, instruction, warp->place);
    if (frame == NULL)
        return fault(warp, instruction, (unsigned int)__builtin_ctz(warp->mask),
                     SIMT_STACK_OVERFLOW, "calls too deep", 0, 0);
    for (formal = callee->parameters; formal != NULL && i < extra->given_count;
         formal = formal->next)
        pass(warp, warp->mask, frame, formal, &extra->given[i++]);
    warp->frame = frame;
    warp->place = 0;
    warp->budget--;
    return STEP_AGAIN;
}

static const struct function *resolved(const struct function *function) {
    while (function->resolved != NULL)
        function = function->resolved;
    return function;
}

enum step run_call(struct warp *warp, const struct instruction *instruction) {
    const struct function *callee = resolved(instruction->extra->callee);
    uint32_t others = warp->mask & ~warp->active;

    if (callee->system != NULL)
        return callee->system(warp, instruction);
    if (!callee->defined)
        return fault(warp, instruction, (unsigned int)__builtin_ctz(warp->active),
                     SIMT_INVALID_CALL, "calls a function that nobody defines", 0, 0);
    if (others != 0)
        warp_split(warp, others, warp->place, GROUP_RUNS);
    return call(warp, instruction, callee);
}

/* Those who call something else do so when they come here again. */
enum step run_call_by_address(struct warp *warp, const struct instruction *instruction) {
    const uint64_t *address = source(warp, instruction->a);
    unsigned int first = (unsigned int)__builtin_ctz(warp->active);
    uint32_t same = 0, skip = warp->mask & ~warp->active, others;
    const struct simt_program *program = warp->block->launch->kernel->module->program;
    const struct function *callee = program->functions;
    uint64_t index = (address[first] & ((UINT64_C(1) << WINDOW_SHIFT) - 1)) / 16;

    for (uint32_t lanes = warp->active; lanes != 0; lanes &= lanes - 1)
        if (address[__builtin_ctz(lanes)] == address[first])
            same |= lanes & -lanes;
    if (address[first] >> WINDOW_SHIFT != WINDOW_CODE || address[first] % 16 != 0 ||
        index >= program->function_count)
        return fault(warp, instruction, first, SIMT_INVALID_CALL, "calls what is no function",
                     address[first], 0);
    while (index-- != 0)
        callee = callee->next;
    callee = resolved(callee);
    others = warp->active & ~same;
    if (callee->system != NULL) {
        warp->active = same;
        callee->system(warp, instruction);
        if (others != 0)
            warp_split(warp, others, warp->place - 1, GROUP_RUNS);
        return STEP_AGAIN;
    }
    if (!callee->defined || warp->block->launch->kernel->constants[callee->index] == NULL)
        return fault(warp, instruction, first, SIMT_INVALID_CALL, "calls what is no function",
                     address[first], 0);
    if (skip != 0)
        warp_split(warp, skip, warp->place, GROUP_RUNS);
    if (others != 0)
        warp_split(warp, others, warp->place - 1, GROUP_RUNS);
    return call(warp, instruction, callee);
}

/* --- ends --- */

enum step run_exit(struct warp *warp, const struct instruction *instruction) {
    (void)instruction;
    warp_exit(warp, warp->active);
    return STEP_AGAIN;
}

enum step run_return(struct warp *warp, const struct instruction *instruction) {
    struct frame *frame = warp->frame;
    const struct extra *extra;
    const struct variable *formal;
    unsigned int i = 0;

    if (frame->caller == NULL)
        return run_exit(warp, instruction);
    if (warp->active != warp->mask)
        warp_split(warp, warp->mask & ~warp->active, warp->place, GROUP_RUNS);
    extra = frame->call->extra;
    for (formal = frame->function->results; formal != NULL && i < extra->received_count;
         formal = formal->next)
        pass_back(warp, warp->mask, frame, formal, &extra->received[i++]);
    warp->frame = frame->caller;
    warp->place = frame->return_to;
    frame_leave(warp, frame, warp->mask);
    return STEP_AGAIN;
}

enum step run_trap(struct warp *warp, const struct instruction *instruction) {
    return fault(warp, instruction, (unsigned int)__builtin_ctz(warp->active), SIMT_TRAPPED,
                 "traps", 0, 0);
}

/* Without a debugger. */
enum step run_breakpoint(struct warp *warp, const struct instruction *instruction) {
    return run_trap(warp, instruction);
}

enum step run_nothing(struct warp *warp, const struct instruction *instruction) {
    (void)warp;
    (void)instruction;
    return STEP_ON;
}

enum step run_fence(struct warp *warp, const struct instruction *instruction) {
    (void)warp;
    (void)instruction;
    atomic_thread_fence(memory_order_seq_cst);
    return STEP_ON;
}

/* Others run meanwhile; it is allowed to take less time than asked for, and takes none where the
 * warp is being looked at for whether it waits: its turn is to last until that is known. */
enum step run_nanosleep(struct warp *warp, const struct instruction *instruction) {
    (void)instruction;
    if (warp->tries != 0)
        return STEP_ON;
    sched_yield();
    warp->budget = 0;
    return STEP_AGAIN;
}
