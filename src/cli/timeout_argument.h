/* How long an answer is waited for, on the command line: seconds. */
#ifndef POOLCUDA_CLI_TIMEOUT_ARGUMENT_H
#define POOLCUDA_CLI_TIMEOUT_ARGUMENT_H

#include "cli/usage.h"

#include <argp.h>

#define TIMEOUT_DEFAULT 2.0
#define TIMEOUT_HELP    "seconds to wait for the answer, 2 by default"

/* Ends the program with one line (argp) if it is none. */
static inline double timeout_argument(const char *text, struct argp_state *state) {
    double seconds;
    const char *end = usage_decimal(text, &seconds);
    if (!end || *end || !(seconds >= 0.01 && seconds <= 3600))
        usage_error(state, "--timeout=%s: expected seconds from 0.01 to 3600", text);
    return seconds;
}

#endif
