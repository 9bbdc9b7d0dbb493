/* uthash as the library uses it: keys are one or more 64-bit words, and without memory for a table
 * an addition fails, which leaves the element's handle without one (`hh.tbl`). */
#ifndef POOLCUDA_HASH_TABLE_H
#define POOLCUDA_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static inline unsigned hash_words(const void *key, size_t length) {
    uint64_t hash = 0;
    for (size_t i = 0; i < length / sizeof(uint64_t); i++) {
        uint64_t word;
        __builtin_memcpy(&word, (const char *)key + i * sizeof word, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
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
