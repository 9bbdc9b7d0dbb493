/* The hook table at run time: which hook stands for which function of the driver's. */
#ifndef POOLCUDA_INTERPOSE_HOOKS_H
#define POOLCUDA_INTERPOSE_HOOKS_H

#include "interpose/real_entries.h"

#include <stdbool.h>
#include <stddef.h>

/* The hooks themselves, reached only through entry.S. */
#define HOOK(name, base, since, per_thread, parameters)                                            \
    __attribute__((visibility("hidden"))) CUresult hook_##name parameters;
#include "interpose/hooks.def"
#undef HOOK

/* The entry to hand out instead of `found`, the driver's answer to a lookup of `name` by dlsym or
 * of `base` by cuGetProcAddress (in its per-thread form or not): our hook of exactly that form, a
 * stub of stubs.h, or `found` itself. */
void *hooks_replace_symbol(const char *name, void *found);
void *hooks_replace_base(const char *base, void *found, bool per_thread);

#endif
