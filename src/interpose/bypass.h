/* Finds modules whose CUDA calls do not come past us, for the report at exit. */
#ifndef POOLCUDA_INTERPOSE_BYPASS_H
#define POOLCUDA_INTERPOSE_BYPASS_H

#include <stdbool.h>

/* Notes in the stats page every loaded module that is bound to the loader's or the driver's own
 * functions instead of ours, as a module opened with RTLD_DEEPBIND is. Reads memory only. */
void bypass_report(void);

/* Whether any module is bound past us just now. */
bool bypass_exists(void);

#endif
