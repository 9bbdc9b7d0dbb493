/* A running process on the command line, as `poolcuda top` names it. */
#ifndef POOLCUDA_CLI_PROCESS_ARGUMENT_H
#define POOLCUDA_CLI_PROCESS_ARGUMENT_H

#include "cli/usage.h"

#include <argp.h>
#include <limits.h>
#include <string.h>

/* Ends the program with one line (argp) if it is none: 123, 123-4026531836 (of another pid
 * namespace) or `all`. */
static inline const char *process_argument(const char *text, const struct argp_state *state) {
    char own[16] = "";
    unsigned long process, namespace_id;
    const char *dash = strchr(text, '-');
    size_t length = dash ? (size_t)(dash - text) : strlen(text);
    memcpy(own, text, length < sizeof own ? length : 0);
    if (strcmp(text, "all") != 0 &&
        (!usage_whole_number(own, 1, INT_MAX, &process) ||
         (dash && !usage_whole_number(dash + 1, 1, UINT_MAX, &namespace_id))))
        usage_error(state, "\"%.40s\": expected a process id, or `all`", text);
    return text;
}

#endif
