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
    const struct tune_setting *safe; /* the best of those that are transparent; NULL: none is */
    const struct tune_setting *recommended; /* the one answer */
    const struct tune_setting *alternative; /* transparent if that is not, faster, but not
                                             * transparent, if it is; NULL: there is none */
};

/* Settings to try for a program that had peak_live_bytes live at its peak; gpu: on a real one. What
 * the environment fixes is left as it is; who fixes the preset or the policy wants no other.
 * Returns false without memory. */
bool tune_list(struct tune *tune, uint64_t peak_live_bytes, bool gpu);

/* Notes the policy that a setting comes to. */
void tune_note_policy(struct tune_setting *setting, const struct policy *policy);

/* Everything that the driver did for a setting: allocations, frees, maps and unmaps. */
uint64_t tune_calls(const struct replay_result *result);

/* What a setting must do to be recommended. */
struct tune_wish {
    uint64_t most; /* bytes that it may hold */
    bool strictly; /* as a transparent one must, too, where another does */
    bool any;      /* it need not be transparent */
    bool gpu;      /* time is what was measured, not the model's */
};

/* Once every setting has its result: marks the front, and recommends what takes least time among
 * the transparent settings with the fewest failed allocations that hold at most `most` bytes; the
 * one that holds least if none does. Where none is transparent, or none serves as many allocations
 * or keeps a strict bound as others do: the same among the settings of the front. */
void tune_judge(struct tune *tune, const struct tune_wish *wish);

void tune_free(struct tune *tune);

#endif
