#include "interpose/managed_calls.h"

#include "interpose/driver_hooks.h"

/* What a call is about: ranges of memory. A single one is in the struct itself. */
struct ranges {
    const CUdeviceptr *pointers;
    const size_t *sizes;
    size_t count;
    CUdeviceptr pointer;
    size_t size;
};

bool managed_call_is(const struct entry *entry) {
    switch ((enum entry_effect)entry->effect) {
    case EFFECT_attaches:
    case EFFECT_advises:
    case EFFECT_prefetches:
    case EFFECT_prefetches_each:
    case EFFECT_discards_each:
        return true;
    default:
        return false;
    }
}

static void find_ranges(struct ranges *ranges, const struct entry *entry,
                        const uint64_t *arguments) {
    unsigned first = entry->effect == EFFECT_attaches; /* behind the stream */
    if (entry->effect == EFFECT_prefetches_each || entry->effect == EFFECT_discards_each) {
        ranges->pointers = (const CUdeviceptr *)(uintptr_t)arguments[0];
        ranges->sizes = (const size_t *)(uintptr_t)arguments[1];
        ranges->count = ranges->pointers && ranges->sizes ? arguments[2] : 0;
        return;
    }
    ranges->pointer = arguments[first];
    ranges->size = arguments[first + 1];
    ranges->pointers = &ranges->pointer;
    ranges->sizes = &ranges->size;
    ranges->count = 1;
}

/* To the driver the whole of an allocation is the block, which may be larger. What natively does
 * not exist it is to refuse itself: a list of ranges, which is the program's, with another one. */
void managed_call_begins(struct pool *pool, const struct entry *entry, uint64_t *arguments) {
    static const CUdeviceptr nowhere = POOL_NOWHERE;
    static const size_t one_byte = 1;
    struct ranges ranges;
    find_ranges(&ranges, entry, arguments);
    for (size_t i = 0; i < ranges.count; i++) {
        CUdeviceptr base;
        size_t requested;
        enum pool_pointer_state state = hook_find(pool, ranges.pointers[i], &base, &requested);
        if (state == POOL_POINTER_IDLE && ranges.pointers != &ranges.pointer) {
            arguments[0] = (uint64_t)(uintptr_t)&nowhere;
            arguments[1] = (uint64_t)(uintptr_t)&one_byte;
            arguments[2] = 1;
            return;
        }
        if (state == POOL_POINTER_IDLE)
            arguments[entry->effect == EFFECT_attaches] = POOL_NOWHERE;
        if (state == POOL_POINTER_LIVE && entry->effect == EFFECT_attaches &&
            arguments[2] == requested)
            arguments[2] = 0;
    }
}

/* One of enum pool_managed_mark, 0 if it cannot be undone. */
static unsigned mark_of(const struct entry *entry, const uint64_t *arguments) {
    if (entry->effect == EFFECT_attaches)
        return POOL_MANAGED_ATTACHED;
    if (entry->effect == EFFECT_prefetches || entry->effect == EFFECT_prefetches_each)
        return POOL_MANAGED_PREFETCHED;
    if (entry->effect != EFFECT_advises)
        return 0;
    switch ((CUmem_advise)arguments[2]) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        return POOL_MANAGED_READ_MOSTLY;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        return POOL_MANAGED_PREFERRED;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        return POOL_MANAGED_ACCESSED;
    }
    return 0;
}

void managed_call_succeeded(struct pool *pool, const struct entry *entry,
                            const uint64_t *arguments) {
    struct ranges ranges;
    unsigned mark = mark_of(entry, arguments);
    find_ranges(&ranges, entry, arguments);
    for (size_t i = 0; i < ranges.count; i++) {
        CUdeviceptr pointer = ranges.pointers[i], base;
        size_t requested;
        if (hook_find(pool, pointer, &base, &requested) != POOL_POINTER_LIVE)
            continue;
        if (mark)
            pool_managed_note(pool, base, (enum pool_managed_mark)mark, pointer - base,
                              ranges.sizes[i]);
        else
            pool_taint(pool, base, POOL_TAINT_MANAGED);
    }
}
