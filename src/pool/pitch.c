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

static struct pitch_key key_of(const struct request *request) {
    return (struct pitch_key){(uint64_t)request->context->device->ordinal, request->pitch->width,
                              request->pitch->element};
}

static struct pitch *find(struct pool *pool, const struct pitch_key *key) {
    struct pitch *found;
    HASH_FIND(by_key, pool->pitches, key, sizeof *key, found);
    return found;
}

void pitch_apply(struct pool *pool, struct request *request) {
    lock_check_held(LOCK_POOL);
    struct pitch_request *pitched = request->pitch;
    const struct pitch_key key = key_of(request);
    const struct pitch *found = find(pool, &key);
    pitched->known = found ? found->pitch : 0;
    if (__builtin_mul_overflow(pitched->known, pitched->height, &request->bytes))
        request->bytes = 0;
    request->size = request->bytes ? pool->keeper->round(request->bytes) : 0;
}

void pitch_learn(struct pool *pool, const struct request *request) {
    lock_check_held(LOCK_POOL);
    const struct pitch_key key = key_of(request);
    struct pitch *entry = find(pool, &key);
    if (entry) {
        entry->pitch = *request->pitch->pitch;
        return;
    }
    entry = calloc(1, sizeof *entry);
    if (!entry)
        return;
    entry->key = key;
    entry->pitch = *request->pitch->pitch;
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
