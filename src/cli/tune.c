#include "cli/tune.h"

#include "pool/policy.h"

#include <stdlib.h>
#include <string.h>

/* The share of the program's time that must be saved before anything but speed changes. */
static const double worth = 0.02;

/* Seconds below which a gain is none: what a pool's instructions take is known no better. */
static const double least_gain = 1e-6;

/* What the pool's own work takes: four instructions a nanosecond, by and large what one core does.
 * The counts are those of docs/benchmarks.md for what caches serve, and for the rest the means of
 * recorded traces. */
static const double second_per_instruction = 0.25e-9;
enum { CACHED_CALL = 120, MISS = 2300 };

static const struct cost {
    const char *policy;
    unsigned per_call;
} costs[] = {{"site", 1500},     {"tag", 1400},   {"bins", 1400}, {"bfc", 1750},
             {"segments", 1750}, {"async", 2500}, {"vmm", 1800},  {"expandable", 1800}};

static unsigned cost_of(const struct policy *policy) {
    enum { MOST = 2500 };
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++)
        if (strcmp(policy->name, costs[i].policy) == 0)
            return costs[i].per_call;
    return MOST;
}

void tune_note_config(struct tune_setting *setting, const struct pool_config *config) {
    const struct policy *policy = config->policy;
    setting->config = *config;
    bool site = strcmp(policy->name, "site") == 0;
    setting->transparent = site || strcmp(policy->name, "tag") == 0;
    setting->cuts = policy->keeper->cuts || policy->keeper->keeps_nothing;
    setting->per_call = cost_of(policy);
    setting->cached =
        site && !config->zero && !config->site_keep && config->max_idle.kind == LIMIT_AUTO;
}

uint64_t tune_calls(const struct replay_result *result) {
    return result->driver_allocs + result->driver_frees + result->map_calls;
}

static double instructions(const struct tune_setting *setting, const struct replay_part *part) {
    double calls = (double)(part->allocations + part->frees);
    if (!setting->cached)
        return calls * setting->per_call;
    uint64_t misses = part->allocations > part->hits ? part->allocations - part->hits : 0;
    return calls * CACHED_CALL + (double)misses * MISS;
}

static double seconds_of(const struct tune_setting *setting, const struct replay_part *part,
                         bool gpu) {
    return gpu ? part->host_seconds
               : part->modelled_seconds + instructions(setting, part) * second_per_instruction;
}

double tune_seconds(const struct tune_setting *setting, const struct replay_result *result,
                    bool gpu) {
    const struct replay_part all = {result->allocations, result->frees, result->hits,
                                    result->modelled_seconds, result->host_seconds};
    return seconds_of(setting, &all, gpu);
}

bool tune_covers(const struct replay_result *one, const struct replay_result *other) {
    return tune_calls(one) <= tune_calls(other) && one->peak_held_bytes <= other->peak_held_bytes &&
           one->oom_failures <= other->oom_failures;
}

/* What the whole trace takes at least, if no more allocations fail: were all that is left to do
 * served without the driver. */
static double least_seconds(const struct tune_setting *setting, const struct replay_result *so_far,
                            const struct tune_wish *wish) {
    const uint64_t failed = so_far->oom_failures;
    uint64_t frees = wish->frees > failed ? wish->frees - failed : 0, left = 0;
    if (wish->gpu)
        return tune_seconds(setting, so_far, true);
    if (wish->allocations > so_far->allocations)
        left = wish->allocations - so_far->allocations;
    const struct replay_part all = {.allocations = so_far->allocations + left,
                                    .frees = frees > so_far->frees ? frees : so_far->frees,
                                    .hits = so_far->hits + left,
                                    .modelled_seconds = so_far->modelled_seconds};
    return seconds_of(setting, &all, false);
}

bool tune_is_hopeless(const struct tune_setting *setting, const struct replay_result *so_far,
                      const struct tune_setting *rival, const struct tune_wish *wish) {
    const struct replay_result *other = &rival->result;
    if (so_far->oom_failures != other->oom_failures)
        return so_far->oom_failures > other->oom_failures; /* else it may end with fewer */
    if (other->peak_held_bytes > wish->most)
        return so_far->peak_held_bytes > other->peak_held_bytes;
    double least = least_seconds(setting, so_far, wish),
           others = tune_seconds(rival, other, wish->gpu);
    bool plainer = setting->variable_count < rival->variable_count;
    return so_far->peak_held_bytes > wish->most || least > others || (!plainer && least >= others);
}

bool tune_is_behind(const struct tune_setting *setting, const struct replay_result *so_far,
                    const struct tune_setting *rival, const struct tune_wish *wish, double much) {
    const struct replay_result *other = &rival->result;
    uint32_t count = so_far->part_count;
    if (!count || count > other->part_count || other->peak_held_bytes > wish->most ||
        so_far->oom_failures != other->oom_failures)
        return false;
    double taken = seconds_of(setting, &so_far->parts[count - 1], wish->gpu);
    double others = seconds_of(rival, &other->parts[count - 1], wish->gpu);
    bool same = taken <= others && taken >= others && setting->per_call == rival->per_call;
    return taken - others > much * tune_seconds(rival, other, wish->gpu) ||
           (same && count >= REPLAY_PARTS / 2);
}

bool tune_is_better(const struct tune_setting *one, const struct tune_setting *other,
                    const struct tune_wish *wish) {
    const struct replay_result *a = &one->result, *b = &other->result;
    if (a->oom_failures != b->oom_failures)
        return a->oom_failures < b->oom_failures;
    bool fits = a->peak_held_bytes <= wish->most;
    if (fits != (b->peak_held_bytes <= wish->most))
        return fits;
    if (!fits && a->peak_held_bytes != b->peak_held_bytes)
        return a->peak_held_bytes < b->peak_held_bytes;
    double time = tune_seconds(one, a, wish->gpu), others = tune_seconds(other, b, wish->gpu);
    if (time < others || time > others)
        return time < others;
    return one->variable_count < other->variable_count;
}

/* Puts the first, which is the plainest, of settings that come to the same on the front. */
static void mark_front(struct tune *tune) {
    for (size_t i = 0; i < tune->count; i++) {
        const struct replay_result *result = &tune->settings[i].result;
        bool front = tune->settings[i].complete;
        for (size_t j = 0; j < tune->count && front; j++) {
            const struct replay_result *other = &tune->settings[j].result;
            front = j == i || !tune->settings[j].complete || !tune_covers(other, result) ||
                    (tune_covers(result, other) && i < j);
        }
        tune->settings[i].front = front;
    }
}

/* Whether `best` does what `safe` cannot, be it as fast as it may. */
static bool is_needed(const struct replay_result *best, const struct replay_result *safe,
                      const struct tune_wish *wish) {
    return best->oom_failures < safe->oom_failures ||
           (wish->strictly && safe->peak_held_bytes > wish->most &&
            best->peak_held_bytes < safe->peak_held_bytes);
}

/* Whether what `best` saves is worth that it changes more than speed: nothing is where nobody knows
 * how long the program takes. */
static bool is_worth_it(const struct tune *tune) {
    const struct tune_wish *wish = &tune->wish;
    const struct tune_setting *best = tune->best, *safe = tune->safe;
    double slow = tune_seconds(safe, &safe->result, wish->gpu);
    double program = wish->program_seconds > slow ? wish->program_seconds : slow;
    return wish->program_seconds > 0 &&
           slow - tune_seconds(best, &best->result, wish->gpu) > worth * program &&
           (best->result.peak_held_bytes <= wish->most ||
            safe->result.peak_held_bytes >= best->result.peak_held_bytes);
}

/* Whether `one` does the same as `other` with fewer variables, but for a gain that is none. */
static bool is_plainer(const struct tune_setting *one, const struct tune_setting *other,
                       const struct tune_wish *wish) {
    const struct replay_result *a = &one->result, *b = &other->result;
    bool alike = a->oom_failures == b->oom_failures && a->peak_held_bytes <= wish->most &&
                 b->peak_held_bytes <= wish->most;
    return alike && one->variable_count < other->variable_count &&
           tune_seconds(one, a, wish->gpu) - tune_seconds(other, b, wish->gpu) < least_gain;
}

/* The plainest of those that are as good as `best`, which is given, or NULL. */
static const struct tune_setting *plainest(const struct tune *tune, const struct tune_setting *best,
                                           bool transparent) {
    const struct tune_setting *plain = best;
    for (size_t i = 0; best && i < tune->count; i++) {
        const struct tune_setting *one = &tune->settings[i];
        if (one->complete && (one->transparent || !transparent) &&
            is_plainer(one, best, &tune->wish) && one->variable_count < plain->variable_count)
            plain = one;
    }
    return plain;
}

void tune_judge(struct tune *tune) {
    const struct tune_wish *wish = &tune->wish;
    tune->best = tune->safe = tune->recommended = tune->alternative = NULL;
    mark_front(tune);
    for (size_t i = 0; i < tune->count; i++) {
        const struct tune_setting *setting = &tune->settings[i];
        if (!setting->complete)
            continue;
        if (!tune->best || tune_is_better(setting, tune->best, wish))
            tune->best = setting;
        if (setting->transparent && (!tune->safe || tune_is_better(setting, tune->safe, wish)))
            tune->safe = setting;
    }
    if (!tune->best) /* nothing was tried */
        return;
    tune->best = plainest(tune, tune->best, false);
    tune->safe = plainest(tune, tune->safe, true);
    const struct tune_setting *best = tune->best, *safe = tune->safe;
    if (safe && !tune_is_better(best, safe, wish))
        tune->best = best = safe;
    bool best_it_is =
        !safe || wish->any || is_needed(&best->result, &safe->result, wish) || is_worth_it(tune);
    tune->recommended = best_it_is ? best : safe;
    tune->alternative = best_it_is ? safe : best;
    if (tune->alternative == tune->recommended)
        tune->alternative = NULL;
}

bool tune_holds_too_much(const struct tune *tune) {
    return tune->wish.strictly && tune->recommended &&
           tune->recommended->result.peak_held_bytes > tune->wish.most;
}

void tune_free(struct tune *tune) {
    free(tune->settings);
    *tune = (struct tune){0};
}
