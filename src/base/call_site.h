/* An allocation site: who asked for memory, as return addresses, innermost first. */
#ifndef POOLCUDA_BASE_CALL_SITE_H
#define POOLCUDA_BASE_CALL_SITE_H

#include <stdint.h>

enum { CALL_SITE_MAX_DEPTH = 4 };

/* Invariant: 1 <= depth <= CALL_SITE_MAX_DEPTH; frames[depth..] are zero, so that sites compare
 * as bytes. frames[0] is the first return address outside libpoolcuda and the CUDA runtime, or 0
 * when it could not be found. */
struct call_site {
    uintptr_t frames[CALL_SITE_MAX_DEPTH];
    uintptr_t depth; /* a whole word: the struct has no padding */
};

#endif
