#include "cli/tune.h"

#include "options.h"
#include "pool/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AUTO_CAP = 0, NO_CAP = 1000, END = -1 };

static const char *const default_ratio = "2.0";

/* What is combined. A cap on idle memory is a share of peak live memory in percent, AUTO_CAP or
 * NO_CAP. */
static const struct family {
    const char *preset;
    bool gpu_only; /* the simulated GPU cannot tell how it does: it lies with the driver */
    const char *const *ratios; /* the default's first */
    const int *caps;
} families[] = {
    {"default", false, (const char *const[]){"2.0", "1.25", "1.5", "3.0", "4.0", NULL},
     (const int[]){AUTO_CAP, 5, 15, 40, NO_CAP, END}},
    {"futhark", false, (const char *const[]){"2.0", "4.0", NULL}, (const int[]){AUTO_CAP, END}},
    {"pyopencl", false, (const char *const[]){"2.0", NULL},
     (const int[]){AUTO_CAP, 5, 15, 40, END}},
    {"bfc", false, (const char *const[]){"2.0", NULL}, (const int[]){AUTO_CAP, 5, 15, 40, END}},
    {"paddle", true, (const char *const[]){"2.0", NULL}, (const int[]){AUTO_CAP, 5, 15, END}},
    {"vmm", false, (const char *const[]){"2.0", NULL}, (const int[]){AUTO_CAP, 2, 5, 15, 40, END}},
};

static bool is_fixed(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

/* Appends NAME=VALUE unless the user has fixed the variable. */
static void set(char *variables, const char *name, const char *value) {
    size_t length = strlen(variables);
    if (!is_fixed(name))
        snprintf(variables + length, TUNE_VARIABLES - length, "%s%s=%s", length ? " " : "", name,
                 value);
}

static void set_cap(char *variables, int percent, uint64_t peak) {
    char value[32];
    uint64_t mib = (peak / 100 * (uint64_t)percent >> 20) + 1;
    snprintf(value, sizeof value, "%lluM", (unsigned long long)mib);
    set(variables, "POOLCUDA_MAX_IDLE", percent == NO_CAP ? "100%" : value);
}

static bool is_listed(const struct tune *tune, const char *variables) {
    for (size_t i = 0; i < tune->count; i++)
        if (strcmp(tune->settings[i].variables, variables) == 0)
            return true;
    return false;
}

static bool add(struct tune *tune, const struct family *family, const char *ratio, int cap,
                uint64_t peak) {
    struct tune_setting setting = {.preset = family->preset};
    if (is_fixed("POOLCUDA_PRESET"))
        setting.preset = getenv("POOLCUDA_PRESET");
    if (strcmp(family->preset, "default") != 0)
        set(setting.variables, "POOLCUDA_PRESET", family->preset);
    if (strcmp(ratio, default_ratio) != 0)
        set(setting.variables, "POOLCUDA_REUSE_RATIO", ratio);
    if (cap != AUTO_CAP)
        set_cap(setting.variables, cap, peak);
    if (is_listed(tune, setting.variables))
        return true;
    struct tune_setting *more = realloc(tune->settings, (tune->count + 1) * sizeof *tune->settings);
    if (!more)
        return false;
    tune->settings = more;
    tune->settings[tune->count++] = setting;
    return true;
}

static bool add_family(struct tune *tune, const struct family *family, uint64_t peak) {
    for (const char *const *ratio = family->ratios; *ratio; ratio++)
        for (const int *cap = family->caps; *cap != END; cap++)
            if (!add(tune, family, *ratio, *cap, peak))
                return false;
    return true;
}

bool tune_list(struct tune *tune, uint64_t peak_live_bytes, bool gpu) {
    bool added = true, one_family = is_fixed("POOLCUDA_PRESET") || is_fixed("POOLCUDA_POLICY");
    *tune = (struct tune){0};
    for (size_t i = 0; i < sizeof families / sizeof families[0] && added; i++)
        if ((gpu || !families[i].gpu_only) && (!one_family || i == 0))
            added = add_family(tune, &families[i], peak_live_bytes);
    if (!added)
        tune_free(tune);
    return added;
}

void tune_note_policy(struct tune_setting *setting, const struct policy *policy) {
    setting->transparent = strcmp(policy->name, "site") == 0 || strcmp(policy->name, "tag") == 0;
    setting->cuts = policy->keeper->cuts || policy->keeper->keeps_nothing;
}

uint64_t tune_calls(const struct replay_result *result) {
    return result->driver_allocs + result->driver_frees + result->map_calls;
}

/* Whether nothing speaks for `other`. */
static bool covers(const struct replay_result *one, const struct replay_result *other) {
    return tune_calls(one) <= tune_calls(other) && one->peak_held_bytes <= other->peak_held_bytes &&
           one->oom_failures <= other->oom_failures;
}

/* Puts the first, which is the plainest, of settings that come to the same on the front. */
static void mark_front(struct tune *tune) {
    for (size_t i = 0; i < tune->count; i++) {
        const struct replay_result *result = &tune->settings[i].result;
        bool front = true;
        for (size_t j = 0; j < tune->count && front; j++) {
            const struct replay_result *other = &tune->settings[j].result;
            front = j == i || !covers(other, result) || (covers(result, other) && i < j);
        }
        tune->settings[i].front = front;
    }
}

static double time_of(const struct replay_result *result, const struct tune_wish *wish) {
    return wish->gpu ? result->host_seconds : result->modelled_seconds;
}

/* Whether `one` is to be preferred. */
static bool is_better(const struct replay_result *one, const struct replay_result *other,
                      const struct tune_wish *wish) {
    if (one->oom_failures != other->oom_failures)
        return one->oom_failures < other->oom_failures;
    bool fits = one->peak_held_bytes <= wish->most;
    if (fits != (other->peak_held_bytes <= wish->most))
        return fits;
    if (!fits)
        return one->peak_held_bytes < other->peak_held_bytes;
    return time_of(one, wish) < 0.95 * time_of(other, wish); /* else the first, the plainer one */
}

/* Whether `best` does what `safe` cannot, be it as fast as it may. */
static bool is_needed(const struct replay_result *best, const struct replay_result *safe,
                      const struct tune_wish *wish) {
    return best->oom_failures < safe->oom_failures ||
           (wish->strictly && best->peak_held_bytes <= wish->most &&
            safe->peak_held_bytes > wish->most);
}

void tune_judge(struct tune *tune, const struct tune_wish *wish) {
    const struct tune_setting *best = NULL, *safe = NULL;
    mark_front(tune);
    for (size_t i = 0; i < tune->count; i++) {
        const struct tune_setting *setting = &tune->settings[i];
        if (setting->front && (!best || is_better(&setting->result, &best->result, wish)))
            best = setting;
        if (setting->transparent && (!safe || is_better(&setting->result, &safe->result, wish)))
            safe = setting;
    }
    if (!best) /* nothing was tried */
        return;
    if (safe && !is_better(&best->result, &safe->result, wish))
        best = safe;
    if (best->transparent)
        safe = best;
    tune->safe = safe;
    tune->recommended =
        !safe || wish->any || is_needed(&best->result, &safe->result, wish) ? best : safe;
    tune->alternative = tune->recommended == safe ? best : safe;
    if (tune->alternative == tune->recommended)
        tune->alternative = NULL;
}

void tune_free(struct tune *tune) {
    free(tune->settings);
    *tune = (struct tune){0};
}
