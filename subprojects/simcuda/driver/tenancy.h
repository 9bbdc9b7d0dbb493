/* Who owned memory, and who used it meanwhile: what the hazard detector compares. All below: lock
 * held, unless it says otherwise. */
#ifndef SIMCUDA_TENANCY_H
#define SIMCUDA_TENANCY_H

#include "memory.h"
#include "op.h"
#include "stream.h"

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

struct tenancy *tenancy_create(CUdeviceptr begin, CUdeviceptr end, bool program, uintptr_t site);
void tenancy_free(struct tenancy *tenancy);
uint64_t tenancy_last_generation(void);

/* Makes [begin, end) of the block one new tenancy, which is returned: the last of the current ones.
 * Where the ones before ended is `site`, if it was not known. */
struct tenancy *tenancy_hand_over(struct block *block, CUdeviceptr begin, CUdeviceptr end,
                                  bool program, uintptr_t site);

/* The current one that contains an address; NULL if none does. `block` may be NULL. */
struct tenancy *tenancy_at(struct block *block, CUdeviceptr address);

/* Keeps an access of work's, cut to what lies within the tenancy. */
void tenancy_record(struct tenancy *tenancy, const struct access *access, const char *name,
                    const struct work *work);

/* Lock not needed. */
static inline bool tenancy_overlaps(const struct tenancy *tenancy, const struct access *access) {
    return tenancy->begin < access->address + access->size && tenancy->end > access->address;
}

/* Whether all that its owner did is covered by the clock. */
bool tenancy_settled(const struct tenancy *tenancy, const struct vclock *clock);
/* Whether the CPU reaches the block's memory by itself. Lock not needed. */
bool block_is_visible(const struct block *block);

#endif
