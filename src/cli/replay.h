/* Replaying a trace against the pool, on the simulated GPU or a real one. */
#ifndef POOLCUDA_CLI_REPLAY_H
#define POOLCUDA_CLI_REPLAY_H

#include "pool/pool.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

struct replay_result;

struct replay_settings {
    struct pool_config config;
    bool native;     /* without the pool: every call goes to the driver */
    bool gpu;        /* on the real driver instead of the simulated one */
    uint64_t memory; /* bytes of each simulated device */

    /* Asked now and then in the process that replays: true ends the replay, whose result is then
     * that of its beginning. Figures that are sums or peaks only grow. NULL: it goes to the end. */
    bool (*is_hopeless)(const struct replay_result *so_far, const void *state);
    const void *state;
};

/* What was done by the end of an eighth of the trace's events, or of several. */
enum { REPLAY_PARTS = 8 };
struct replay_part {
    uint64_t allocations, frees, hits;
    double modelled_seconds, host_seconds;
};

/* What a replay did. All bytes are device memory. */
struct replay_result {
    uint64_t events; /* that were replayed: all of the trace's, or it was ended before */
    uint64_t allocations, frees, hits;    /* hits: served without physical memory from the driver */
    uint64_t driver_allocs, driver_frees; /* of physical memory: cuMemAlloc, cuMemCreate, ... */
    uint64_t map_calls;       /* cuMemMap, cuMemUnmap, cuMemSetAccess: what remapping costs */
    uint64_t peak_live_bytes; /* as requested */
    uint64_t peak_held_bytes; /* by the pool, from the driver */
    double fragmentation;    /* of idle memory at the peak held: what is not in its largest block */
    double worst_held_ratio; /* maximum over time of held / (running peak of requested + 64 MiB) */
    uint64_t oom_failures;   /* allocations that failed */
    uint64_t waits;          /* frees and allocations that waited for the device */
    bool simulated;          /* the driver was the simulated GPU's: with gpu it may be, too */
    double modelled_seconds; /* what the driver's calls cost by the simulated GPU's model; 0 with
                                gpu */
    double host_seconds;     /* real time spent inside malloc and free */
    uint32_t part_count;     /* of the trace, that were replayed */
    struct replay_part parts[REPLAY_PARTS];
};

static inline double result_hit_rate(const struct replay_result *result) {
    return result->allocations ? (double)result->hits / (double)result->allocations : 0;
}

/* False after one line in `error`: the trace is of more devices than a replay has. path: its file.
 */
bool replay_is_possible(const struct trace *trace, const char *path, char *error,
                        size_t error_size);

/* Replays `trace`, in a child process, so that replays do not see each other. Returns false after
 * one line in `error` (no driver, the child died, ...). progress (may be NULL) is called in this
 * process now and then with the share done, 0 to 1. */
bool replay_run(const struct trace *trace, const struct replay_settings *settings,
                struct replay_result *result, void (*progress)(double share, void *state),
                void *state, char *error, size_t error_size);

#endif
