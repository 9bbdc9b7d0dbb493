/* The line that reports a hazard. */
#ifndef SIMCUDA_HAZARD_REPORT_H
#define SIMCUDA_HAZARD_REPORT_H

#include "entry.h"

#include <stdint.h>

struct hazard_text {
    const char *kind;
    uintptr_t old_begin, old_end, new_begin; /* where memory was allocated and freed; 0: unknown */
    const char *old_name, *new_name;         /* of the operations */
    CUdeviceptr begin, end;
};

void hazard_report(const struct hazard_text *hazard);

#endif
