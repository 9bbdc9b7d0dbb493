/* Memory of the check's own: what it has the driver pin for its launches.
 *
 * The driver may give it an address that the program had before. Natively nothing is there any
 * more, so a program that frees the address once more is refused; here the driver would free what
 * the GPU writes to and the host reads. So nothing of the program's ever reaches it. */
#include "check/internal.h"

#include <stdlib.h>

bool own_note(struct check *check, CUcontext handle, CUdeviceptr address, size_t bytes) {
    lock_check_none();
    struct check_own *own = calloc(1, sizeof *own);
    if (!own)
        return false;
    *own = (struct check_own){.context = handle, .address = address, .bytes = bytes};
    if (check->driver->pointer_get_attribute(&own->identity, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                             address) != CUDA_SUCCESS) {
        free(own); /* another thread has freed the address once more by now */
        return false;
    }
    check_lock(check);
    LIST_INSERT_HEAD(&check->own, own, link);
    check_unlock(check);
    return true;
}

void own_forget(struct check *check, CUcontext handle) {
    lock_check_none();
    struct check_own *own, *next;
    check_lock(check);
    for (own = LIST_FIRST(&check->own); own; own = next) {
        next = LIST_NEXT(own, link);
        if (handle && own->context != handle)
            continue;
        LIST_REMOVE(own, link);
        free(own);
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

/* Where the driver cannot tell, as in a context that is lost, it refuses the program's call as
 * well. */
bool check_owns(struct check *check, CUdeviceptr pointer) {
    unsigned long long noted = 0, now = 0;
    check_lock(check);
    const struct check_own *own = find(check, pointer);
    if (own)
        noted = own->identity;
    check_unlock(check);
    if (!own)
        return false;
    CUresult result =
        check->driver->pointer_get_attribute(&now, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer);
    return result == CUDA_SUCCESS ? now == noted : result != CUDA_ERROR_INVALID_VALUE;
}
