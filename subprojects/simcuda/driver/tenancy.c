#include "tenancy.h"

#include "allocate.h"
#include "hazard_pending.h"
#include "lock.h"

#include <stdlib.h>
#include <utlist.h>

enum { TOUCHES_KEPT = 32, PAST_KEPT = 64 };
enum { AWAITED_KEPT = 4096 }; /* former owners whose work is pending */

static uint64_t last_generation;

uint64_t tenancy_last_generation(void) {
    sim_check_held();
    return last_generation;
}

struct tenancy *tenancy_create(CUdeviceptr begin, CUdeviceptr end, bool program, uintptr_t site) {
    sim_check_held();
    struct tenancy *tenancy = allocate_zeroed(sizeof *tenancy);

    tenancy->begin = begin;
    tenancy->end = end;
    tenancy->generation = ++last_generation;
    tenancy->program = program;
    tenancy->begin_site = site;
    return tenancy;
}

void tenancy_free(struct tenancy *tenancy) {
    sim_check_held();
    for (size_t i = 0; i < tenancy->touch_count; i++)
        work_drop(tenancy->touches[i].work);
    free(tenancy->touches);
    free(tenancy);
}

/* --- ownership --- */

bool tenancy_settled(const struct tenancy *tenancy, const struct vclock *clock) {
    sim_check_held();
    for (size_t i = 0; i < tenancy->touch_count; i++)
        if (!vclock_covers(clock, tenancy->touches[i].timeline, tenancy->touches[i].count))
            return false;
    return true;
}

bool block_is_visible(const struct block *block) {
    return block->kind == MEMORY_HOST || block->kind == MEMORY_REGISTERED ||
           block->kind == MEMORY_MANAGED;
}

/* Whether work that is pending may turn out to have used memory that the CPU reaches before the
 * host had it. */
static bool awaits_former(const struct block *block, const struct tenancy *tenancy) {
    return tenancy->program && block_is_visible(block) && pending_any();
}

/* Drops former tenancies that nothing to come can conflict with: whatever is submitted from now on
 * is ordered after all that the host knows to be done. */
static void prune(struct block *block) {
    struct tenancy *tenancy, *next;
    size_t kept = 0, awaited = 0;

    DL_FOREACH_SAFE(block->past, tenancy, next) {
        if (pending_within(tenancy->generation, tenancy->ended) && ++awaited <= AWAITED_KEPT)
            continue;
        if ((awaits_former(block, tenancy) || !tenancy_settled(tenancy, &host_clock)) &&
            ++kept <= PAST_KEPT)
            continue;
        DL_DELETE(block->past, tenancy);
        tenancy_free(tenancy);
    }
}

/* Moves a tenancy among the former ones, or drops it if it was never used. */
static void retire(struct block *block, struct tenancy *tenancy, uintptr_t site) {
    DL_DELETE(block->current, tenancy);
    if (tenancy->end_site == 0)
        tenancy->end_site = site;
    tenancy->ended = last_generation;
    if (tenancy->touch_count == 0 && !pending_within(tenancy->generation, tenancy->ended) &&
        !awaits_former(block, tenancy))
        tenancy_free(tenancy);
    else
        DL_PREPEND(block->past, tenancy);
}

/* A part of `whole` as a tenancy of its own: same owner, same history. */
static void keep_part(struct block *block, const struct tenancy *whole, CUdeviceptr begin,
                      CUdeviceptr end) {
    struct tenancy *part = tenancy_create(begin, end, whole->program, whole->begin_site);

    part->generation = whole->generation;
    part->end_site = whole->end_site;
    for (size_t i = 0; i < whole->touch_count; i++) {
        if (whole->touches[i].begin >= end || whole->touches[i].end <= begin)
            continue;
        part->touches =
            allocate_again(part->touches, (part->touch_count + 1) * sizeof *part->touches);
        part->touches[part->touch_count++] = whole->touches[i];
        if (whole->touches[i].work != NULL)
            work_keep(whole->touches[i].work);
    }
    DL_APPEND(block->current, part);
}

struct tenancy *tenancy_hand_over(struct block *block, CUdeviceptr begin, CUdeviceptr end,
                                  bool program, uintptr_t site) {
    sim_check_held();
    struct tenancy *tenancy, *next;

    prune(block);
    DL_FOREACH_SAFE(block->current, tenancy, next) {
        if (tenancy->begin >= end || tenancy->end <= begin)
            continue;
        if (tenancy->begin < begin)
            keep_part(block, tenancy, tenancy->begin, begin);
        if (tenancy->end > end)
            keep_part(block, tenancy, end, tenancy->end);
        tenancy->begin = tenancy->begin > begin ? tenancy->begin : begin;
        tenancy->end = tenancy->end < end ? tenancy->end : end;
        retire(block, tenancy, site);
    }
    tenancy = tenancy_create(begin, end, program, site);
    DL_APPEND(block->current, tenancy);
    return tenancy;
}

struct tenancy *tenancy_at(struct block *block, CUdeviceptr address) {
    sim_check_held();
    struct tenancy *tenancy = NULL;

    if (block != NULL)
        DL_FOREACH(block->current, tenancy)
    if (tenancy->begin <= address && address < tenancy->end)
        break;
    return tenancy;
}

/* --- accesses --- */

/* Forgets the accesses that nothing to come can conflict with, as prune does former owners. */
static void prune_touches(struct tenancy *tenancy) {
    size_t kept = 0;

    for (size_t i = 0; i < tenancy->touch_count; i++)
        if (!vclock_covers(&host_clock, tenancy->touches[i].timeline, tenancy->touches[i].count))
            tenancy->touches[kept++] = tenancy->touches[i];
        else
            work_drop(tenancy->touches[i].work);
    tenancy->touch_count = kept;
}

void tenancy_record(struct tenancy *tenancy, const struct access *access, const char *name,
                    const struct work *work) {
    sim_check_held();
    CUdeviceptr begin = access->address > tenancy->begin ? access->address : tenancy->begin;
    CUdeviceptr end = access->address + access->size < tenancy->end ? access->address + access->size
                                                                    : tenancy->end;
    uint32_t timeline = work->stream->timeline;
    struct touch *same = NULL, *widened = NULL;

    if (tenancy->touch_count >= TOUCHES_KEPT)
        prune_touches(tenancy);
    for (size_t i = 0; i < tenancy->touch_count; i++) {
        struct touch *touch = &tenancy->touches[i];

        if (touch->timeline != timeline || touch->write != access->write)
            continue;
        widened = touch;
        if (touch->begin == begin && touch->end == end)
            same = touch;
    }
    if (same == NULL && (widened == NULL || tenancy->touch_count < TOUCHES_KEPT)) {
        tenancy->touches =
            allocate_again(tenancy->touches, (tenancy->touch_count + 1) * sizeof *tenancy->touches);
        same = &tenancy->touches[tenancy->touch_count++];
        same->work = NULL;
        same->begin = begin;
        same->end = end;
    } else if (same == NULL) {
        same = widened;
        same->begin = same->begin < begin ? same->begin : begin;
        same->end = same->end > end ? same->end : end;
    }
    same->timeline = timeline;
    same->count = work->clock.counts[timeline];
    same->write = access->write;
    same->name = name;
    work_drop(same->work);
    same->work = pending_any() ? work_keep((struct work *)work) : NULL;
}
