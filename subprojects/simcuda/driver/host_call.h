/* Functions of the program as nodes of graphs. */
#ifndef SIMCUDA_HOST_CALL_H
#define SIMCUDA_HOST_CALL_H

#include "op.h"

struct op *host_call_op(CUhostFn function, void *data);

#endif
