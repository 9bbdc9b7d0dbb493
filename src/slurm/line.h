/* Lines for the user, on srun's standard error. */
#ifndef POOLCUDA_SLURM_LINE_H
#define POOLCUDA_SLURM_LINE_H

/* One line, whatever is in it: control characters of paths and values become question marks. */
__attribute__((format(printf, 1, 2))) void tell_line(const char *pattern, ...);

#endif
