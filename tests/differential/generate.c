/* Programs from seeds: which operations, how often, with which numbers. */
#include "program.h"

#include <string.h>

static const struct {
    const char *name;
    int plain_weight;
} kinds[] = {
#define KIND(name, weight, text) {#name, weight},
    OPERATIONS(KIND)
#undef KIND
};

const char *operation_name(enum operation_kind kind) {
    return kinds[kind].name;
}

/* What a profile has more of than the plain one: added to the weight. */
static const struct profile {
    const char *name;
    struct {
        enum operation_kind kind;
        int weight;
    } more[12];
} profiles[] = {
    {"plain", {{OP_alloc, 0}}},
    {"captures", {{OP_capture, 40}, {OP_fetch, 10}}},
    {"contexts", {{OP_other_context, 30}, {OP_end_context, 12}, {OP_spin, 10}}},
    {"streams", {{OP_stream_new, 25}, {OP_stream_end, 25}, {OP_spin, 25}, {OP_fill, 20}}},
    {"events", {{OP_event, 40}, {OP_spin, 30}}},
    {"threads", {{OP_threads, 40}}},
    {"races", {{OP_capture_beside, 40}}},
    {"memory", {{OP_alloc_large, 40}, {OP_information, 40}}},
    {"crowded",
     {{OP_temporaries, 40},
      {OP_information, 20},
      {OP_spin, 20},
      {OP_release, 10},
      {OP_stream_new, 10}}},
    {"shares", {{OP_share, 40}}},
    {"pinned",
     {{OP_host_alloc, 40}, {OP_host_fill, 20}, {OP_host_copy, 20}, {OP_host_release, 30}}},
    {"ordered",
     {{OP_alloc_ordered, 40},
      {OP_release_ordered, 45},
      {OP_spin, 25},
      {OP_stream_new, 15},
      {OP_stream_end, 10},
      {OP_alloc_large, 4}}},
    {"shapes",
     {{OP_alloc_volume, 30}, {OP_array_new, 30}, {OP_array_end, 25}, {OP_alloc_large, 10}}},
    {"managed",
     {{OP_managed_alloc, 50},
      {OP_managed_fill, 25},
      {OP_managed_read, 10},
      {OP_managed_advise, 25},
      {OP_managed_prefetch, 10},
      {OP_managed_attach, 10},
      {OP_managed_ask, 10},
      {OP_managed_release, 40},
      {OP_managed_wrong, 4}}},
    {"faults", {{OP_fault, 4}}},
    {"held",
     {{OP_hold, 60},
      {OP_ask_held, 15},
      {OP_call_beside, 40},
      {OP_work_beside, 30},
      {OP_stream_new, 10},
      {OP_release, 30},
      {OP_alloc, 30},
      {OP_let_go, 5}}},
    {"held_elsewhere",
     {{OP_hold, 40},
      {OP_other_context, 40},
      {OP_work_beside, 30},
      {OP_release, 40},
      {OP_alloc, 40},
      {OP_threads_held, 6}}},
    {"held_full", {{OP_hold, 40}, {OP_alloc_large, 60}, {OP_release, 40}, {OP_information, 10}}},
    {"held_captures", {{OP_hold, 40}, {OP_capture_held, 40}, {OP_release, 20}, {OP_alloc, 20}}},
    {"programmatic",
     {{OP_early, 40}, {OP_overlap, 60}, {OP_release, 40}, {OP_alloc, 40}, {OP_stream_new, 10}}},
    {"inside", {{OP_ask_inside, 40}, {OP_synchronize, 20}, {OP_spin, 10}}},
    /* One thread, and a device that does not fill: a pool without memory looks again and again at a
     * busy one, and only in real time, in which the device does nothing there. */
    {"time",
     {{OP_host_work, 60},
      {OP_alloc_large, -2},
      {OP_spin, 40},
      {OP_alloc, 20},
      {OP_release, 30},
      {OP_event, 20},
      {OP_call_beside, 30},
      {OP_work_beside, 10},
      {OP_threads, -1},
      {OP_capture_beside, -1}}},
    {"churn", {{OP_churn, 40}, {OP_reset, 15}, {OP_other_context, 10}}},
    {"forks", {{OP_forks, 20}}},
    {"plugins", {{OP_plugin, 20}, {OP_stream_new, 10}, {OP_release, 20}}},
};

static uint32_t next_random(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = (*state ^ (*state >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(mixed >> 32);
}

static int weight_of(const struct profile *profile, int kind) {
    int weight = kinds[kind].plain_weight;
    for (size_t i = 0; i < sizeof profile->more / sizeof profile->more[0]; i++)
        if ((int)profile->more[i].kind == kind)
            weight += profile->more[i].weight;
    return weight;
}

static enum operation_kind draw_kind(const struct profile *profile, uint32_t number) {
    int total = 0, kind = 0;
    for (int i = 0; i < OPERATION_KINDS; i++)
        total += weight_of(profile, i);
    int left = (int)(number % (uint32_t)total);
    while ((left -= weight_of(profile, kind)) >= 0)
        kind++;
    return (enum operation_kind)kind;
}

bool program_generate(struct program *program, uint64_t seed, const char *profile_name) {
    const struct profile *profile = NULL;
    uint64_t state = seed * 0x2545f4914f6cdd1du + 1;
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++)
        if (strcmp(profiles[i].name, profile_name) == 0)
            profile = &profiles[i];
    if (!profile)
        return false;
    program->count = 20 + (int)(next_random(&state) % 100);
    for (int i = 0; i < program->count; i++)
        program->operations[i] =
            (struct operation){draw_kind(profile, next_random(&state)), next_random(&state),
                               next_random(&state), next_random(&state)};
    return true;
}
