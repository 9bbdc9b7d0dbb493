/* A size on the command line, as the options of the library take it. */
#ifndef POOLCUDA_CLI_SIZE_ARGUMENT_H
#define POOLCUDA_CLI_SIZE_ARGUMENT_H

#include "base/written.h"
#include "cli/usage.h"

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

static const double most_memory = 0x1p42; /* of a simulated device, in bytes */

/* what: the option's name, or what the argument is. */
static inline uint64_t size_argument_from(const char *what, const char *text, double least,
                                          const char *expected, struct argp_state *state) {
    double number;
    uint64_t bytes = 0;
    const char *behind = text;
    if (!written_number(&behind, &number) || !written_size(behind, number, &bytes) ||
        (double)bytes < least || (double)bytes > most_memory)
        usage_error(state, "%s: \"%s\": expected a size from %s to 4T, such as 80G", what, text,
                    expected);
    return bytes;
}

/* A device's memory. Ends the program with one line (argp) if it is none. */
static inline uint64_t size_argument(const char *what, const char *text, struct argp_state *state) {
    return size_argument_from(what, text, 1 << 21, "2M", state);
}

/* The memory of a simulated device if none was given. It is no real one's. */
static inline uint64_t memory_or_default(uint64_t memory, bool gpu, struct argp_state *state) {
    if (memory && gpu)
        usage_error(state,
                    "--memory: expected without --gpu, as it is what a simulated device has");
    return memory ? memory : (uint64_t)80 << 30;
}

/* Any number of bytes but none. */
static inline uint64_t bytes_argument(const char *what, const char *text,
                                      struct argp_state *state) {
    return size_argument_from(what, text, 1, "1", state);
}

#endif
