/* Looks places up in a child process: a damaged or hostile file can do no more than end it, and
 * what the lookup took of memory and time is bounded and given back. */
#ifndef POOLCUDA_CLI_SYMBOL_CHILD_H
#define POOLCUDA_CLI_SYMBOL_CHILD_H

#include "cli/symbol_file.h"

/* Calls `found` for each function at each offset, in order, inlined ones first; the texts live
 * until it returns. `found` gets what was found until the file turned out to be damaged, too. */
enum symbol_file_state
symbol_child_find(const struct symbol_module *module, const uint64_t *offsets, size_t count,
                  void (*found)(size_t index, const struct symbol *symbol, void *state),
                  void *state);

#endif
