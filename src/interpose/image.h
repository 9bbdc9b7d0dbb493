/* Reads the dynamic section of a loaded module: what it imports, what it defines and what it is
 * called. The loader is not asked: a thread may have its lock that runs a library's constructor and
 * waits for ours. */
#ifndef POOLCUDA_INTERPOSE_IMAGE_H
#define POOLCUDA_INTERPOSE_IMAGE_H

#include "modules.h"

#include <stdbool.h>
#include <stdint.h>

/* The symbol version that the module asks for with its import of `name`: "" without one, NULL if it
 * does not import the name. The text belongs to the module. */
const char *image_import_version(const struct module *module, const char *name);

/* The current value of the slot through which the module calls its import `name` (an address, or
 * a stub of the module's own before the first call), 0 if it does not call it by a slot. */
uintptr_t image_import_slot(const struct module *module, const char *name);

/* The address of the function that the module defines as `name`, in that version, or in the one
 * that is the name's default if `version` is NULL. 0: none, or one that is chosen when it is looked
 * up. */
uintptr_t image_find_function(const struct module *module, const char *name, const char *version);

/* The address of the data that the module exports as `name`, 0 if there is none. */
uintptr_t image_find_object(const struct module *module, const char *name);

/* Calls visit for each function that the module exports: the name is its symbol's, and low to high
 * its code. */
void image_functions_each(const struct module *module,
                          void (*visit)(const char *name, uintptr_t low, uintptr_t high,
                                        void *state),
                          void *state);

/* Its DT_SONAME, "" without one. */
const char *image_soname(const struct module *module);

#endif
