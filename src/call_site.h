/* An allocation site: who asked for memory, as return addresses, innermost first. */
#ifndef POOLCUDA_CALL_SITE_H
#define POOLCUDA_CALL_SITE_H

#include <stdint.h>

enum { CALL_SITE_MAX_DEPTH = 4 };

/* Invariant: 1 <= depth <= CALL_SITE_MAX_DEPTH; frames[depth..] are zero, so that sites compare
 * as bytes. frames[0] is the first return address outside libpoolcuda and the CUDA runtime, or 0
 * when it could not be found. */
struct call_site {
    uintptr_t frames[CALL_SITE_MAX_DEPTH];
    uintptr_t depth; /* a whole word: the struct has no padding */
};

/* A word that stands for the site: its one frame, or all of them mixed, so that two sites as good
 * as never have the same. */
static inline uintptr_t site_id(const struct call_site *site) {
    uintptr_t id = site->frames[0];
    for (uintptr_t i = 1; i < site->depth; i++)
        id = id * (uintptr_t)0x9e3779b97f4a7c15u ^ site->frames[i];
    return id;
}

#endif
