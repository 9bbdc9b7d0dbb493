/* A size on the command line: 512M, 80G, bytes without a unit. */
#ifndef POOLCUDA_CLI_SIZE_ARGUMENT_H
#define POOLCUDA_CLI_SIZE_ARGUMENT_H

#include "cli/usage.h"

#include <argp.h>
#include <stdint.h>
#include <string.h>

static const double most_memory = 0x1p42; /* of a simulated device, in bytes */

/* what: the option's name, or what the argument is. */
static inline uint64_t size_argument_from(const char *what, const char *text, double least,
                                          const char *expected, struct argp_state *state) {
    static const char units[] = "kmgt";
    double number;
    const char *end = usage_decimal(text, &number);
    const char *unit = end && *end ? strchr(units, *end | 32) : NULL;
    if (unit)
        for (const char *u = units; u <= unit; u++)
            number *= 1024;
    if (!end || !(number >= least) || number > most_memory || (unit ? end[1] : *end))
        usage_error(state, "%s: \"%s\": expected a size from %s to 4T, such as 80G", what, text,
                    expected);
    return (uint64_t)number;
}

/* A device's memory. Ends the program with one line (argp) if it is none. */
static inline uint64_t size_argument(const char *what, const char *text, struct argp_state *state) {
    return size_argument_from(what, text, 1 << 21, "2M", state);
}

/* Any number of bytes but none. */
static inline uint64_t bytes_argument(const char *what, const char *text,
                                      struct argp_state *state) {
    return size_argument_from(what, text, 1, "1", state);
}

#endif
