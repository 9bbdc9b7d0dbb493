/* Code that allocates on behalf of others: libffi, bindings of other languages, plugins,
 * allocators. The table is go_betweens.def. */
#ifndef POOLCUDA_INTERPOSE_GO_BETWEEN_H
#define POOLCUDA_INTERPOSE_GO_BETWEEN_H

#include "base/modules.h"

#include <stdbool.h>
#include <stdint.h>

/* More of them, as the text of POOLCUDA_SITE_SKIP; it is kept. Called once, before all else. */
void go_between_name(const char *list);

/* Whether the call that returns to `address` was made by a go-between. LOCK_LOADER held. */
bool go_between_contains(uintptr_t address);

/* Whether go-betweens are anywhere in the module of `address`. LOCK_LOADER held. */
bool go_between_shares_module(uintptr_t address);

#endif
