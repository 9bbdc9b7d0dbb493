/* Fills as nodes of graphs. */
#ifndef SIMCUDA_MEMSET_H
#define SIMCUDA_MEMSET_H

#include "op.h"

/* Fills some elements. Lock held. */
CUresult memset_op(const struct fill *fill, struct op **op);

#endif
