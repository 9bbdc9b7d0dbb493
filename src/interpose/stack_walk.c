#include "interpose/stack_walk.h"

#include "modules.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
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

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* libgcc asks glibc 2.35's _dl_find_object for the unwind index of a code address. That symbol
 * would keep this object from loading with an older glibc, so the statically linked libgcc gets
 * ours. */
__attribute__((visibility("hidden"))) int _dl_find_object(void *pc, struct dl_find_object *result) {
    struct module module;
    if (!modules_find((uintptr_t)pc, &module) || !module.eh_frame_header)
        return -1;
    memset(result, 0, sizeof *result);
    result->dlfo_map_start = (void *)module.text_low;
    result->dlfo_map_end = (void *)module.text_high;
    result->dlfo_eh_frame = (void *)module.eh_frame_header;
    return 0;
}
#endif
