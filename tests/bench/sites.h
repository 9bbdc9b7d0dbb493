/* Places in the code that allocate: SITES functions, each a call site of its own. */
#ifndef BENCH_SITES_H
#define BENCH_SITES_H

#include <stddef.h>
#include <stdint.h>

enum { SITES = 64 };

/* Allocate at site number `site` % SITES; free. A failure ends the program. */
uintptr_t site_malloc(unsigned site, size_t bytes);
void site_free(uintptr_t pointer, size_t bytes);

#endif
