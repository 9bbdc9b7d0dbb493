/* What stands behind this library in the order in which the loader looks for symbols. The loader is
 * not asked: a thread may have its lock that runs a library's constructor and waits for ours. */
#ifndef POOLCUDA_INTERPOSE_SYMBOL_ORDER_H
#define POOLCUDA_INTERPOSE_SYMBOL_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* When the process starts: what is loaded by then is what every module's symbols are looked for in.
 * What comes later is not looked at. */
void symbol_order_begin(void);

/* The function of that name whose definition comes next behind this library, whoever has it:
 * another tool, a replacement of CUDA's, or CUDA itself. 0: none. A variable of that name is none.
 * has_dlsym: whether that module defines dlsym, too, and so reaches whoever looks the name up. */
uintptr_t symbol_order_next(const char *name, bool *has_dlsym);

/* Whether the module with this load base stands behind us. */
bool symbol_order_has(uintptr_t base);

/* Whether the module behind us that has `address` in its text defines functions of the driver's, or
 * dlsym, so that calls may be passed on to it. */
bool symbol_order_may_hook(uintptr_t address);

/* Whether another tool's dlsym comes before the C library's. */
bool symbol_order_has_other_dlsym(void);

#endif
