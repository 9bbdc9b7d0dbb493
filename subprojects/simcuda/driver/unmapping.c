#include "unmapping.h"

#include "allocate.h"
#include "lock.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <utlist.h>

/* Invariant: in the list, by `before`; some work with a lower number is being executed. */
struct waiting {
    void *memory;
    size_t size;
    uint64_t before; /* work with such a number or a later one cannot have found it */
    struct waiting *prev, *next;
};

static struct toucher *touchers;
static struct waiting *waiting;
static uint64_t last_number;

void unmapping_work_begins(struct toucher *toucher) {
    sim_check_held();
    toucher->number = ++last_number;
    DL_APPEND(touchers, toucher);
}

void unmapping_work_ended(struct toucher *toucher) {
    sim_check_held();
    struct waiting *first;

    DL_DELETE(touchers, toucher);
    while ((first = waiting) != NULL && (touchers == NULL || touchers->number >= first->before)) {
        DL_DELETE(waiting, first);
        munmap(first->memory, first->size);
        free(first);
    }
}

bool unmapping_is_touched(void) {
    sim_check_held();
    return touchers != NULL;
}

void unmapping_add(void *memory, size_t size) {
    sim_check_held();
    struct waiting *added;

    if (touchers == NULL) {
        munmap(memory, size);
        return;
    }
    added = allocate_zeroed(sizeof *added);
    added->memory = memory;
    added->size = size;
    added->before = last_number + 1;
    DL_APPEND(waiting, added);
}
