/* The check of the lock order and of who holds a lock, for test builds. */
#include "base/lock.h"

#include <stdlib.h>

/* Bit r: this thread holds the lock of rank r. */
static _Thread_local unsigned held;

void lock_check_take(enum lock_rank rank) {
    if (held >> rank)
        abort();
    held |= 1u << rank;
}

void lock_check_drop(enum lock_rank rank) {
    if (!(held & 1u << rank))
        abort();
    held &= ~(1u << rank);
}

void lock_check_held(enum lock_rank rank) {
    if (!(held & 1u << rank))
        abort();
}

void lock_check_none(void) {
    if (held)
        abort();
}
