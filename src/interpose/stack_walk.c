#include "interpose/stack_walk.h"

#include <unwind.h>

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
    chain->count++;
    return _URC_NO_REASON;
}

void stack_walk(struct stack_chain *chain, uintptr_t return_address) {
    struct walk walk = {chain, return_address};
    chain->count = 0;
    _Unwind_Backtrace(visit, &walk);
}
