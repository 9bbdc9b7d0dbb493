/* Runs random programs, each in a process of its own:
 *   programs PROFILE RELIES FIRST COUNT [LEFT_OUT...]
 * PROFILE as in generate.c; RELIES 1 if the programs may count on a free's wait, plus 2 if they are
 * to use little of the device's memory, plus 4 if they are to free nothing wrongly; FIRST and COUNT
 * are seeds; LEFT_OUT are numbers of operations not to run. Writes what the programs saw, each
 * headed by its seed and followed by how it ended. */
#include "concurrent.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int run_one(const struct program *program) {
    fflush(stdout);
    pid_t child = fork(); /* CUDA has not been used here, so the child may */
    if (child == 0) {
        const char *hang = getenv("PROGRAM_HANGS_AFTER");
        alarm(hang && atoi(hang) > 0 ? (unsigned)atoi(hang) : 600); /* if it hangs */
        if (getenv("SIMCUDA_STUCK"))                                /* which ends it where it is */
            setvbuf(stdout, NULL, _IOLBF, 0);
        program_run(program, stdout);
        exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

/* An operation that is left out, or before which what is held is let go. */
static void note_operation(struct program *program, const char *argument) {
    static const char prefix[] = "let-go:";
    bool let_go = strncmp(argument, prefix, sizeof prefix - 1) == 0;
    int operation = atoi(argument + (let_go ? sizeof prefix - 1 : 0));
    if (operation >= 0 && operation < MAX_OPERATIONS)
        (let_go ? program->let_go : program->left_out)[operation] = true;
}

int main(int argc, char **argv) {
    static struct program program;
    concurrent_register_fork_handlers();
    if (argc < 5) {
        fprintf(stderr,
                "usage: programs PROFILE RELIES FIRST COUNT [LEFT_OUT|let-go:OPERATION...]\n");
        return 2;
    }
    for (int i = 5; i < argc; i++)
        note_operation(&program, argv[i]);
    uint64_t first = strtoull(argv[3], NULL, 10), count = strtoull(argv[4], NULL, 10);
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!program_generate(&program, seed, argv[1])) {
            fprintf(stderr, "programs: no profile %s\n", argv[1]);
            return 2;
        }
        program.relies = atoi(argv[2]) & 1;
        program.roomy = atoi(argv[2]) & 2;
        program.careful = atoi(argv[2]) & 4;
        program.crowds = atoi(argv[2]) & 8;
        program.spreads = atoi(argv[2]) & 16;
        printf("== %llu operations %d\n", (unsigned long long)seed, program.count);
        printf("ended %d\n", run_one(&program));
    }
    return 0;
}
