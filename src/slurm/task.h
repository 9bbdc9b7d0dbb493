/* A task's part: sets what its program is to be started with. */
#ifndef POOLCUDA_SLURM_TASK_H
#define POOLCUDA_SLURM_TASK_H

#include "slurm/site.h"

#pragma GCC visibility push(default)
#include <slurm/spank.h>
#pragma GCC visibility pop

/* In the process that becomes the task's program, as the task's user. Where the program cannot be
 * pooled, it runs unpooled: site is NULL where this node's configuration is bad, which problem
 * says. */
void task_prepare(spank_t spank, const struct site *site, const char *problem);

#endif
