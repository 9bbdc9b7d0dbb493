#include "cli/sweep_cliffs.h"

const unsigned sweep_percents[SWEEP_SIZES] = {100, 101, 102, 103, 104, 105, 106, 108,
                                              110, 112, 114, 116, 118, 120, 122, 124,
                                              127, 130, 135, 140, 150, 175, 200, 300};

/* Where the driver alone fails more allocations with more memory (one that fails makes room for
 * many) a preset cannot do better. */
static bool fails_anyway(const struct sweep *sweep, size_t before, size_t at) {
    const struct replay_result *native = sweep->results[SWEEP_ROWS - 1];
    return native[at].oom_failures > native[before].oom_failures;
}

/* More memory is no reason to serve less, but by chance a little. */
void sweep_find_cliffs(struct sweep *sweep) {
    static const double deep = 0.05;
    enum { CLOSE = 104 };
    sweep->cliff_count = 0;
    for (size_t row = 0; row < SWEEP_ROWS; row++) {
        const struct replay_result *results = sweep->results[row];
        for (size_t at = 1; at < SWEEP_SIZES; at++) {
            size_t best = at;
            for (size_t i = at; i-- > 0 && sweep_percents[at] * 100 <= sweep_percents[i] * CLOSE;)
                if (!fails_anyway(sweep, i, at) &&
                    result_hit_rate(&results[i]) > result_hit_rate(&results[best]))
                    best = i;
            if (result_hit_rate(&results[best]) > result_hit_rate(&results[at]) + deep)
                sweep->cliffs[sweep->cliff_count++] = (struct sweep_cliff){row, best, at};
        }
    }
}
