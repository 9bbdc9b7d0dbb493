#include "special.h"

#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum special {
    SPECIAL_TID_X,
    SPECIAL_TID_Y,
    SPECIAL_TID_Z,
    SPECIAL_NTID_X,
    SPECIAL_NTID_Y,
    SPECIAL_NTID_Z,
    SPECIAL_CTAID_X,
    SPECIAL_CTAID_Y,
    SPECIAL_CTAID_Z,
    SPECIAL_NCTAID_X,
    SPECIAL_NCTAID_Y,
    SPECIAL_NCTAID_Z,
    SPECIAL_LANEID,
    SPECIAL_WARPID,
    SPECIAL_NWARPID,
    SPECIAL_SMID,
    SPECIAL_NSMID,
    SPECIAL_GRIDID,
    SPECIAL_CLOCK,
    SPECIAL_CLOCK_HI,
    SPECIAL_CLOCK64,
    SPECIAL_TIMER,
    SPECIAL_TIMER_LO,
    SPECIAL_TIMER_HI,
    SPECIAL_MASK_EQ,
    SPECIAL_MASK_LE,
    SPECIAL_MASK_LT,
    SPECIAL_MASK_GE,
    SPECIAL_MASK_GT,
    SPECIAL_DYNAMIC_SHARED,
    SPECIAL_TOTAL_SHARED,
    SPECIAL_ZERO, /* that of something this device has not */
    SPECIAL_ONE,
    SPECIAL_ENVIRONMENT /* the first of 32 */
};

static const struct {
    const char *text;
    enum special which;
} names[] = {{"%tid.x", SPECIAL_TID_X},
             {"%tid.y", SPECIAL_TID_Y},
             {"%tid.z", SPECIAL_TID_Z},
             {"%ntid.x", SPECIAL_NTID_X},
             {"%ntid.y", SPECIAL_NTID_Y},
             {"%ntid.z", SPECIAL_NTID_Z},
             {"%ctaid.x", SPECIAL_CTAID_X},
             {"%ctaid.y", SPECIAL_CTAID_Y},
             {"%ctaid.z", SPECIAL_CTAID_Z},
             {"%nctaid.x", SPECIAL_NCTAID_X},
             {"%nctaid.y", SPECIAL_NCTAID_Y},
             {"%nctaid.z", SPECIAL_NCTAID_Z},
             {"%laneid", SPECIAL_LANEID},
             {"%warpid", SPECIAL_WARPID},
             {"%nwarpid", SPECIAL_NWARPID},
             {"%smid", SPECIAL_SMID},
             {"%nsmid", SPECIAL_NSMID},
             {"%gridid", SPECIAL_GRIDID},
             {"%clock", SPECIAL_CLOCK},
             {"%clock_hi", SPECIAL_CLOCK_HI},
             {"%clock64", SPECIAL_CLOCK64},
             {"%globaltimer", SPECIAL_TIMER},
             {"%globaltimer_lo", SPECIAL_TIMER_LO},
             {"%globaltimer_hi", SPECIAL_TIMER_HI},
             {"%lanemask_eq", SPECIAL_MASK_EQ},
             {"%lanemask_le", SPECIAL_MASK_LE},
             {"%lanemask_lt", SPECIAL_MASK_LT},
             {"%lanemask_ge", SPECIAL_MASK_GE},
             {"%lanemask_gt", SPECIAL_MASK_GT},
             {"%dynamic_smem_size", SPECIAL_DYNAMIC_SHARED},
             {"%total_smem_size", SPECIAL_TOTAL_SHARED},
             {"%aggr_smem_size", SPECIAL_TOTAL_SHARED},
             {"%is_explicit_cluster", SPECIAL_ZERO},
             {"%clusterid.x", SPECIAL_CTAID_X},
             {"%clusterid.y", SPECIAL_CTAID_Y},
             {"%clusterid.z", SPECIAL_CTAID_Z},
             {"%nclusterid.x", SPECIAL_NCTAID_X},
             {"%nclusterid.y", SPECIAL_NCTAID_Y},
             {"%nclusterid.z", SPECIAL_NCTAID_Z},
             {"%cluster_ctaid.x", SPECIAL_ZERO},
             {"%cluster_ctaid.y", SPECIAL_ZERO},
             {"%cluster_ctaid.z", SPECIAL_ZERO},
             {"%cluster_nctaid.x", SPECIAL_ONE},
             {"%cluster_nctaid.y", SPECIAL_ONE},
             {"%cluster_nctaid.z", SPECIAL_ONE},
             {"%cluster_ctarank", SPECIAL_ZERO},
             {"%cluster_nctarank", SPECIAL_ONE},
             {"%reserved_smem_offset_begin", SPECIAL_ZERO},
             {"%reserved_smem_offset_end", SPECIAL_ZERO},
             {"%reserved_smem_offset_cap", SPECIAL_ZERO},
             {"%reserved_smem_offset_0", SPECIAL_ZERO},
             {"%reserved_smem_offset_1", SPECIAL_ZERO}};

/* %pm0 to %pm7, which count nothing here, and %envreg0 to %envreg31. */
static int numbered(const char *text, size_t length, const char *prefix, unsigned int count) {
    size_t begin = strlen(prefix);
    unsigned int number = 0;

    if (length <= begin || length > begin + 2 || memcmp(text, prefix, begin) != 0)
        return -1;
    for (size_t i = begin; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = number * 10 + (unsigned int)(text[i] - '0');
    }
    return number < count ? (int)number : -1;
}

int special_named(const char *text, size_t length) {
    int number;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].text) == length && memcmp(names[i].text, text, length) == 0)
            return (int)names[i].which;
    number = numbered(text, length, "%envreg", 32);
    if (number >= 0)
        return SPECIAL_ENVIRONMENT + number;
    return numbered(text, length, "%pm", 8) >= 0 ? SPECIAL_ZERO : -1;
}

enum { READ_NS = 1000 }; /* between two looks at a clock, if it is not the host's */

static uint64_t clock_ns(clockid_t which) {
    struct timespec time;

    clock_gettime(which, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* By the launch's clock, which goes on with each look at it, or else by the host's. */
static uint64_t time_of(const struct warp *warp, clockid_t which) {
    const struct simt_launch *asked = warp->block->launch->asked;

    warp->worker->clock_reads++;
    return asked->clock != NULL ? asked->clock(asked->memory->owner, READ_NS) : clock_ns(which);
}

/* What is the same for all lanes. */
static uint64_t uniform(const struct warp *warp, unsigned int which) {
    const struct launch *launch = warp->block->launch;
    const struct simt_launch *asked = launch->asked;

    switch (which) {
    case SPECIAL_NTID_X:
    case SPECIAL_NTID_Y:
    case SPECIAL_NTID_Z:
        return asked->block[which - SPECIAL_NTID_X];
    case SPECIAL_CTAID_X:
    case SPECIAL_CTAID_Y:
    case SPECIAL_CTAID_Z:
        return warp->block->index[which - SPECIAL_CTAID_X];
    case SPECIAL_NCTAID_X:
    case SPECIAL_NCTAID_Y:
    case SPECIAL_NCTAID_Z:
        return asked->grid[which - SPECIAL_NCTAID_X];
    case SPECIAL_WARPID:
        return warp->number;
    case SPECIAL_NWARPID:
        return MOST_WARPS;
    case SPECIAL_SMID:
        return warp->block->number % (asked->processors != 0 ? asked->processors : 1);
    case SPECIAL_NSMID:
        return asked->processors;
    case SPECIAL_GRIDID:
        return asked->number;
    case SPECIAL_CLOCK: /* a clock of 1 GHz */
        return (uint32_t)(time_of(warp, CLOCK_MONOTONIC) - launch->begun_ns);
    case SPECIAL_CLOCK_HI:
        return (time_of(warp, CLOCK_MONOTONIC) - launch->begun_ns) >> 32;
    case SPECIAL_CLOCK64:
        return time_of(warp, CLOCK_MONOTONIC) - launch->begun_ns;
    case SPECIAL_TIMER:
        return time_of(warp, CLOCK_REALTIME);
    case SPECIAL_TIMER_LO:
        return (uint32_t)time_of(warp, CLOCK_REALTIME);
    case SPECIAL_TIMER_HI:
        return time_of(warp, CLOCK_REALTIME) >> 32;
    case SPECIAL_DYNAMIC_SHARED:
        return asked->dynamic_shared;
    case SPECIAL_TOTAL_SHARED:
        return launch->shared_size;
    case SPECIAL_ONE:
        return 1;
    case SPECIAL_ENVIRONMENT + 1: /* the high and the low half of the grid's workspace */
        return asked->cooperative ? GRID_WORKSPACE >> 32 : 0;
    case SPECIAL_ENVIRONMENT + 2:
        return asked->cooperative ? (uint32_t)GRID_WORKSPACE : 0;
    default:
        return 0;
    }
}

static uint64_t of_lane(const struct warp *warp, unsigned int which, unsigned int lane) {
    const unsigned int *block = warp->block->launch->asked->block;
    unsigned int thread = block_thread(warp, lane);

    switch (which) {
    case SPECIAL_TID_X:
        return thread % block[0];
    case SPECIAL_TID_Y:
        return thread / block[0] % block[1];
    case SPECIAL_TID_Z:
        return thread / block[0] / block[1];
    case SPECIAL_LANEID:
        return lane;
    case SPECIAL_MASK_EQ:
        return 1u << lane;
    case SPECIAL_MASK_LT:
        return (1u << lane) - 1;
    case SPECIAL_MASK_LE:
        return (1u << lane) - 1 + (1u << lane);
    case SPECIAL_MASK_GE:
        return (uint32_t) ~((1u << lane) - 1);
    default: /* SPECIAL_MASK_GT */
        return (uint32_t) ~((1u << lane) - 1 + (1u << lane));
    }
}

static bool is_of_lane(unsigned int which) {
    return which <= SPECIAL_TID_Z || which == SPECIAL_LANEID ||
           (which >= SPECIAL_MASK_EQ && which <= SPECIAL_MASK_GT);
}

enum step run_special(struct warp *warp, const struct instruction *instruction) {
    unsigned int which = (unsigned int)instruction->number;
    uint64_t *d = destination(warp, instruction->d), value;

    if (is_of_lane(which)) {
        for (unsigned int lane = 0; lane < LANES; lane++)
            if (warp->active >> lane & 1)
                d[lane] = of_lane(warp, which, lane);
        return STEP_ON;
    }
    value = uniform(warp, which);
    FOR_LANES(warp, lane, { d[lane] = value; });
    return STEP_ON;
}
