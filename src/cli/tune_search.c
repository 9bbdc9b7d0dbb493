#include "cli/tune_search.h"

#include "base/written.h"
#include "options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The options that are searched. Each value is a place in the axis's list; 0 sets nothing, so that
 * the preset's own holds. */
enum axis { RATIO, WASTE, IDLE, DECAY, THROTTLE, SEGMENT, AXES };

/* Places: AUTO of idle memory, ALL of waste. */
enum { VALUES = 7, AUTO = 1, ALL = 2, END = -1 };

/* SHARE: a number is a share of peak live memory in percent. */
static const struct axis_values {
    const char *name;
    const char *values[VALUES];
} axes[AXES] = {
    [RATIO] = {"POOLCUDA_REUSE_RATIO", {"", "1.25", "1.5", "3.0", "4.0", "8.0"}},
    [WASTE] = {"POOLCUDA_MAX_WASTE", {"", "%10", "100%"}},
    [IDLE] = {"POOLCUDA_MAX_IDLE", {"", "auto", "%5", "%15", "%40", "100%", "%2"}},
    [DECAY] = {"POOLCUDA_IDLE_DECAY", {"", "0", "5"}},
    [THROTTLE] = {"POOLCUDA_THROTTLE_RATIO", {"", "1", "0.8"}},
    [SEGMENT] = {"POOLCUDA_SEGMENT_SIZE", {"", "64M", "256M"}},
};

/* Which options matter to a policy: places in an axis's list, up to END. What comes to the same as
 * the preset's own value is left out. */
static const int own[] = {0, END};

static const struct family {
    const char *preset;
    bool gpu_only; /* the simulated GPU cannot tell how it does: it lies with the driver */
    const int *values[AXES];
} families[] = {
    {"default",
     false,
     {[RATIO] = (const int[]){0, 1, 2, 3, 4, 5, END},
      [WASTE] = (const int[]){0, 1, 2, END},
      [IDLE] = (const int[]){0, 2, 3, 4, 5, END},
      [DECAY] = (const int[]){0, 1, 2, END},
      [THROTTLE] = (const int[]){0, 1, 2, END}}},
    {"bfc",
     false,
     {[WASTE] = (const int[]){0, 1, 2, END},
      [IDLE] = (const int[]){0, 1, 2, 3, 4, END},
      [DECAY] = (const int[]){0, 2, END},
      [THROTTLE] = (const int[]){0, 1, 2, END}}},
    {"pytorch", /* whose blocks waste little of themselves */
     false,
     {[IDLE] = (const int[]){0, 1, 2, 3, 4, END},
      [DECAY] = (const int[]){0, 2, END},
      [THROTTLE] = (const int[]){0, 1, 2, END},
      [SEGMENT] = (const int[]){0, 1, 2, END}}},
    {"vmm",
     false,
     {[WASTE] = (const int[]){0, 1, 2, END},
      [IDLE] = (const int[]){0, 6, 2, 3, 4, 5, END},
      [DECAY] = (const int[]){0, 1, 2, END},
      [THROTTLE] = (const int[]){0, 1, 2, END}}},
    {"pytorch-expandable",
     false,
     {[IDLE] = (const int[]){0, 1, 2, 3, 4, END},
      [DECAY] = (const int[]){0, 2, END},
      [THROTTLE] = (const int[]){0, 1, 2, END},
      [SEGMENT] = (const int[]){0, 1, 2, END}}},
    {"pyopencl",
     false,
     {[IDLE] = (const int[]){0, 1, 2, 3, 4, END},
      [DECAY] = (const int[]){0, 2, END},
      [THROTTLE] = (const int[]){0, 1, 2, END}}},
    {"futhark",
     false,
     {[RATIO] = (const int[]){0, 1, 2, 3, 4, 5, END}, [WASTE] = (const int[]){0, 1, 2, END}}},
    {"paddle", true, {[IDLE] = (const int[]){0, 2, 3, END}, [THROTTLE] = (const int[]){0, 1, END}}},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

/* A combination: a place in each axis's list. */
struct choice {
    unsigned char value[AXES];
};

struct state {
    const struct tune_search *search;
    size_t family; /* that is being tried */
    bool baseline; /* as the preset has it: given up only if it is not on the front either */
    struct choice best[FAMILIES]; /* of each family */
    uint64_t spent, most;         /* instructions */
    bool hurried; /* there is no time to try all: who is far behind does not go on either */
    bool stopped, no_memory;
};

static bool is_fixed(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

/* --- settings --- */

/* Appends NAME=VALUE unless the user has fixed the variable. */
static void set(struct tune_setting *setting, const char *name, const char *value) {
    size_t length = strlen(setting->variables);
    if (is_fixed(name))
        return;
    snprintf(setting->variables + length, TUNE_VARIABLES - length, "%s%s=%s", length ? " " : "",
             name, value);
    setting->variable_count++;
}

static void set_value(struct tune_setting *setting, const char *name, const char *value,
                      uint64_t peak) {
    char size[32];
    if (value[0] == '%') {
        uint64_t mib = (peak / 100 * (uint64_t)atoi(value + 1) >> 20) + 1;
        snprintf(size, sizeof size, "%lluM", (unsigned long long)mib);
        value = size;
    }
    if (*value)
        set(setting, name, value);
}

/* The preset that the user has fixed, as its table has it, in whatever case it was written. */
static const char *fixed_preset(void) {
    const char *written = getenv("POOLCUDA_PRESET");
    for (size_t i = 0; written && i < preset_count; i++)
        if (written_same(written, preset_table[i].name, strlen(preset_table[i].name)))
            return preset_table[i].name;
    return written;
}

static struct tune_setting make_setting(const struct tune_search *search,
                                        const struct family *family, const struct choice *choice) {
    struct tune_setting setting = {.preset = family->preset};
    if (is_fixed("POOLCUDA_PRESET"))
        setting.preset = fixed_preset();
    if (strcmp(family->preset, "default") != 0)
        set(&setting, "POOLCUDA_PRESET", family->preset);
    for (int axis = 0; axis < AXES; axis++)
        set_value(&setting, axes[axis].name, axes[axis].values[choice->value[axis]],
                  search->peak_bytes);
    return setting;
}

/* NULL: it has not been tried. */
static struct tune_setting *find(const struct tune *tune, const char *variables) {
    for (size_t i = 0; i < tune->count; i++)
        if (strcmp(tune->settings[i].variables, variables) == 0)
            return &tune->settings[i];
    return NULL;
}

/* --- trying one --- */

/* What a replay takes, by and large: so that a search comes out the same on every machine. */
static uint64_t cost_of(const struct replay_result *result) {
    enum { START = 150000, CALL = 2000, EVENT = 400, DRIVER_CALL = 4000, MAP_CALL = 5000 };
    return START + CALL * (result->allocations + result->frees) + EVENT * result->events +
           DRIVER_CALL * (result->driver_allocs + result->driver_frees) +
           MAP_CALL * result->map_calls;
}

/* The best so far that a setting competes with: transparent ones with their like. */
static const struct tune_setting *rival_of(const struct tune *tune, bool transparent) {
    const struct tune_setting *best = NULL;
    for (size_t i = 0; i < tune->count; i++) {
        const struct tune_setting *one = &tune->settings[i];
        if (one->complete && (one->transparent || !transparent) &&
            (!best || tune_is_better(one, best, &tune->wish)))
            best = one;
    }
    return best;
}

struct trial {
    const struct state *state;
    const struct tune_setting *setting, *rival; /* NULL: nothing is complete yet */
};

static bool is_covered(const struct tune *tune, const struct replay_result *so_far) {
    for (size_t i = 0; i < tune->count; i++)
        if (tune->settings[i].complete && tune_covers(&tune->settings[i].result, so_far))
            return true;
    return false;
}

/* How far a replay may fall behind the best, as a share of all that it took, if there is no time to
 * try all. */
static const double behind = 0.1, far_behind = 5;

/* In the process that replays. */
static bool is_hopeless(const struct replay_result *so_far, const void *of) {
    const struct trial *trial = of;
    const struct tune *tune = trial->state->search->tune;
    const struct tune_setting *rival = trial->rival;
    const struct state *state = trial->state;
    if (!rival)
        return false;
    if (state->baseline && tune_is_hopeless(trial->setting, so_far, rival, &tune->wish) &&
        is_covered(tune, so_far))
        return true;
    if (!state->baseline && tune_is_hopeless(trial->setting, so_far, rival, &tune->wish))
        return true;
    return state->hurried && tune_is_behind(trial->setting, so_far, rival, &tune->wish,
                                            state->baseline ? far_behind : behind);
}

static double share_done(const struct state *state) {
    double share = (double)state->spent / (double)state->most;
    return share < 1 ? share : 1;
}

/* Tries a combination that was not tried yet. NULL: the search ends. */
static struct tune_setting *try_choice(struct state *state, const struct choice *choice) {
    const struct tune_search *search = state->search;
    struct tune *tune = search->tune;
    struct tune_setting setting = make_setting(search, &families[state->family], choice);
    struct tune_setting *known = find(tune, setting.variables);
    if (known)
        return known;
    search->note_config(&setting);
    struct trial trial = {state, &setting, rival_of(tune, setting.transparent)};
    state->stopped =
        !search->try_setting(&setting, share_done(state), is_hopeless, &trial, search->owner);
    if (state->stopped)
        return NULL;
    setting.complete = setting.result.events == search->events;
    state->spent += cost_of(&setting.result);
    struct tune_setting *more = realloc(tune->settings, (tune->count + 1) * sizeof *more);
    state->stopped = state->no_memory = !more;
    if (!more)
        return NULL;
    tune->settings = more;
    tune->settings[tune->count] = setting;
    return &tune->settings[tune->count++];
}

/* --- what matters --- */

/* Whether the axis can make a difference on this trace. */
static bool matters(const struct tune_search *search, enum axis axis) {
    static const double shortest_decay = 5;
    if (axis == DECAY)
        return search->trace_seconds > shortest_decay;
    if (axis == THROTTLE)
        return search->peak_bytes > search->memory / 4;
    return true;
}

static const int *values_of(const struct tune_search *search, size_t family, enum axis axis) {
    const int *values = families[family].values[axis];
    return values && matters(search, axis) && !is_fixed(axes[axis].name) ? values : own;
}

/* Who fixes the preset or the policy has one family. */
static bool is_searched(const struct tune_search *search, size_t family) {
    bool one = is_fixed("POOLCUDA_PRESET") || is_fixed("POOLCUDA_POLICY");
    return (search->tune->wish.gpu || !families[family].gpu_only) && (!one || family == 0);
}

static bool has_more(const struct state *state) {
    return !state->stopped && state->spent < state->most;
}

/* --- the order --- */

static struct tune_setting *best_of(const struct state *state, size_t family) {
    struct tune_setting setting =
        make_setting(state->search, &families[family], &state->best[family]);
    return find(state->search->tune, setting.variables);
}

/* Tries what may be the family's best; true if it is. */
static bool try_as_best(struct state *state, const struct choice *choice) {
    struct tune_setting *tried = try_choice(state, choice);
    if (!tried || !tried->complete)
        return false;
    const struct tune_setting *best = best_of(state, state->family);
    if (best->complete && !tune_is_better(tried, best, &state->search->tune->wish))
        return false;
    state->best[state->family] = *choice;
    return true;
}

/* Sets one option of the family's best differently. */
static bool try_value(struct state *state, enum axis axis, int value) {
    struct choice choice = state->best[state->family];
    choice.value[axis] = (unsigned char)value;
    return try_as_best(state, &choice);
}

static bool improve_axis(struct state *state, enum axis axis) {
    bool gained = false;
    const int *values = values_of(state->search, state->family, axis);
    for (; *values != END && has_more(state); values++)
        gained |= try_value(state, axis, *values);
    return gained;
}

/* Idle memory first: what holds too much can only be made to hold less. */
static bool improve(struct state *state) {
    static const enum axis order[AXES] = {IDLE, WASTE, RATIO, SEGMENT, THROTTLE, DECAY};
    bool gained = false;
    for (int i = 0; i < AXES && has_more(state); i++)
        gained |= improve_axis(state, order[i]);
    return gained;
}

/* Tries every combination of the family from `axis` on. */
static void try_all(struct state *state, struct choice *choice, int axis) {
    if (axis == AXES) {
        try_choice(state, choice);
        return;
    }
    const int *values = values_of(state->search, state->family, (enum axis)axis);
    for (; *values != END && has_more(state); values++) {
        choice->value[axis] = (unsigned char)*values;
        try_all(state, choice, axis + 1);
    }
}

/* The families that are searched, best first; returns their number. */
static size_t in_order(const struct state *state, size_t order[FAMILIES]) {
    size_t count = 0;
    for (size_t family = 0; family < FAMILIES; family++) {
        size_t place = count;
        const struct tune_setting *one = best_of(state, family);
        if (!one)
            continue;
        for (; place > 0; place--) {
            const struct tune_setting *before = best_of(state, order[place - 1]);
            if (!one->complete ||
                (before->complete && !tune_is_better(one, before, &state->search->tune->wish)))
                break;
            order[place] = order[place - 1];
        }
        order[place] = family;
        count++;
    }
    return count;
}

/* The best that changes nothing but speed goes first: it is what is recommended most often. */
static void put_transparent_first(const struct state *state, size_t *order, size_t count) {
    for (size_t place = 0; place < count; place++) {
        const size_t family = order[place];
        const struct tune_setting *best = best_of(state, family);
        if (!best->transparent || !best->complete)
            continue;
        memmove(order + 1, order, place * sizeof *order);
        order[0] = family;
        return;
    }
}

static uint64_t combinations(const struct tune_search *search) {
    uint64_t sum = 0;
    for (size_t family = 0; family < FAMILIES; family++) {
        uint64_t product = is_searched(search, family);
        for (int axis = 0; axis < AXES; axis++) {
            uint64_t count = 0;
            for (const int *value = values_of(search, family, (enum axis)axis); *value != END;
                 value++)
                count++;
            product *= count;
        }
        sum += product;
    }
    return sum;
}

/* Notes whether all can be tried, by what one replay takes. */
static void look_ahead(struct state *state) {
    const struct tune_search *search = state->search;
    state->hurried = combinations(search) * state->spent > state->most * search->tune->count;
}

/* Where else to begin: presets that keep all idle memory, with the pool's own bound on it, and
 * their blocks cut as in their origin. */
static const struct choice beginnings[] = {{{[IDLE] = AUTO}}, {{[IDLE] = AUTO, [WASTE] = ALL}}};

static bool has_value(const struct tune_search *search, size_t family, enum axis axis, int value) {
    const int *values = values_of(search, family, axis);
    while (*values != END && *values != value)
        values++;
    return *values == value;
}

static void try_beginnings(struct state *state) {
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0] && !state->stopped; i++) {
        bool exists = true;
        for (int axis = 0; axis < AXES; axis++)
            exists = exists && has_value(state->search, state->family, (enum axis)axis,
                                         beginnings[i].value[axis]);
        if (exists)
            try_as_best(state, &beginnings[i]);
    }
}

static void try_presets(struct state *state) {
    const struct choice nothing = {{0}};
    for (size_t family = 0; family < FAMILIES && !state->stopped; family++) {
        state->family = family;
        if (!is_searched(state->search, family))
            continue;
        state->baseline = true;
        if (!try_choice(state, &nothing))
            return;
        state->baseline = false;
        look_ahead(state);
        try_beginnings(state);
    }
}

static void climb(struct state *state) {
    bool gained = true;
    while (gained && has_more(state)) {
        size_t order[FAMILIES], count = in_order(state, order);
        put_transparent_first(state, order, count);
        gained = false;
        for (size_t i = 0; i < count && has_more(state); i++) {
            state->family = order[i];
            gained |= improve(state);
        }
    }
}

static void try_the_rest(struct state *state) {
    size_t order[FAMILIES], count = in_order(state, order);
    for (size_t i = 0; i < count && has_more(state); i++) {
        struct choice choice = {0};
        state->family = order[i];
        try_all(state, &choice, 0);
    }
}

/* What a search may take: no less than `least`, however short the trace. */
static uint64_t most_for(const struct tune_search *search, uint64_t least) {
    enum { PER_EVENT = 13000 }; /* what remains is for what cost_of misses */
    uint64_t most = PER_EVENT * search->events;
    return most > least ? most : least;
}

bool tune_search(const struct tune_search *search, bool *no_memory) {
    enum { LEAST_TO_IMPROVE = 160000000, LEAST_FOR_ALL = 80000000 };
    struct state state = {.search = search};
    state.most = most_for(search, LEAST_TO_IMPROVE);
    try_presets(&state);
    climb(&state);
    state.most = most_for(search, LEAST_FOR_ALL);
    try_the_rest(&state);
    *no_memory = state.no_memory;
    return !state.stopped;
}
