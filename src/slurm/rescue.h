/* The last figures of tasks that have ended without a last word: killed, aborted, by _exit. */
#ifndef POOLCUDA_SLURM_RESCUE_H
#define POOLCUDA_SLURM_RESCUE_H

#include <stddef.h>
#include <sys/types.h>

/* Whose tasks they are. */
struct rescue_user {
    uid_t user;
    gid_t group, *groups;
    size_t group_count;
};

/* In slurmstepd, on the tasks' node: has `command top --once` clear away what dead processes of the
 * user have left, by which their figures come into their files. In a process of its own with the
 * user's rights, since what is there is the user's. Waits for it, for some seconds at most; whether
 * it worked is of no concern to the step. */
void rescue_figures(const char *command, const struct rescue_user *user);

#endif
