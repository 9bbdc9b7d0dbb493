/* What srun tells of a step when it has ended. */
#ifndef POOLCUDA_SLURM_SUMMARY_H
#define POOLCUDA_SLURM_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>

/* Runs `command report --brief` of a step's folder, which adds up its ranks' figures: in a process
 * of its own, since what is in files is no concern of srun's. Writes its one line without the
 * newline, "" if there is none: the command cannot be run, or there are no figures. False: a signal
 * has ended it, as Ctrl-C does. */
bool summary_ask(const char *command, const char *folder, char *line, size_t size);

#endif
