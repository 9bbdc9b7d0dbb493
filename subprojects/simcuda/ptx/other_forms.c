/* What is in no other table. */
#include "compute.h"

const struct form other_forms[] = {
    {NULL, NULL, NULL, NULL},
};
