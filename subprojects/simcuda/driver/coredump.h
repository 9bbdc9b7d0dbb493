/* What programs say of dumps of contexts. */
#ifndef SIMCUDA_COREDUMP_H
#define SIMCUDA_COREDUMP_H

#include "context.h"

void coredump_context_ending(const struct CUctx_st *context); /* lock held */

#endif
