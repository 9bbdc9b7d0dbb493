/* Hashes of words and of call sites, and uthash as the library uses it: keys are one or more 64-bit
 * words, and without memory for a table an addition fails, which leaves the element's handle
 * without one (`hh.tbl`). */
#ifndef POOLCUDA_BASE_HASH_H
#define POOLCUDA_BASE_HASH_H

#include "base/call_site.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* A word whose upper bits depend on all of the word's. */
static inline uint64_t hash_word(uint64_t word) {
    return word * 0x9e3779b97f4a7c15u;
}

/* A word that stands for the site: its one frame, or all of them mixed, so that two sites as good
 * as never have the same. */
static inline uintptr_t site_id(const struct call_site *site) {
    uintptr_t id = site->frames[0];
    for (uintptr_t i = 1; i < site->depth; i++)
        id = hash_word(id) ^ site->frames[i];
    return id;
}

static inline unsigned hash_words(const void *key, size_t length) {
    uint64_t hash = 0;
    for (size_t i = 0; i < length / sizeof(uint64_t); i++) {
        uint64_t word;
        __builtin_memcpy(&word, (const char *)key + i * sizeof word, sizeof word);
        hash = hash_word(hash ^ word);
    }
    return (unsigned)(hash >> 32);
}

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, length, hash)                                                           \
    do {                                                                                           \
        (hash) = hash_words(key, length);                                                          \
    } while (0)
#define uthash_malloc(size) calloc(1, size)
#include <uthash.h>

#endif
