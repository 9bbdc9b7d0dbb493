/* Which of the deliberate faults is switched on: the one that $POOLCUDA_PLANT names. */
#include "base/planted.h"

#include <stdlib.h>
#include <string.h>

bool planted(const char *name) {
    const char *wanted = getenv("POOLCUDA_PLANT");
    return wanted && strcmp(wanted, name) == 0;
}
