#include "hazard.h"

#include "allocate.h"
#include "hazard_pending.h"
#include "hazard_report.h"
#include "lock.h"
#include "settings.h"

#include <stdlib.h>
#include <utlist.h>

enum { TOUCHES_KEPT = 32, PAST_KEPT = 64 };
enum { AWAITED_KEPT = 4096 }; /* former owners whose work is pending */

/* The latest access of one timeline to a range. `begin`..`end` grows when a tenancy has more of
 * them than it keeps: an over-approximation that stays within the tenancy. */
struct touch {
    CUdeviceptr begin, end;
    uint32_t timeline;
    uint64_t count; /* the work's number in its timeline */
    bool write;
    const char *name;  /* of the operation */
    struct work *work; /* a reference, where work is pending that it may conflict with; or NULL */
};

/* Who owned a range of a block, and how it was used meanwhile. Invariant: the current tenancies of
 * a block neither overlap nor leave a gap; generations are unique and grow. */
struct tenancy {
    CUdeviceptr begin, end;
    uint64_t generation;
    bool program;      /* owned by the program; otherwise idle, between an end and a begin */
    CUdeviceptr owner; /* with which address simcuda_owner_begin was called, 0 if it was not */
    uintptr_t begin_site, end_site;
    uint64_t
        reported_against; /* the last generation that a hazard with this one was reported for */
    struct touch *touches;
    size_t touch_count;
    uint64_t ended; /* how many generations had begun then; of a current one 0 */
    struct tenancy *prev, *next;
};

/* A block that was released while work was pending which may have accessed it. */
struct gone {
    struct tenancy *tenancies;
    struct vclock order; /* what the release came after */
    bool unmapped;
    uintptr_t site;
    struct gone *next;
};

static struct gone *gone_blocks;

static uint64_t last_generation;

static struct tenancy *tenancy_create(CUdeviceptr begin, CUdeviceptr end, bool program,
                                      uintptr_t site) {
    struct tenancy *tenancy = allocate_zeroed(sizeof *tenancy);

    tenancy->begin = begin;
    tenancy->end = end;
    tenancy->generation = ++last_generation;
    tenancy->program = program;
    tenancy->begin_site = site;
    return tenancy;
}

static void tenancy_free(struct tenancy *tenancy) {
    for (size_t i = 0; i < tenancy->touch_count; i++)
        work_drop(tenancy->touches[i].work);
    free(tenancy->touches);
    free(tenancy);
}

/* `old`: whose memory it was. */
static void report(const char *kind, const struct tenancy *old, const char *old_name,
                   uintptr_t new_site, const char *new_name, CUdeviceptr begin, CUdeviceptr end) {
    hazard_report(&(struct hazard_text){kind, old->begin_site, old->end_site, new_site, old_name,
                                        new_name, begin, end});
}

/* --- ownership --- */

static bool settled(const struct tenancy *tenancy, const struct vclock *clock) {
    for (size_t i = 0; i < tenancy->touch_count; i++)
        if (!vclock_covers(clock, tenancy->touches[i].timeline, tenancy->touches[i].count))
            return false;
    return true;
}

static bool is_visible(const struct block *block) {
    return block->kind == MEMORY_HOST || block->kind == MEMORY_REGISTERED ||
           block->kind == MEMORY_MANAGED;
}

/* Whether work that is pending may turn out to have used memory that the CPU reaches before the
 * host had it. */
static bool awaits_former(const struct block *block, const struct tenancy *tenancy) {
    return tenancy->program && is_visible(block) && pending_any();
}

/* Drops former tenancies that nothing to come can conflict with: whatever is submitted from now on
 * is ordered after all that the host knows to be done. */
static void prune(struct block *block) {
    struct tenancy *tenancy, *next;
    size_t kept = 0, awaited = 0;

    DL_FOREACH_SAFE(block->past, tenancy, next) {
        if (pending_within(tenancy->generation, tenancy->ended) && ++awaited <= AWAITED_KEPT)
            continue;
        if ((awaits_former(block, tenancy) || !settled(tenancy, &host_clock)) &&
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

/* Makes [begin, end) of the block one new tenancy. */
static void hand_over(struct block *block, CUdeviceptr begin, CUdeviceptr end, bool program,
                      uintptr_t site) {
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
}

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
        tenancy->ended = last_generation;
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
        hand_over(block, at, end, true, site);
        if (is_visible(block))
            check_host(block, at, end, site);
        block->current->prev->owner = address;
        if (generation == 0)
            generation = block->current->prev->generation;
        block->current->prev->generation = generation;
        at = end;
    }
    sim_unlock();
}

/* The tenancy that contains an address. */
static struct tenancy *tenancy_at(struct block *block, CUdeviceptr address) {
    struct tenancy *tenancy = NULL;

    if (block != NULL)
        DL_FOREACH(block->current, tenancy)
    if (tenancy->begin <= address && address < tenancy->end)
        break;
    return tenancy;
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
        hand_over(block, tenancy->begin, tenancy->end, false, site);
        if (!goes_on)
            break;
    }
    sim_unlock();
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

static void record(struct tenancy *tenancy, const struct access *access, const char *name,
                   const struct work *work) {
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
            settled(former, clock) && !pending_within(former->generation, former->ended)) {
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
        record(tenancy, access, op->name, work);
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
    pending_begin(op, work, clock, last_generation);
    submitted_all(op, work, clock);
}

/* --- accesses that become known when the work has run --- */

/* Whether the tenancy was there when the work was submitted. */
static bool was_there(const struct tenancy *tenancy, const struct pending *pending) {
    return tenancy->generation <= pending->generations &&
           (tenancy->ended == 0 || tenancy->ended >= pending->generations);
}

static bool overlaps(const struct tenancy *tenancy, const struct access *access) {
    return tenancy->begin < access->address + access->size && tenancy->end > access->address;
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
        if (later->generation <= owner->generation || !overlaps(later, access) ||
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
        if (later->generation <= owner->generation || !later->program || !overlaps(later, access) ||
            owner->reported_against == later->generation)
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
            if (!overlaps(tenancy, access) || !was_there(tenancy, pending))
                continue;
            struct access part = part_within(access, tenancy);

            any = true;
            record(tenancy, &part, found->name, pending->work);
            check_captured(tenancy, found, &part);
            if (i == 1)
                check_former(block, tenancy, &part, found->name, &pending->clock);
            check_later(block->current, tenancy, &part, found->name, pending);
            check_later(block->past, tenancy, &part, found->name, pending);
            if (is_visible(block)) {
                check_later_hosts(block->current, tenancy, &part, found);
                check_later_hosts(block->past, tenancy, &part, found);
            }
        }
    }
    DL_FOREACH(block->current, tenancy) {
        if (!overlaps(tenancy, access) || ((any || !is_younger) && !was_there(tenancy, pending)))
            continue;
        struct access part = part_within(access, tenancy);

        if (!any)
            record(tenancy, &part, found->name, pending->work);
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
            if (!overlaps(tenancy, access) || !was_there(tenancy, pending) ||
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
