#include "vclock.h"

#include "allocate.h"

#include <stdlib.h>
#include <string.h>

static void reserve(struct vclock *clock, uint32_t length) {
    if (length <= clock->length)
        return;
    clock->counts = allocate_again(clock->counts, length * sizeof *clock->counts);
    memset(clock->counts + clock->length, 0, (length - clock->length) * sizeof *clock->counts);
    clock->length = length;
}

void vclock_join(struct vclock *into, const struct vclock *from) {
    reserve(into, from->length);
    for (uint32_t i = 0; i < from->length; i++)
        if (from->counts[i] > into->counts[i])
            into->counts[i] = from->counts[i];
}

void vclock_raise(struct vclock *clock, uint32_t timeline, uint64_t count) {
    reserve(clock, timeline + 1);
    if (clock->counts[timeline] < count)
        clock->counts[timeline] = count;
}

bool vclock_covers(const struct vclock *clock, uint32_t timeline, uint64_t count) {
    return timeline < clock->length && clock->counts[timeline] >= count;
}

void vclock_clear(struct vclock *clock) {
    free(clock->counts);
    clock->counts = NULL;
    clock->length = 0;
}
