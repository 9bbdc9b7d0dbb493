#include "hazard.h"

#include "allocate.h"
#include "hazard_pending.h"
#include "hazard_report.h"
#include "lock.h"
#include "tenancy.h"

#include <stdlib.h>
#include <utlist.h>

/* A block that was released while work was pending which may have accessed it. */
struct gone {
    struct tenancy *tenancies;
    struct vclock order; /* what the release came after */
    bool unmapped;
    uintptr_t site;
    struct gone *next;
};

static struct gone *gone_blocks;

/* `old`: whose memory it was. */
static void report(const char *kind, const struct tenancy *old, const char *old_name,
                   uintptr_t new_site, const char *new_name, CUdeviceptr begin, CUdeviceptr end) {
    hazard_report(&(struct hazard_text){kind, old->begin_site, old->end_site, new_site, old_name,
                                        new_name, begin, end});
}

/* --- ownership --- */

void hazard_block_begin(struct block *block, uintptr_t site) {
    sim_check_held();
    struct tenancy *tenancy =
        tenancy_create(block->address, block->address + block->extent, true, site);

    block->first_generation = tenancy->generation;
    DL_APPEND(block->current, tenancy);
}

/* How memory goes: freed, after whatever waiting that does, or unmapped, which waits for nothing.
 */
static void check_released(struct tenancy *list, const struct vclock *order, uintptr_t site,
                           bool unmapped) {
    struct tenancy *tenancy;

    DL_FOREACH(list, tenancy) {
        for (size_t i = 0; i < tenancy->touch_count; i++) {
            const struct touch *touch = &tenancy->touches[i];

            if (vclock_covers(order, touch->timeline, touch->count))
                continue;
            tenancy->end_site = tenancy->end_site != 0 ? tenancy->end_site : site;
            report(unmapped ? "unmapped" : "released", tenancy, touch->name, 0,
                   unmapped ? "the unmapping" : "the release", touch->begin, touch->end);
            break;
        }
    }
}

/* What is still to become known of the block's use is held against its release. */
static void keep_gone(struct block *block, const struct vclock *order, uintptr_t site) {
    struct gone *gone = allocate_zeroed(sizeof *gone);
    struct tenancy *tenancy, *next;

    DL_FOREACH_SAFE(block->current, tenancy, next) {
        DL_DELETE(block->current, tenancy);
        tenancy->ended = tenancy_last_generation();
        tenancy->end_site = tenancy->end_site != 0 ? tenancy->end_site : site;
        DL_APPEND(gone->tenancies, tenancy);
    }
    DL_FOREACH_SAFE(block->past, tenancy, next) {
        DL_DELETE(block->past, tenancy);
        DL_APPEND(gone->tenancies, tenancy);
    }
    vclock_join(&gone->order, order);
    gone->unmapped = block->kind == MEMORY_MAPPED;
    gone->site = site;
    LL_PREPEND(gone_blocks, gone);
}

static void drop_gone(void) {
    struct gone *gone, *next;
    struct tenancy *tenancy, *following;

    LL_FOREACH_SAFE(gone_blocks, gone, next) {
        DL_FOREACH_SAFE(gone->tenancies, tenancy, following)
        tenancy_free(tenancy);
        vclock_clear(&gone->order);
        free(gone);
    }
    gone_blocks = NULL;
}

void hazard_block_end(struct block *block, const struct vclock *order, uintptr_t site) {
    sim_check_held();
    struct tenancy *tenancy, *next;

    check_released(block->current, order, site, block->kind == MEMORY_MAPPED);
    check_released(block->past, order, site, block->kind == MEMORY_MAPPED);
    if (pending_any())
        keep_gone(block, order, site);
    DL_FOREACH_SAFE(block->current, tenancy, next)
    tenancy_free(tenancy);
    DL_FOREACH_SAFE(block->past, tenancy, next)
    tenancy_free(tenancy);
    block->current = block->past = NULL;
}

/* The block, and how much of [address, address + size) lies in it. */
static struct block *owned_range(CUdeviceptr address, size_t size, CUdeviceptr *end) {
    struct block *block = memory_containing(address);

    if (block == NULL)
        return NULL;
    *end = size < block->address + block->extent - address ? address + size
                                                           : block->address + block->extent;
    return block;
}

/* The CPU may touch its memory as soon as it has it: whatever a former owner's work does there
 * later than that is a conflict. (What it may still do was not pruned.) */
static void check_host(const struct block *block, CUdeviceptr begin, CUdeviceptr end,
                       uintptr_t site) {
    struct tenancy *former;

    DL_FOREACH(block->past, former) {
        for (size_t i = 0; former->begin < end && former->end > begin && i < former->touch_count;
             i++) {
            const struct touch *touch = &former->touches[i];

            if (touch->begin >= end || touch->end <= begin ||
                vclock_covers(&host_clock, touch->timeline, touch->count))
                continue;
            report("reused", former, touch->name, site, "the host's own access", touch->begin,
                   touch->end);
            break;
        }
    }
}

/* Mappings side by side are used as one: an owner's range may go on in the next block, where it is
 * of the same generation. */
SIM_EXPORT void simcuda_owner_begin(CUdeviceptr address, size_t size, uintptr_t site) {
    CUdeviceptr at = address, last = address + size, end;
    uint64_t generation = 0;
    struct block *block;

    sim_lock();
    while (at < last && (block = owned_range(at, last - at, &end)) != NULL && end > at) {
        struct tenancy *tenancy = tenancy_hand_over(block, at, end, true, site);

        if (block_is_visible(block))
            check_host(block, at, end, site);
        tenancy->owner = address;
        if (generation == 0)
            generation = tenancy->generation;
        tenancy->generation = generation;
        at = end;
    }
    sim_unlock();
}

SIM_EXPORT void simcuda_owner_end(CUdeviceptr address, uintptr_t site) {
    CUdeviceptr at = address;
    struct tenancy *tenancy;
    struct block *block;

    sim_lock();
    while ((tenancy = tenancy_at(block = memory_containing(at), at)) != NULL && tenancy->program &&
           (at == address || tenancy->owner == address)) {
        bool goes_on = tenancy->owner != 0 && tenancy->end == block->address + block->extent;

        at = tenancy->end;
        tenancy->end_site = site;
        tenancy_hand_over(block, tenancy->begin, tenancy->end, false, site);
        if (!goes_on)
            break;
    }
    sim_unlock();
}

/* --- accesses --- */

/* Two accesses of different owners conflict when one of them writes and the later one is not
 * ordered after the earlier one. */
static void check_former(struct block *block, struct tenancy *owner, const struct access *access,
                         const char *name, const struct vclock *clock) {
    CUdeviceptr begin = access->address, end = access->address + access->size;
    struct tenancy *former, *next;

    DL_FOREACH_SAFE(block->past, former, next) {
        if (former->begin >= end || former->end <= begin ||
            former->generation >= owner->generation ||
            former->reported_against == owner->generation)
            continue;
        for (size_t i = 0; i < former->touch_count; i++) {
            const struct touch *touch = &former->touches[i];

            if (touch->begin >= end || touch->end <= begin || (!touch->write && !access->write) ||
                vclock_covers(clock, touch->timeline, touch->count))
                continue;
            report("reused", former, touch->name, owner->begin_site, name, begin, end);
            former->reported_against = owner->generation;
            break;
        }
        /* a write over all of it that came after all of it: later work that is ordered after this
         * write is ordered after the former owner too, other work conflicts with the write */
        if (access->write && begin <= former->begin && end >= former->end &&
            tenancy_settled(former, clock) && !pending_within(former->generation, former->ended)) {
            DL_DELETE(block->past, former);
            tenancy_free(former);
        }
    }
}

static void submitted_in(struct block *block, const struct access *access, const struct op *op,
                         const struct work *work, const struct vclock *clock) {
    struct tenancy *tenancy;

    DL_FOREACH(block->current, tenancy) {
        if (tenancy->begin >= access->address + access->size || tenancy->end <= access->address)
            continue;
        if (access->generation != 0 && access->generation != tenancy->generation &&
            tenancy->program) {
            struct tenancy captured = {.begin_site = access->site};

            report("outlived", &captured, "what was captured", tenancy->begin_site, op->name,
                   access->address, access->address + access->size);
        }
        check_former(block, tenancy, access, op->name, clock);
        tenancy_record(tenancy, access, op->name, work);
    }
}

static void submitted(const struct access *access, const struct op *op, const struct work *work,
                      const struct vclock *clock) {
    struct block *block = memory_containing(access->address); /* NULL: it will fail by itself */

    for (; block != NULL && block->address < access->address + access->size;
         block = memory_next(block))
        submitted_in(block, access, op, work, clock);
}

static void submitted_all(const struct op *op, const struct work *work,
                          const struct vclock *clock) {
    for (size_t i = 0; i < op->access_count; i++)
        if (!op->accesses[i].is_hint)
            submitted(&op->accesses[i], op, work, clock);
    for (size_t i = 0; i < op->child_count; i++)
        submitted_all(op->children[i], work, clock);
}

void hazard_submitted(const struct op *op, const struct work *work, const struct vclock *clock) {
    sim_check_held();
    pending_begin(op, work, clock, tenancy_last_generation());
    submitted_all(op, work, clock);
}

/* --- accesses that become known when the work has run --- */

/* Whether the tenancy was there when the work was submitted. */
static bool was_there(const struct tenancy *tenancy, const struct pending *pending) {
    return tenancy->generation <= pending->generations &&
           (tenancy->ended == 0 || tenancy->ended >= pending->generations);
}

/* The part of an access that is in one owner's memory: accesses are known by whole sectors, which
 * may reach beyond that, into memory of the block that nobody has. */
static struct access part_within(const struct access *access, const struct tenancy *owner) {
    struct access part = *access;
    CUdeviceptr end = access->address + access->size;

    part.address = access->address > owner->begin ? access->address : owner->begin;
    part.size = (end < owner->end ? end : owner->end) - part.address;
    return part;
}

/* What owners behind this one have done already, without being ordered after the work. */
static void check_later(struct tenancy *list, struct tenancy *owner, const struct access *access,
                        const char *name, const struct pending *pending) {
    uint32_t timeline = pending->work->stream->timeline;
    uint64_t count = pending->work->clock.counts[timeline];
    struct tenancy *later;

    DL_FOREACH(list, later) {
        if (later->generation <= owner->generation || !tenancy_overlaps(later, access) ||
            owner->reported_against == later->generation)
            continue;
        for (size_t i = 0; i < later->touch_count; i++) {
            const struct touch *touch = &later->touches[i];

            if (touch->begin >= access->address + access->size || touch->end <= access->address ||
                (!touch->write && !access->write) || touch->work == NULL ||
                touch->work == pending->work || vclock_covers(&touch->work->clock, timeline, count))
                continue;
            report("reused", owner, name, later->begin_site, touch->name, access->address,
                   access->address + access->size);
            owner->reported_against = later->generation;
            break;
        }
    }
}

/* Owners behind this one of memory that the CPU reaches, who got it before the work had ended: the
 * host has not waited for it. */
static void check_later_hosts(struct tenancy *list, struct tenancy *owner,
                              const struct access *access, const struct found *found) {
    struct tenancy *later;

    DL_FOREACH(list, later) {
        if (later->generation <= owner->generation || !later->program ||
            !tenancy_overlaps(later, access) || owner->reported_against == later->generation)
            continue;
        report("reused", owner, found->name, later->begin_site, "the host's own access",
               access->address, access->address + access->size);
        owner->reported_against = later->generation;
    }
}

/* The graph's argument pointed to memory of another owner when it was captured. */
static void check_captured(const struct tenancy *owner, const struct found *found,
                           const struct access *access) {
    for (size_t i = 0; i < found->op->access_count; i++) {
        const struct access *hint = &found->op->accesses[i];
        struct tenancy captured = {.begin_site = hint->site};

        if (!hint->is_hint || hint->generation == 0 || hint->generation == owner->generation ||
            hint->address < owner->begin || hint->address >= owner->end || !owner->program)
            continue;
        report("outlived", &captured, "what was captured", owner->begin_site, found->name,
               access->address, access->address + access->size);
        return;
    }
}

/* The owners of the block as of when the work was submitted; where there was no block yet, those of
 * now. */
static void found_in(struct block *block, const struct found *found, const struct access *access,
                     const struct pending *pending) {
    struct tenancy *lists[] = {block->current, block->past}, *tenancy;
    bool any = false, is_younger = block->first_generation > pending->generations;

    for (int i = 0; i < 2; i++) {
        DL_FOREACH(lists[i], tenancy) {
            if (!tenancy_overlaps(tenancy, access) || !was_there(tenancy, pending))
                continue;
            struct access part = part_within(access, tenancy);

            any = true;
            tenancy_record(tenancy, &part, found->name, pending->work);
            check_captured(tenancy, found, &part);
            if (i == 1)
                check_former(block, tenancy, &part, found->name, &pending->clock);
            check_later(block->current, tenancy, &part, found->name, pending);
            check_later(block->past, tenancy, &part, found->name, pending);
            if (block_is_visible(block)) {
                check_later_hosts(block->current, tenancy, &part, found);
                check_later_hosts(block->past, tenancy, &part, found);
            }
        }
    }
    DL_FOREACH(block->current, tenancy) {
        if (!tenancy_overlaps(tenancy, access) ||
            ((any || !is_younger) && !was_there(tenancy, pending)))
            continue;
        struct access part = part_within(access, tenancy);

        if (!any)
            tenancy_record(tenancy, &part, found->name, pending->work);
        check_former(block, tenancy, &part, found->name, &pending->clock);
    }
}

static void found_in_gone(const struct found *found, const struct access *access,
                          const struct pending *pending) {
    uint32_t timeline = pending->work->stream->timeline;
    struct tenancy *tenancy;
    struct gone *gone;

    LL_FOREACH(gone_blocks, gone) {
        if (vclock_covers(&gone->order, timeline, pending->work->clock.counts[timeline]))
            continue;
        DL_FOREACH(gone->tenancies, tenancy) {
            if (!tenancy_overlaps(tenancy, access) || !was_there(tenancy, pending) ||
                tenancy->reported_against == UINT64_MAX)
                continue;
            report(gone->unmapped ? "unmapped" : "released", tenancy, found->name, 0,
                   gone->unmapped ? "the unmapping" : "the release", access->address,
                   access->address + access->size);
            tenancy->reported_against = UINT64_MAX;
        }
    }
}

static void found_one(const struct found *found, const struct access *access,
                      const struct pending *pending) {
    struct block *block = memory_containing(access->address);

    found_in_gone(found, access, pending);
    for (; block != NULL && block->address < access->address + access->size;
         block = memory_next(block))
        found_in(block, found, access, pending);
}

void hazard_done(const struct work *work) {
    sim_check_held();
    struct pending *pending = pending_of(work);
    struct found *all = found_take(), *found;

    LL_FOREACH(all, found)
    for (size_t i = 0; pending != NULL && i < found->count; i++)
        found_one(found, &found->accesses[i], pending);
    found_drop(all);
    if (pending == NULL)
        return;
    pending_end(pending);
    if (!pending_any())
        drop_gone();
}

void hazard_note_owners(struct op *op) {
    sim_check_held();
    for (size_t i = 0; i < op->access_count; i++) {
        struct access *access = &op->accesses[i];
        struct block *block = memory_containing(access->address);
        struct tenancy *tenancy;

        if (block == NULL)
            continue;
        DL_FOREACH(block->current, tenancy) {
            if (tenancy->begin > access->address || access->address >= tenancy->end)
                continue;
            access->generation = tenancy->generation;
            access->site = tenancy->begin_site;
        }
    }
}
