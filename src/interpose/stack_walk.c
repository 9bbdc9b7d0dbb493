#include "interpose/stack_walk.h"

#include "interpose/own_stack.h"
#include "interpose/safe_read.h"

#include <stdbool.h>
#include <stddef.h>
#include <unwind.h>

enum { LARGE_FRAME = 64 << 10, NEAR_THREAD = 64 << 10 };

/* Whether a program's frame that begins at `stack` may be unwound. The unwinder believes the tables
 * and reads where they say that the frame ends. Where a program has changed stacks by hand they
 * speak of the stack before: so nothing is unwound that begins on the last page of a stack. */
static bool may_unwind(uintptr_t stack) {
    uintptr_t next = (stack - 1) / OWN_STACK_PAGE * OWN_STACK_PAGE + OWN_STACK_PAGE;
    return own_stack_is_known(stack, stack) || safe_read_can(next);
}

struct walk {
    struct stack_chain *chain;
    uintptr_t start;
};

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *data) {
    struct walk *walk = data;
    struct stack_chain *chain = walk->chain;
    uintptr_t address = _Unwind_GetIP(context);
    if (!address || chain->count == STACK_MAX_FRAMES)
        return _URC_END_OF_STACK;
    if (chain->count == 0 && address != walk->start)
        return _URC_NO_REASON;
    chain->address[chain->count] = address;
    chain->stack[chain->count] = _Unwind_GetCFA(context);
    return may_unwind(chain->stack[chain->count++]) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void stack_walk(struct stack_chain *chain, uintptr_t return_address) {
    struct walk walk = {chain, return_address};
    chain->count = 0;
    _Unwind_Backtrace(visit, &walk);
}

struct way_out {
    uintptr_t frame, low, high, reached;
};

static _Unwind_Reason_Code visit_outward(struct _Unwind_Context *context, void *data) {
    struct way_out *way = data;
    int interrupted = 0;
    uintptr_t address = _Unwind_GetIPInfo(context, &interrupted), stack = _Unwind_GetCFA(context);
    if (!address)
        return _URC_END_OF_STACK;
    if (stack < way->frame) /* frames of ours */
        return _URC_NO_REASON;
    bool follows = stack - (way->reached ? way->reached : way->frame) < LARGE_FRAME;
    way->reached = follows && !interrupted ? stack : 0;
    if (!way->reached || (stack >= way->low && stack < way->high))
        return _URC_END_OF_STACK;
    if (may_unwind(stack))
        return _URC_NO_REASON;
    way->reached = 0;
    return _URC_END_OF_STACK;
}

/* Unwinds until a frame continues with a stack pointer from `low` to `high`, or to the outermost
 * frame, and returns that stack pointer: from `frame` up to it all is one stack. 0: that is not
 * sure, as there is a signal's frame in between, which may have come from another stack, or a frame
 * larger than usual, which may stand for a change of stacks. */
static uintptr_t walk_out(uintptr_t frame, uintptr_t low, uintptr_t high) {
    struct way_out way = {frame, low, high, 0};
    _Unwind_Backtrace(visit_outward, &way);
    return way.reached;
}

/* The C library has a thread's own data at the end of its stack: so that is where its first frame
 * is, and no fiber's. */
static bool is_first_of_thread(uintptr_t end) {
    return (uintptr_t)__builtin_thread_pointer() - end < NEAR_THREAD;
}

bool stack_walk_reaches(uintptr_t frame, uintptr_t end) {
    if (own_stack_reaches(frame, end))
        return true;
    uintptr_t reached = walk_out(frame, own_stack.low, own_stack.high);
    if (reached && own_stack.high && reached >= own_stack.low && reached <= own_stack.high)
        own_stack.low = frame;
    else if (reached && is_first_of_thread(reached))
        own_stack = (struct own_stack){frame, reached};
    return own_stack_reaches(frame, end);
}
