#include "hazard_pending.h"

#include "allocate.h"
#include "lock.h"

#include <stdlib.h>
#include <utlist.h>

static struct pending *all;
static __thread struct found *founds;

static bool finds(const struct op *op) {
    bool any = op->finds_accesses;

    for (size_t i = 0; i < op->child_count && !any; i++)
        any = finds(op->children[i]);
    return any;
}

void pending_begin(const struct op *op, const struct work *work, const struct vclock *clock,
                   uint64_t generations) {
    sim_check_held();
    struct pending *pending;

    if (!finds(op))
        return;
    pending = allocate_zeroed(sizeof *pending);
    pending->work = work_keep((struct work *)work);
    vclock_join(&pending->clock, clock);
    pending->generations = generations;
    DL_APPEND(all, pending);
}

struct pending *pending_of(const struct work *work) {
    sim_check_held();
    struct pending *pending;

    DL_FOREACH(all, pending)
    if (pending->work == work)
        return pending;
    return NULL;
}

void pending_end(struct pending *pending) {
    sim_check_held();
    DL_DELETE(all, pending);
    vclock_clear(&pending->clock);
    work_drop(pending->work);
    free(pending);
}

bool pending_any(void) {
    sim_check_held();
    return all != NULL;
}

bool pending_within(uint64_t first, uint64_t last) {
    sim_check_held();
    const struct pending *pending;

    DL_FOREACH(all, pending)
    if (pending->generations >= first && pending->generations <= last)
        return true;
    return false;
}

void found_add(const struct op *op, struct access *accesses, size_t count) {
    struct found *found = allocate_zeroed(sizeof *found);

    found->name = op->name;
    found->op = op;
    found->accesses = accesses;
    found->count = count;
    LL_PREPEND(founds, found);
}

struct found *found_take(void) {
    struct found *taken = founds;

    founds = NULL;
    return taken;
}

void found_drop(struct found *found) {
    struct found *next;

    for (; found != NULL; found = next) {
        next = found->next;
        free(found->accesses);
        free(found);
    }
}
