/* Memory of the check's own: what it has the driver pin for its launches.
 *
 * The driver may give it an address that the program had before. Natively nothing is there any
 * more, so a program that frees the address once more is refused; here the driver would free what
 * the GPU writes to and the host reads. So nothing of the program's ever reaches it. */
#include "check/internal.h"

#include <stdlib.h>

bool own_note(struct check *check, struct check_context *context, CUdeviceptr address,
              size_t bytes) {
    lock_check_none();
    struct check_own *own = calloc(1, sizeof *own);
    if (!own)
        return false;
    *own = (struct check_own){.context = context, .address = address, .bytes = bytes};
    check_lock(check);
    LIST_INSERT_HEAD(&check->own, own, link);
    check_unlock(check);
    return true;
}

/* Lock held. */
static void forget(struct check_own *own) {
    lock_check_held(LOCK_CHECK);
    LIST_REMOVE(own, link);
    free(own);
}

void own_forget(struct check *check, const struct check_context *context) {
    lock_check_none();
    struct check_own *own, *next;
    check_lock(check);
    for (own = LIST_FIRST(&check->own); own; own = next) {
        next = LIST_NEXT(own, link);
        if (!context || own->context == context)
            forget(own);
    }
    check_unlock(check);
}

void check_given(struct check *check, CUdeviceptr address, size_t bytes) {
    struct check_own *own, *next;
    check_lock(check);
    for (own = LIST_FIRST(&check->own); own; own = next) {
        next = LIST_NEXT(own, link);
        if (address - own->address < own->bytes || own->address - address < bytes)
            forget(own);
    }
    check_unlock(check);
}

/* Lock held. */
static const struct check_own *find(const struct check *check, CUdeviceptr address) {
    lock_check_held(LOCK_CHECK);
    const struct check_own *own;
    LIST_FOREACH (own, &check->own, link)
        if (address - own->address < own->bytes)
            return own;
    return NULL;
}

/* Also while its context may end: most such calls end none, and the check goes on using it. */
bool check_owns(struct check *check, CUdeviceptr pointer) {
    lock_check_none();
    check_lock(check);
    bool owns = find(check, pointer) != NULL;
    check_unlock(check);
    return owns;
}
