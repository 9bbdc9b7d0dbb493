/* What the environment says about the simulated machine: SIMCUDA_* variables. */
#ifndef SIMCUDA_SETTINGS_H
#define SIMCUDA_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#define SETTING_TYPE_COUNT uint64_t
#define SETTING_TYPE_SIZE  uint64_t
#define SETTING_TYPE_RATE  double

struct settings {
#define SETTING(field, kind, minimum, maximum, initial, help) SETTING_TYPE_##kind field;
#include "settings.def"
#undef SETTING
    const char *report;      /* SIMCUDA_REPORT: where the report goes at exit, NULL: nowhere */
    const char *fail_caller; /* SIMCUDA_FAIL_CALLER: part of a module's path; NULL: every caller */
    const char *shared;      /* SIMCUDA_SHARED: see shared_memory.h; NULL: nothing is shared */
    bool hazard_aborts;      /* SIMCUDA_HAZARD=abort instead of report */
    bool skips_kernels;      /* SIMCUDA_KERNELS=skip instead of run */
    bool interprets_all;     /* SIMCUDA_KERNELS=interpret: no kernel by a shortcut */
};

/* Read once, at the first call; a bad value is reported on stderr and its default used. */
const struct settings *settings(void);

#endif
