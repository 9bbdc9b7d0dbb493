/* Writes the folder that it was started in and its arguments to the file $SAW, each text ended by a
 * zero; then does to its arguments what programs do ($THEN), and uses CUDA. */
#include "driver_functions.h"

#include <dlfcn.h>
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

/* Cuts the arguments off at `at`, and then opens the library $OPENS, whose constructors get what is
 * left. */
static void cut(char **argv, int at) {
    const char *library = getenv("OPENS");
    argv[at] = NULL;
    if (!library || !dlopen(library, RTLD_NOW))
        exit(1);
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
    if (strcmp(then, "cut") == 0)
        cut(argv, 1);
    if (strcmp(then, "cut all") == 0)
        cut(argv, 0);
    if (strcmp(then, "leave") == 0 && chdir("/") != 0)
        return 1;
    driver_functions_loop(&functions);
    if (strcmp(then, "die") == 0)
        raise(SIGKILL);
    return 0;
}
