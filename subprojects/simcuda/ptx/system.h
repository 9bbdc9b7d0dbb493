/* Functions that every device has: vprintf, malloc, free, __assertfail,
 * cudaGraphSetConditional. */
#ifndef SIMCUDA_PTX_SYSTEM_H
#define SIMCUDA_PTX_SYSTEM_H

#include "program.h"

/* NULL: it is none of them. It runs as a call's handler would, with the parameters in the caller's
 * frame. */
handler *system_function(const char *name);

#endif
