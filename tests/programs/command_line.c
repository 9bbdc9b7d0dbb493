/* Writes the folder that it was started in and its arguments to the file $SAW, each text ended by a
 * zero; then does to its arguments what programs do ($THEN), and uses CUDA. */
#include "driver_functions.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void tell(FILE *out, const char *text) {
    fwrite(text, 1, strlen(text) + 1, out);
}

static void write_down(int argc, char **argv) {
    const char *name = getenv("SAW");
    char folder[4096];
    FILE *out = name ? fopen(name, "w") : NULL;
    if (!out || !getcwd(folder, sizeof folder))
        exit(1);
    tell(out, folder);
    for (int i = 0; i < argc; i++)
        tell(out, argv[i]);
    if (fclose(out) != 0)
        exit(1);
}

/* As setproctitle does. */
static void write_title(int argc, char **argv) {
    char *end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;
    memset(argv[0], 'x', (size_t)(end - argv[0]) - 1);
}

/* As getopt does. */
static void permute(int argc, char **argv) {
    for (int i = 1, j = argc - 1; i < j; i++, j--) {
        char *moved = argv[i];
        argv[i] = argv[j];
        argv[j] = moved;
    }
}

int main(int argc, char **argv) {
    struct driver_functions functions = {cuInit, cuDevicePrimaryCtxRetain, cuCtxSetCurrent,
                                         cuMemAlloc_v2, cuMemFree_v2};
    const char *given = getenv("THEN"), *then = given ? given : "";
    write_down(argc, argv);
    if (strcmp(then, "title") == 0)
        write_title(argc, argv);
    if (strcmp(then, "permute") == 0)
        permute(argc, argv);
    if (strcmp(then, "leave") == 0 && chdir("/") != 0)
        return 1;
    driver_functions_loop(&functions);
    if (strcmp(then, "die") == 0)
        raise(SIGKILL);
    return 0;
}
