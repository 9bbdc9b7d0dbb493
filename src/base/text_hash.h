/* A text's hash, all of whose upper bits depend on every byte. */
#ifndef POOLCUDA_BASE_TEXT_HASH_H
#define POOLCUDA_BASE_TEXT_HASH_H

#include <stdint.h>

static inline uint64_t text_hash(const char *text) {
    uint64_t hash = 1;
    while (*text)
        hash = (hash ^ (unsigned char)*text++) * 0x9e3779b97f4a7c15u;
    return hash;
}

#endif
