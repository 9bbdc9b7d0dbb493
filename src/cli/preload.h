/* The value of LD_PRELOAD that puts libpoolcuda.so before what is preloaded already: it calls what
 * stands behind it, while another tool's dlsym before it may hide it. */
#ifndef POOLCUDA_CLI_PRELOAD_H
#define POOLCUDA_CLI_PRELOAD_H

#include <stdbool.h>

/* Whether it can be a part of the value: spaces and colons separate paths there. */
bool preload_can_hold(const char *path);

/* `value` (NULL: unset) with libpoolcuda.so, whose path is `library`, before it, but for
 * AddressSanitizer's runtime, which has to come first; `value` as it is if it names a
 * libpoolcuda.so already that ld.so can load. Spaces and colons separate paths there, and nothing
 * quotes them: for a library with such a path a link is made in a temporary folder, to be removed
 * by preload_remove_link once no program is going to be started with this value. NULL if that
 * cannot be made, or without memory. The caller frees the value. */
char *preload_value(const char *value, const char *library);

/* The same, but that this library counts and no other: `value` as it is if it begins with that very
 * file, else with it before the rest, in which no libpoolcuda.so is named any more. The path is one
 * that the value can hold. */
char *preload_value_of(const char *value, const char *library);

void preload_remove_link(void);

/* Starts this program anew, as argv has it, without libpoolcuda.so if that is preloaded: for what
 * calls a driver by itself, where LD_PRELOAD is set for a whole shell or job. Returns otherwise. */
void preload_leave(char *const *argv);

#endif
