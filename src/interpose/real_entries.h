/* The real driver's functions: those behind our hooks, and any other by its name. */
#ifndef POOLCUDA_INTERPOSE_REAL_ENTRIES_H
#define POOLCUDA_INTERPOSE_REAL_ENTRIES_H

#include "driver/cuda_api.h"

#include <stdbool.h>
#include <stddef.h>

enum hook {
#define HOOK(name, base, since, per_thread, parameters) HOOK_##name,
#include "interpose/hooks.def"
#undef HOOK
    HOOKS
};

#define HOOK(name, base, since, per_thread, parameters)                                            \
    typedef CUresult real_##name##_function parameters;
#include "interpose/hooks.def"
#undef HOOK

/* The real driver's entries, NULL where it has none. All NULL until real_load succeeds. */
extern void *real_entries[HOOKS];

/* Finds the real entries in an already loaded libcuda.so.1. Returns false while there is none: it
 * never loads it. Cheap once it has succeeded. */
bool real_load(void);

/* To be called where the program itself calls the loader: from then on the driver stays loaded. */
void real_hold(void);

/* The real driver's entry of any name, NULL if absent or real_load has not succeeded. */
void *real_find(const char *name);

/* What the driver's cuGetProcAddress answers, NULL if nothing. */
void *real_ask(const char *base, int version, bool per_thread);

/* The real function behind a hook, called as REAL(cuMemFree_v2)(pointer). */
#define REAL(name) ((real_##name##_function *)real_entries[HOOK_##name])

#endif
