#include "pool/address_index.h"

#include "pool/internal.h"

#include <stdlib.h>

enum { SHARES_PAGES = 1 << 20 };

struct index_entry {
    RB_ENTRY(index_entry) link;
    struct pool_block *block;
};

static int compare(const struct index_entry *one, const struct index_entry *other) {
    uint64_t a = one->block->pointer, b = other->block->pointer;
    return (a > b) - (a < b);
}

#define UNUSED __attribute__((unused))
RB_GENERATE_INTERNAL(index_tree, index_entry, link, compare, static UNUSED)

static struct index_blocks *class_of(const struct pool_block *block) {
    struct address_index *index = &block->context->device->index;
    return block->size <= SHARES_PAGES ? &index->small : &index->large;
}

static uint64_t first_page(const struct pool_block *block) {
    return block->pointer / ROUND_PAGE;
}

static uint64_t last_page(const struct pool_block *block) {
    return (block->pointer + block->size - 1) / ROUND_PAGE;
}

/* Counts the pages of a small block that no other lies in. sign: 1 or -1, in unsigned arithmetic.
 */
static void count_pages(struct address_index *index, struct index_entry *entry, size_t sign) {
    const struct index_entry *before = RB_PREV(index_tree, NULL, entry),
                             *after = RB_NEXT(index_tree, NULL, entry);
    uint64_t first = first_page(entry->block), last = last_page(entry->block);
    for (uint64_t page = first; page <= last; page++)
        if (!(before && last_page(before->block) >= page) &&
            !(after && first_page(after->block) <= page))
            index->pages += sign;
    index->crossing += first != last ? sign : 0;
}

static void count(struct index_blocks *class, struct index_entry *entry, size_t sign) {
    struct address_index *index = &entry->block->context->device->index;
    class->count += sign;
    class->bytes += sign * entry->block->size;
    if (class == &index->small)
        count_pages(index, entry, sign);
}

void address_index_add(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct index_blocks *class = class_of(block);
    if (block->context->keeper->cuts)
        return;
    struct index_entry *entry = malloc(sizeof *entry);
    if (!entry) {
        address_index_destroy(pool);
        return;
    }
    entry->block = block;
    RB_INSERT(index_tree, &class->tree, entry);
    count(class, entry, 1);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow the tree
}

void address_index_remove(struct pool *pool, const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    (void)pool;
    struct index_entry key = {.block = (struct pool_block *)(uintptr_t)block};
    struct index_blocks *class = class_of(block);
    struct index_entry *entry = RB_FIND(index_tree, &class->tree, &key);
    if (!entry || entry->block != block)
        return; /* a policy has cut it */
    count(class, entry, (size_t)-1);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow the tree
    RB_REMOVE(index_tree, &class->tree, entry);
    free(entry);
}

static void destroy(struct index_blocks *class) {
    struct index_entry *entry;
    while ((entry = RB_ROOT(&class->tree))) {
        RB_REMOVE(index_tree, &class->tree, entry);
        free(entry);
    }
}

void address_index_destroy(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct device *device;
    TAILQ_FOREACH (device, &pool->devices, link) {
        destroy(&device->index.small);
        destroy(&device->index.large);
        device->index = (struct address_index){.pages = 0};
    }
    pool->indexed = false;
}

static struct pool_block *find(const struct index_blocks *class, uint64_t address) {
    struct index_entry *entry = RB_ROOT(&class->tree);
    struct pool_block *below = NULL;
    while (entry) {
        bool to_the_left = address < entry->block->pointer;
        if (!to_the_left)
            below = entry->block;
        entry = to_the_left ? RB_LEFT(entry, link) : RB_RIGHT(entry, link);
    }
    return below && address - below->pointer < below->size ? below : NULL;
}

struct pool_block *address_index_find(const struct pool *pool, uint64_t address) {
    lock_check_held(LOCK_POOL);
    const struct device *device;
    struct pool_block *block = NULL;
    TAILQ_FOREACH (device, &pool->devices, link)
        if ((block = find(&device->index.large, address)) ||
            (block = find(&device->index.small, address)))
            break;
    return block;
}

struct pool_block *address_index_next(const struct index_blocks *blocks,
                                      struct index_entry **place) {
    lock_check_held(LOCK_POOL);
    struct index_entry *first = RB_ROOT(&blocks->tree);
    while (!*place && first && RB_LEFT(first, link))
        first = RB_LEFT(first, link);
    *place = *place ? RB_NEXT(index_tree, NULL, *place) : first;
    return *place ? (*place)->block : NULL;
}
