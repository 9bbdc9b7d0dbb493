/* A replay's result as a JSON object, written and read: docs/tuning.md describes it. */
#ifndef POOLCUDA_CLI_RESULT_JSON_H
#define POOLCUDA_CLI_RESULT_JSON_H

#include "cli/replay.h"

#include <jansson.h>

enum { RESULT_VERSION = 1 };

/* What is printed where the driver of --gpu is the simulated one. */
#define RESULT_SIMULATED_GPU                                                                       \
    "the GPU is the simulated one: the libcuda.so.1 that is found here is its driver"

/* The whole numbers of a result, by their names in JSON: RESULT(name, text). */
#define RESULT_NUMBERS(X)                                                                          \
    X(allocations, "allocations")                                                                  \
    X(frees, "frees")                                                                              \
    X(hits, "served from idle memory")                                                             \
    X(driver_allocs, "driver allocations")                                                         \
    X(driver_frees, "driver frees")                                                                \
    X(map_calls, "map and unmap calls")                                                            \
    X(peak_live_bytes, "peak live")                                                                \
    X(peak_held_bytes, "peak held")                                                                \
    X(oom_failures, "failed allocations")                                                          \
    X(waits, "waits for the device")

/* A file's name as a string in UTF-8, which it need not be. A new reference; NULL without memory.
 */
json_t *result_name(const char *name);

/* A new reference; NULL without memory. `options`: what was set, as the environment has it. */
json_t *result_to_json(const struct replay_result *result, const char *trace, uint64_t memory,
                       bool gpu, const char *options);

/* Reads a file that `poolcuda replay --json` wrote. False after one line in error. */
bool result_from_file(const char *path, struct replay_result *result, char *error,
                      size_t error_size);

#endif
