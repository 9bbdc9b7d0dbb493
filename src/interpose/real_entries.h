/* The functions behind us: those that our hooks pass calls on to, and any other by its name. */
#ifndef POOLCUDA_INTERPOSE_REAL_ENTRIES_H
#define POOLCUDA_INTERPOSE_REAL_ENTRIES_H

#include "driver/cuda_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* The functions that our hooks pass calls on to, NULL where there is none: what comes next behind
 * us in the order of symbols, another tool's for one, and else the driver's own, which the second
 * has. All NULL until real_load succeeds. */
extern void *real_entries[HOOKS];
extern void *real_own[HOOKS] __attribute__((visibility("hidden")));

/* Finds the real entries in an already loaded libcuda.so.1. Returns false while there is none: it
 * never loads it. Cheap once it has succeeded. */
bool real_load(void);

/* Where no driver is loaded: finds who else defines its functions and stands behind us, or is the
 * module with `caller` in its text. That may be a driver of another name, or a library that loads
 * the driver at its first call. Calls are passed on to it until real_load succeeds. False: nobody
 * does.
 */
bool real_stand_in(uintptr_t caller);

/* To be called where pooling begins: from then on another tool's dlsym is asked what calls are
 * passed on to. (Natively a call by symbol goes past it.) */
void real_ask_others(void);

/* To be called where the program itself calls the loader: from then on the driver stays loaded. */
void real_hold(void);

/* What calls of any name are passed on to, and the driver's own entry of it; NULL if absent, or if
 * neither real_load nor, for the first, real_stand_in has succeeded. */
void *real_find(const char *name);
void *real_find_own(const char *name);
/* The first of them, if the driver has an entry of its own. */
void *real_find_had(const char *name);
/* Whether `found` is one of them. */
bool real_is(const char *name, const void *found);

/* Whether calls of that name are passed on to the module that has `address` in its text, and not to
 * the driver: what that module looks up under the name is what stands behind it. */
bool real_stands_in(const char *name, uintptr_t address);

/* What the driver's cuGetProcAddress answers, NULL if nothing. */
void *real_ask(const char *base, int version, bool per_thread);

/* Whether there is a function to pass the hook's calls on to, or whoever stands in for the driver
 * has one, as in real_stand_in. */
static inline bool real_has(enum hook hook, uintptr_t caller) {
    return (real_load() || real_stand_in(caller)) && real_entries[hook];
}

/* The real function behind a hook, called as REAL(cuMemFree_v2)(pointer). */
#define REAL(name) ((real_##name##_function *)real_entries[HOOK_##name])

#endif
