#include "pool/address_index.h"

#include "policy/policy.h"

#include <stdlib.h>

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

void address_index_add(struct address_index *index, struct pool_block *block) {
    if (block->context->policy->cuts)
        return;
    struct index_entry *entry = malloc(sizeof *entry);
    if (!entry) {
        address_index_destroy(index);
        return;
    }
    entry->block = block;
    RB_INSERT(index_tree, &index->blocks, entry);
    index->count++;
}

void address_index_remove(struct address_index *index, const struct pool_block *block) {
    struct index_entry key = {.block = (struct pool_block *)(uintptr_t)block};
    struct index_entry *entry = RB_FIND(index_tree, &index->blocks, &key);
    if (!entry)
        return; /* a policy has cut it */
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow the tree
    RB_REMOVE(index_tree, &index->blocks, entry);
    index->count--;
    free(entry);
}

struct pool_block *address_index_find(const struct address_index *index, uint64_t address) {
    struct index_entry *entry = RB_ROOT(&index->blocks);
    struct pool_block *below = NULL;
    while (entry) {
        bool to_the_left = address < entry->block->pointer;
        if (!to_the_left)
            below = entry->block;
        entry = to_the_left ? RB_LEFT(entry, link) : RB_RIGHT(entry, link);
    }
    return below && address - below->pointer < below->size ? below : NULL;
}

void address_index_destroy(struct address_index *index) {
    struct index_entry *entry;
    while ((entry = RB_ROOT(&index->blocks))) {
        RB_REMOVE(index_tree, &index->blocks, entry);
        free(entry);
    }
    *index = (struct address_index){.there = false};
}
