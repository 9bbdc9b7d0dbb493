/* Which settings `poolcuda tune` tries on a trace, and in what order. */
#ifndef POOLCUDA_CLI_TUNE_SEARCH_H
#define POOLCUDA_CLI_TUNE_SEARCH_H

#include "cli/tune.h"

/* What is searched, and how a setting is tried. */
struct tune_search {
    struct tune *tune;    /* settings are added to it; its wish is kept in mind */
    uint64_t events;      /* of the trace */
    double trace_seconds; /* that it spans */
    uint64_t peak_bytes;  /* of live requests */
    uint64_t memory;      /* of the device */

    /* Notes what the setting comes to, as tune_note_config does. */
    void (*note_config)(struct tune_setting *setting);
    /* Fills in the setting's result, asking is_hopeless with `state` as replay_run does. share: how
     * much of the search is done. False: the search ends. */
    bool (*try_setting)(struct tune_setting *setting, double share,
                        bool (*is_hopeless)(const struct replay_result *so_far, const void *state),
                        const void *state, void *owner);
    void *owner;
};

/* Searches the combinations of policies and of the options that matter to each: first each policy
 * as its preset has it, then, from the best of each policy, one option after the other, until that
 * gains nothing; then all that was not tried, the most promising policies first. A replay ends as
 * soon as it cannot be the best any more. The search ends when all is tried, or once it has taken
 * 20,000 instructions for each event of the trace by an estimate. A short trace may take more than
 * that: 160 million while options are still found that gain something, 60 million to try the rest.
 * Where all is too much for that, a replay ends as well that is far behind the best at the end of
 * an eighth of the trace. What the environment fixes is left as it is; who fixes the preset or the
 * policy wants no other. False after try_setting has returned false, or without memory, when
 * *no_memory is set. */
bool tune_search(const struct tune_search *search, bool *no_memory);

#endif
