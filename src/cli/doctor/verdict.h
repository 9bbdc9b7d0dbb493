/* What follows from all findings: pooling will work, will not, or cannot be known to. */
#ifndef POOLCUDA_CLI_DOCTOR_VERDICT_H
#define POOLCUDA_CLI_DOCTOR_VERDICT_H

#include "cli/doctor/findings.h"

enum verdict {
    VERDICT_WORKS,
    VERDICT_WORKS_NOT,
    VERDICT_CANNOT_KNOW,
};

enum verdict verdict_of(const struct findings *findings);

/* "works", "works-not" or "cannot-know" */
const char *verdict_name(enum verdict verdict);

#endif
