/* Choosing a setting of the pool for a trace: which ones are tried, which are worth having, which
 * one to take. */
#ifndef POOLCUDA_CLI_TUNE_H
#define POOLCUDA_CLI_TUNE_H

#include "cli/replay.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TUNE_VARIABLES = 192 };

/* One setting and what it did. */
struct tune_setting {
    char variables[TUNE_VARIABLES]; /* NAME=VALUE NAME=VALUE ...; "" is the default */
    const char *preset;             /* the variables', or what the user has fixed */
    bool transparent;               /* nothing but speed changes: see docs/policies.md */
    bool cuts;                      /* memory is cut or remapped, not reused in whole blocks */
    bool front;                     /* no other makes fewer driver calls and holds no more */
    struct replay_result result;
};

/* What was tried. Free with tune_free. */
struct tune {
    struct tune_setting *settings;
    size_t count;
    const struct tune_setting *recommended; /* one of them */
    const struct tune_setting *safe; /* the same among those that are transparent; NULL: none is */
};

/* Settings to try for a program that had peak_live_bytes live at its peak; gpu: on a real one. What
 * the environment fixes is left as it is; who fixes the preset or the policy wants no other.
 * Returns false without memory. */
bool tune_list(struct tune *tune, uint64_t peak_live_bytes, bool gpu);

/* Notes the policy that a setting comes to. */
void tune_note_policy(struct tune_setting *setting, const struct policy *policy);

/* Everything that the driver did for a setting: allocations, frees, maps and unmaps. */
uint64_t tune_calls(const struct replay_result *result);

/* Once every setting has its result: marks the front, and recommends what takes least time by the
 * model among the front's settings with the fewest failed allocations that hold at most `most`
 * bytes; the one that holds least if none does. gpu: time is what was measured instead. */
void tune_judge(struct tune *tune, uint64_t most, bool gpu);

void tune_free(struct tune *tune);

#endif
