/* Where a statically linked CUDA runtime lies in a module that still has its symbol table. */
#ifndef POOLCUDA_INTERPOSE_RUNTIME_SYMBOLS_H
#define POOLCUDA_INTERPOSE_RUNTIME_SYMBOLS_H

#include "base/modules.h"

#include <stdbool.h>
#include <stdint.h>

enum { RUNTIME_ENTRIES_MAX = 16 };

/* The runtime functions through which programs allocate, free and launch, as ranges of loaded code.
 */
struct runtime_entries {
    int count;
    struct {
        uintptr_t low, high;
    } range[RUNTIME_ENTRIES_MAX];
};

/* Reads the symbol table of the module's file. count is 0 if the file is stripped, has no runtime
 * in it, cannot be read, or is not the file that was loaded. */
void runtime_symbols_read(const struct module *module, struct runtime_entries *entries);

bool runtime_symbols_contain(const struct runtime_entries *entries, uintptr_t address);

/* Calls visit for each function in the symbol table of the module's file: the name is its symbol's,
 * and low to high its loaded code. None if there is no table, or the file is not the one that was
 * loaded. */
void runtime_symbols_each(const struct module *module,
                          void (*visit)(const char *name, uintptr_t low, uintptr_t high,
                                        void *state),
                          void *state);

#endif
