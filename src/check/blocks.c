/* The records of blocks, by address. */
#include "check/internal.h"

#include "counters/stats.h"

#include <stdlib.h>

static int compare(const struct check_block *one, const struct check_block *other) {
    return one->base < other->base ? -1 : one->base > other->base;
}

#define UNUSED __attribute__((unused))
RB_GENERATE_INTERNAL(check_tree, check_block, by_address, compare, static UNUSED)

struct check_block *block_around(struct check *check, CUdeviceptr address) {
    lock_check_held(LOCK_CHECK);
    struct check_block *block = RB_ROOT(&check->blocks), *below = NULL;
    while (block) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow the tree
        if (block->base <= address) {
            below = block;
            block = RB_RIGHT(block, by_address);
        } else {
            block = RB_LEFT(block, by_address);
        }
    }
    return below && address - below->base < below->size ? below : NULL;
}

struct check_block *block_at(struct check *check, CUdeviceptr user) {
    lock_check_held(LOCK_CHECK);
    struct check_block *block = block_around(check, user);
    return block && block->user == user ? block : NULL;
}

struct check_block *block_from(struct check *check, CUdeviceptr base) {
    lock_check_held(LOCK_CHECK);
    struct check_block key = {.base = base};
    return RB_NFIND(check_tree, &check->blocks, &key);
}

void block_remove_all(struct check *check, CUdeviceptr base, size_t size) {
    lock_check_held(LOCK_CHECK);
    struct check_block *old;
    while ((old = block_around(check, base)) ||
           ((old = block_from(check, base)) && old->base - base < size))
        block_remove(check, old);
}

void block_add(struct check *check, struct check_block *block) {
    lock_check_held(LOCK_CHECK);
    block_remove_all(check, block->base, block->size);
    block->state = CHECK_LIVE;
    RB_INSERT(check_tree, &check->blocks, block);
    if (block->zones == CHECK_BARE)
        TAILQ_INSERT_TAIL(&block->context->bare, block, in_list);
}

void block_take_back(struct check *check, struct check_block *block) {
    lock_check_held(LOCK_CHECK);
    if (block->context->ended)
        return;
    block_add(check, block);
    block_set_state(check, block, CHECK_DETACHED);
}

static void count_quarantined(struct check *check, struct check_context *context, uint64_t change) {
    context->quarantined += change;
    check->quarantined += change;
    stats_set(STATS_check_quarantine_bytes, check->quarantined);
}

/* Takes the block out of the list that its state puts it in. */
static void unlink_block(struct check *check, struct check_block *block) {
    struct check_context *context = block->context;
    if (block->state == CHECK_LIVE && block->zones == CHECK_BARE) {
        TAILQ_REMOVE(&context->bare, block, in_list);
    } else if (block->state == CHECK_QUARANTINED) {
        if (context->cursor == block)
            context->cursor = TAILQ_NEXT(block, in_list);
        TAILQ_REMOVE(&context->quarantine, block, in_list);
        count_quarantined(check, context, 0 - block->size);
    } else if (block->state == CHECK_LEAVING) {
        context->leaving -= block->size;
        if (!block->uses)
            TAILQ_REMOVE(&context->left, block, in_list);
    }
}

void block_set_state(struct check *check, struct check_block *block, enum check_state state) {
    lock_check_held(LOCK_CHECK);
    struct check_context *context = block->context;
    unlink_block(check, block);
    block->state = state;
    if (state == CHECK_LIVE && block->zones == CHECK_BARE) {
        TAILQ_INSERT_TAIL(&context->bare, block, in_list);
    } else if (state == CHECK_QUARANTINED) {
        TAILQ_INSERT_TAIL(&context->quarantine, block, in_list);
        count_quarantined(check, context, block->size);
    } else if (state == CHECK_LEAVING) {
        context->leaving += block->size;
        if (!block->uses)
            TAILQ_INSERT_TAIL(&context->left, block, in_list);
    }
}

static void free_if_unused(struct check_block *block) {
    if (!block->held && !block->uses)
        free(block);
}

void block_remove(struct check *check, struct check_block *block) {
    lock_check_held(LOCK_CHECK);
    unlink_block(check, block);
    block->state = CHECK_GONE;
    RB_REMOVE(check_tree, &check->blocks, block);
    free_if_unused(block);
}

void block_drop_use(struct check_block *block) {
    lock_check_held(LOCK_CHECK);
    block->uses--;
    if (block->state == CHECK_LEAVING && !block->uses)
        TAILQ_INSERT_TAIL(&block->context->left, block, in_list);
    if (block->state == CHECK_GONE)
        free_if_unused(block);
}

void block_detach(struct check *check, struct check_block *block) {
    lock_check_held(LOCK_CHECK);
    unlink_block(check, block);
    block->uses = 0;
    block->state = CHECK_DETACHED;
}

void block_let_go(struct check_block *block) {
    lock_check_held(LOCK_CHECK);
    block->held = false;
    if (block->state == CHECK_GONE)
        free_if_unused(block);
}

void block_set_zones(struct check_block *block, enum check_zones zones) {
    lock_check_held(LOCK_CHECK);
    if (block->state == CHECK_LIVE && block->zones == CHECK_BARE)
        TAILQ_REMOVE(&block->context->bare, block, in_list);
    block->zones = zones;
    if (block->state == CHECK_LIVE && zones == CHECK_BARE)
        TAILQ_INSERT_TAIL(&block->context->bare, block, in_list);
}
