/* poolcuda preload: prints what LD_PRELOAD is to be set to, wherever the library was installed. */
#include "cli/commands.h"
#include "cli/installed.h"
#include "cli/preload.h"
#include "cli/printable.h"
#include "cli/usage.h"

#include <argp.h>
#include <limits.h>
#include <stdio.h>

static error_t parse(int key, char *argument, struct argp_state *state) {
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    usage_error(state, "%s: expected no argument", usage_word(argument));
    return 0;
}

const struct argp preload_argp = {
    .parser = parse,
    .doc = "Prints the path of the libpoolcuda.so that was installed together with this command: "
           "LD_PRELOAD=$(poolcuda preload) ./app runs a program with its memory pooled. By its "
           "name alone the library is found only in a folder that ld.so searches.",
};

int command_preload(int argc, char **argv) {
    char library[PATH_MAX];
    argp_parse(&preload_argp, argc, argv, 0, NULL, NULL);
    if (!installed_library(library)) {
        fputs("poolcuda preload: libpoolcuda.so: not found, expected it where it was installed "
              "together with this command\n",
              stderr);
        return 1;
    }
    if (!preload_can_hold(library)) {
        fprintf(
            stderr,
            "poolcuda preload: %s: LD_PRELOAD cannot hold a path with spaces or colons; expected "
            "it elsewhere, or use `poolcuda run`\n",
            printable(library));
        return 1;
    }
    puts(library);
    return 0;
}
