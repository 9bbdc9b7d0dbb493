/* The dynamic loader's functions as the program would reach them without us. */
#ifndef POOLCUDA_INTERPOSE_LOADER_H
#define POOLCUDA_INTERPOSE_LOADER_H

#include "base/lock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* dlsym of the C library, or of the next interposer of it. NULL until loader_resolve_dlsym. */
extern void *(*loader_real_dlsym)(void *handle, const char *name);

/* Sets loader_real_dlsym and returns it; NULL in a process without a dynamic loader library. Called
 * by the assembly entry of dlsym on its first use. */
void *(*loader_resolve_dlsym(void))(void *handle, const char *name);

/* The address of `name` as the C library's dlsym finds it through `handle`, NULL if absent. Never a
 * symbol of our own object. Pseudo-handles mean: as seen from libpoolcuda. Leaves no dlerror
 * behind. */
void *loader_find(void *handle, const char *name);

/* As the dlsym answers that comes next behind ours: another tool hands out its own functions. */
void *loader_ask_next(void *handle, const char *name);

/* The first definition of `name` in the program's global scope, our own too. */
void *loader_find_first(const char *name);

/* Looks up what is nowhere, so that its error is the one that dlerror tells of. */
void loader_fail(const char *name);

/* The first definition of a function behind ours, NULL if there is none. The loader is not asked:
 * it may have an error for the program to see. */
void *loader_find_unasked(const char *name);

/* The real dlerror; NULL in a process without a dynamic loader library. The loader is not asked
 * where it is: that would make it forget the error. */
typedef char *loader_dlerror_function(void);
loader_dlerror_function *loader_find_dlerror(void);

/* Looks for a symbol of one version. */
void *loader_find_version(void *handle, const char *name, const char *version);

/* A handle of the module at `path`, NULL for the executable, if it is loaded; never loads one. */
void *loader_open_loaded(const char *path);
void loader_close(void *handle);

/* Guards what the other files of this folder learn about loaded modules. Held across fork. Never
 * held while something is looked up through the loader, whose lock comes first. */
extern pthread_mutex_t loader_lock; /* LOCK_LOADER */

/* Grows whenever a module may have been unloaded: addresses learnt before it grew may be stale. */
extern _Atomic uint64_t loader_unloads __attribute__((visibility("hidden")));

/* To be called before a module may be unloaded; NULL: nothing is. */
extern _Atomic(void (*)(void)) loader_before_unload __attribute__((visibility("hidden")));

/* Whether a module was opened with RTLD_DEEPBIND: its calls may go past us. Set by entry.S. */
extern unsigned char loader_deep;

/* Calls of dlopen so far, roughly: it grows before each of them. */
extern uint64_t loader_opens __attribute__((visibility("hidden")));

#endif
