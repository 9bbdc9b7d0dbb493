#include "slurm/request.h"

#include "format.h"

struct step_name step_name(unsigned job, unsigned step, unsigned restarts) {
    struct step_name name;
    if (restarts)
        format(name.text, sizeof name.text, "%u.%u.restart%u", job, step, restarts);
    else
        format(name.text, sizeof name.text, "%u.%u", job, step);
    return name;
}
