/* A running process on the command line, as `poolcuda top` names it. */
#ifndef POOLCUDA_CLI_PROCESS_ARGUMENT_H
#define POOLCUDA_CLI_PROCESS_ARGUMENT_H

#include <argp.h>
#include <string.h>

/* Ends the program with one line (argp) if it is none: 123, 123-4026531836 (of another pid
 * namespace) or `all`. */
static inline const char *process_argument(const char *text, const struct argp_state *state) {
    static const char digits[] = "0123456789";
    size_t length = strspn(text, digits), more = 0;
    if (text[length] == '-')
        more = 1 + strspn(text + length + 1, digits);
    if (strcmp(text, "all") != 0 && (length == 0 || more == 1 || text[length + more]))
        argp_error(state, "\"%.40s\": expected a process id, or `all`", text);
    return text;
}

#endif
