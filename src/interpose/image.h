/* Reads the dynamic section of a loaded module: what it imports, what it defines and what it is
 * called. The loader is not asked: a thread may have its lock that runs a library's constructor and
 * waits for ours. */
#ifndef POOLCUDA_INTERPOSE_IMAGE_H
#define POOLCUDA_INTERPOSE_IMAGE_H

#include "base/modules.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A module's tables, which belong to it.
 * Invariant: pointers are NULL where the module has no such table. Imports come before the first
 * hashed symbol; imports counts the table's head up to there. */
struct image {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions;
    const ElfW(Verneed) * needed;
    const ElfW(Verdef) * defined;
    const uint32_t *gnu_hash, *hash;
    const ElfW(Rela) * tables[2];
    size_t table_bytes[2];
    size_t imports;
    const char *soname;
};

void image_open(const struct module *module, struct image *opened);

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

/* As image_find_function, of a module that has been opened. hash: image_hash of the name. */
uintptr_t image_find(const struct image *image, const char *name, uint32_t hash,
                     const char *version);
uint32_t image_hash(const char *name);
/* Whether it has no symbol of that name, by a quick look that may say false of one that has not. */
bool image_surely_lacks(const struct image *image, const char *name);

/* The places where the loader has put the addresses of symbols: how many there may be, and the one
 * of that number, NULL if it is none. *own: the address of the module's own variable of the
 * symbol's name, 0 if it has none. */
size_t image_slots(const struct image *image);
uintptr_t *image_slot(const struct image *image, size_t number, uintptr_t *own);

/* Its DT_SONAME, "" without one. */
const char *image_soname(const struct module *module);

#endif
