/* The pitches that the driver has chosen: what a reused block may be handed out with. */
#include "pool/internal.h"

#include <stdlib.h>

struct pitch {
    struct pitch_key {
        uint64_t device, width, element;
    } key;
    size_t pitch;
    UT_hash_handle by_key;
};

static struct pitch *find(struct pool *pool, CUdevice device, size_t width, unsigned int element) {
    struct pitch_key key = {(uint64_t)device, width, element};
    struct pitch *found;
    HASH_FIND(by_key, pool->pitches, &key, sizeof key, found);
    return found;
}

size_t pitch_known(struct pool *pool, CUdevice device, size_t width, unsigned int element) {
    lock_check_held(LOCK_POOL);
    struct pitch *found = find(pool, device, width, element);
    return found ? found->pitch : 0;
}

void pitch_learn(struct pool *pool, CUdevice device, size_t width, unsigned int element,
                 size_t pitch) {
    lock_check_held(LOCK_POOL);
    struct pitch *entry = find(pool, device, width, element);
    if (entry) {
        entry->pitch = pitch;
        return;
    }
    entry = calloc(1, sizeof *entry);
    if (!entry)
        return;
    entry->key = (struct pitch_key){(uint64_t)device, width, element};
    entry->pitch = pitch;
    HASH_ADD(by_key, pool->pitches, key, sizeof entry->key, entry);
    if (!entry->by_key.tbl)
        free(entry);
}

void pitch_forget_all(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct pitch *entry, *next;
    HASH_ITER (by_key, pool->pitches, entry, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DELETE(by_key, pool->pitches, entry);
        free(entry);
    }
}
