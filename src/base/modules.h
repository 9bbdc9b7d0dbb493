/* The loaded modules (executable and shared objects) by address, from dl_iterate_phdr. */
#ifndef POOLCUDA_BASE_MODULES_H
#define POOLCUDA_BASE_MODULES_H

#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MODULE_PATH_MAX = 1024 };

/* One loaded module. Valid until the module is unloaded: all addresses point into its memory.
 * Invariant: text_low < text_high is the executable segment that holds the address asked for. */
struct module {
    uintptr_t base;      /* load bias: address minus address in the file; 0 or wrapped around where
                            the file asks for an address of its own */
    uintptr_t low, high; /* from the first segment to the end of the last; gaps are not mapped */
    uintptr_t text_low, text_high;
    uintptr_t relro_low, relro_high; /* what the loader makes read-only after it has filled it */
    const void *dynamic;             /* its dynamic section, NULL without one */
    const void *eh_frame_header;     /* its unwind index, NULL without one */
    const void *thread_data; /* the calling thread's copy of its thread-local variables, if any */
    size_t thread_bytes;
    bool executable;            /* the program itself, not a shared object */
    char path[MODULE_PATH_MAX]; /* as loaded; the executable's real path; cut to size */
};

/* Finds the module with `address` in an executable segment. Returns false if there is none. */
bool modules_find(uintptr_t address, struct module *module);

/* Calls visit for every loaded module (text bounds: its first executable segment) until it returns
 * false. The loader's lock is held: visit must neither load nor unload anything. */
void modules_each(bool (*visit)(const struct module *module, void *state), void *state);

/* Calls dl_iterate_phdr. */
void modules_iterate(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data);

/* So that no thread of ours is in dl_iterate_phdr while the process forks: the child would have the
 * loader's lock for ever, which glibc holds meanwhile and does not give back in a child. Taken by
 * nothing else. */
extern pthread_mutex_t modules_iterating;
void modules_iterating_anew(void); /* in the child */

/* Copies the build id of a module that is loaded into id. Returns its size in bytes; 0: it has
 * none, or none that fits. */
size_t modules_build_id(const struct module *module, unsigned char *id, size_t room);

/* Copies the path of the module that contains `address` into path, cut to size, and sets *offset to
 * the address minus the module's load base. Returns false, touching neither, if there is none. */
bool modules_describe(uintptr_t address, char *path, size_t size, uint64_t *offset);

/* Copies the file name, without its folder, of the module that contains `address`; "(unknown)" if
 * there is none. Returns the address less the module's load base, or the address itself. */
uint64_t modules_name(uintptr_t address, char *name, size_t size);

#endif
