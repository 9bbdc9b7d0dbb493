/* The hook table at run time: names, entries and the real driver functions behind them. */
#ifndef POOLCUDA_INTERPOSE_HOOKS_H
#define POOLCUDA_INTERPOSE_HOOKS_H

#include "driver/cuda_api.h"

#include <stdbool.h>
#include <stddef.h>

enum hook {
#define HOOK(name, base, since, per_thread, parameters) HOOK_##name,
#include "interpose/hooks.def"
#undef HOOK
    HOOKS
};

/* Function types of the real entries, and the hooks themselves (reached only through entry.S). */
#define HOOK(name, base, since, per_thread, parameters)                                            \
    typedef CUresult real_##name##_function parameters;                                            \
    __attribute__((visibility("hidden"))) CUresult hook_##name parameters;
#include "interpose/hooks.def"
#undef HOOK

/* The real driver's entries, NULL where it has none. All NULL until hooks_load succeeds. */
extern void *hooks_real[HOOKS];

/* Finds the real entries in an already loaded libcuda.so.1. Returns false while there is none: it
 * never loads it. Cheap once it has succeeded. */
bool hooks_load(void);

/* The real driver's entry of any name, NULL if absent or hooks_load has not succeeded. */
void *hooks_find_in_driver(const char *name);

/* What the driver's cuGetProcAddress answers, NULL if nothing. */
void *hooks_ask_driver(const char *base, int version, bool per_thread);

/* The entry to hand out instead of `found`, the driver's answer to a lookup of `name` by dlsym or
 * of `base` by cuGetProcAddress (in its per-thread form or not): our hook of exactly that form, a
 * stub of stubs.h, or `found` itself. */
void *hooks_replace_symbol(const char *name, void *found);
void *hooks_replace_base(const char *base, void *found, bool per_thread);

/* The real function behind a hook, called as REAL(cuMemFree_v2)(pointer). */
#define REAL(name) ((real_##name##_function *)hooks_real[HOOK_##name])

#endif
