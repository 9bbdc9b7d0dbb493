/* `poolcuda top` on a terminal. */
#ifndef POOLCUDA_CLI_TOP_SCREEN_H
#define POOLCUDA_CLI_TOP_SCREEN_H

#include "cli/live_rows.h"

/* Whether standard output is a terminal that can show it. */
bool top_screen_possible(void);

/* Shows the rows until the user quits, taking them anew each `interval` seconds. False, with one
 * line in `error`, if they cannot be read any more. */
bool top_screen(double interval, enum live_key key, enum live_scope scope, char *error,
                size_t error_size);

#endif
