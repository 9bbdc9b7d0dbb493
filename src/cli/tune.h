/* Choosing a setting of the pool for a trace: what a setting costs, which are worth having, which
 * one to take. What is tried: tune_search.h. */
#ifndef POOLCUDA_CLI_TUNE_H
#define POOLCUDA_CLI_TUNE_H

#include "cli/replay.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TUNE_VARIABLES = 256 };

/* One setting and what it did. */
struct tune_setting {
    char variables[TUNE_VARIABLES]; /* NAME=VALUE NAME=VALUE ...; "" is the default */
    unsigned variable_count;
    const char *preset; /* the variables', or what the user has fixed */
    bool transparent;   /* nothing but speed changes: see docs/policies.md */
    bool cuts;          /* memory is cut or remapped, not reused in whole blocks */
    bool cached;        /* threads' caches serve allocations and frees */
    unsigned per_call;  /* instructions of a malloc or free that no cache serves */
    struct pool_config config;
    bool complete; /* replayed to the end: else it cannot be the best */
    bool front;    /* no other makes fewer driver calls and holds no more */
    struct replay_result result;
};

/* What a setting must do to be recommended. */
struct tune_wish {
    uint64_t most;          /* bytes that it may hold */
    bool strictly;          /* as a transparent one must, too, where another does */
    bool any;               /* it need not be transparent */
    bool gpu;               /* time is what was measured, not the model's */
    double program_seconds; /* what the recorded program took */

    uint64_t allocations, frees; /* that a replay to the end makes, unless some fail */
};

/* What was tried. Free with tune_free. */
struct tune {
    struct tune_wish wish;
    struct tune_setting *settings;
    size_t count;
    const struct tune_setting *best;        /* of all */
    const struct tune_setting *safe;        /* of those that are transparent; NULL: none is */
    const struct tune_setting *recommended; /* the one answer */
    const struct tune_setting *alternative; /* the other one of the two; NULL: there is none, or it
                                             * is in nothing better */
};

/* Whether a strict wish is one that no setting grants that serves as many allocations: then what is
 * recommended is only what holds least. */
bool tune_holds_too_much(const struct tune *tune);

/* Notes the configuration that a setting comes to, its policy and its caches. */
void tune_note_config(struct tune_setting *setting, const struct pool_config *config);

/* Everything that the driver did for a setting: allocations, frees, maps and unmaps. */
uint64_t tune_calls(const struct replay_result *result);

/* Seconds in malloc and free: what the driver takes by the model, and the pool's own instructions;
 * with gpu what was measured. */
double tune_seconds(const struct tune_setting *setting, const struct replay_result *result,
                    bool gpu);

/* Whether a replay of the setting that has come so far cannot be better than `rival` any more,
 * however it ends: the calls that are still to come take the pool's own instructions at least. */
bool tune_is_hopeless(const struct tune_setting *setting, const struct replay_result *so_far,
                      const struct tune_setting *rival, const struct tune_wish *wish);

/* Whether it has taken longer than `rival`, which holds little enough, for the eighths of the trace
 * that were replayed, by more than `much` times all that the rival took; or just as long for
 * half of the trace or more: then it does the same. */
bool tune_is_behind(const struct tune_setting *setting, const struct replay_result *so_far,
                    const struct tune_setting *rival, const struct tune_wish *wish, double much);

/* Whether nothing speaks for `other`: neither driver calls nor memory nor allocations served. */
bool tune_covers(const struct replay_result *one, const struct replay_result *other);

/* Whether `one` is to be preferred: fewer failed allocations, then what holds little enough, then
 * less time, then fewer variables. */
bool tune_is_better(const struct tune_setting *one, const struct tune_setting *other,
                    const struct tune_wish *wish);

/* Once every setting has its result: marks the front, and finds the best, the best that is
 * transparent, and which of the two is recommended: the latter, unless the former does what it
 * cannot or saves more than TUNE_WORTH of the program's time. */
void tune_judge(struct tune *tune);

void tune_free(struct tune *tune);

#endif
