/* When each request of a device is live: what bounds and packings are made from. */
#ifndef POOLCUDA_TRACE_LIVES_H
#define POOLCUDA_TRACE_LIVES_H

#include "trace/bounds.h"

#include <stdlib.h>

/* A request's life: live from moment `start` to before `end`. Moment m is the state after the
 * device's m-th ALLOC or FREE. */
struct life {
    uint64_t size;
    size_t start, end;
    size_t block; /* its number in the trace */
};

/* The lives of one device, in order of start. */
struct lives {
    struct life *life;
    size_t *changed; /* by moment: whose start or end it is */
    size_t count, moments;
    uint64_t peak_bytes;
    size_t peak_count;
};

static inline uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* An array of zeros; NULL without memory, never for a count of 0. Free with free(). */
static inline void *zeroed_array(size_t count, size_t size) {
    return calloc(count ? count : 1, size);
}

/* Lists the lives of one device, or of all (BOUNDS_ALL_DEVICES). False without memory. Free with
 * lives_free. */
bool lives_get(const struct trace *trace, uint32_t device, struct lives *lives);
void lives_free(struct lives *lives);

/* Whether a life starts at the moment; if not, one ends. */
static inline bool lives_start_at(const struct lives *lives, size_t moment) {
    return lives->life[lives->changed[moment]].start == moment;
}

#endif
