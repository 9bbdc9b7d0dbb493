#include "slurm/line.h"

#include "options/options.h"

#include <stdarg.h>
#include <stdio.h>

#pragma GCC visibility push(default)
#include <slurm/spank.h>
#pragma GCC visibility pop

void tell_line(const char *pattern, ...) {
    char line[4 * OPTION_PATH_MAX];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(line, sizeof line, pattern, arguments);
    va_end(arguments);
    for (char *at = line; *at; at++)
        if ((unsigned char)*at < ' ' || *at == '\x7f')
            *at = '?';
    slurm_spank_log("poolcuda: %s", line);
}
