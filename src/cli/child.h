/* Starts a program and stands for it: what this process is sent reaches the program, and its end is
 * this process's. */
#ifndef POOLCUDA_CLI_CHILD_H
#define POOLCUDA_CLI_CHILD_H

#include <sys/types.h>

/* Starts argv[0], searched for in PATH, with the environment as it is, and waits for its end. It
 * stays in this process's group, so that the terminal treats it as if started directly. Meanwhile
 * - what another process sends to this one is sent on; what the terminal sends the group has
 * already;
 * - while it is stopped, so is this process.
 * Once it runs, this process holds none of the files that it has inherited but standard error.
 * Returns 0 and its status as of waitpid; or the errno because of which it could not be started. */
int child_run(char *const *argv, int *status);

/* Ends this process as the child ended: the same exit code, or the same signal, then without a core
 * file of its own. */
_Noreturn void child_end_alike(int status);

#endif
