#include "cli/commands.h"

const struct command command_table[] = {
#define COMMAND(name, arguments, pools, help)                                                      \
    {#name, help, &name##_argp, command_##name, ARGUMENTS_##arguments, COMMAND_##pools},
#include "cli/commands.def"
#undef COMMAND
};
const size_t command_count = sizeof command_table / sizeof command_table[0];
