/* A progress bar on standard error, where that is a terminal; nothing elsewhere. */
#ifndef POOLCUDA_CLI_PROGRESS_H
#define POOLCUDA_CLI_PROGRESS_H

/* Shows that `share` (0 to 1) of the work is done, and what is being done. */
void progress_show(double share, const char *doing);
void progress_end(void); /* takes the bar away */

#endif
