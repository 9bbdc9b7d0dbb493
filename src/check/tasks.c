/* From blocks to what the kernel is to do with their bytes, and what it has done. */
#include "check/internal.h"

/* Whether there is room for all of a block's tasks. */
static bool has_room(const struct check_launch *launch, unsigned tasks) {
    return launch->count + tasks <= CHECK_TASKS;
}

/* Adds a task. Returns its bytes. */
static uint64_t add(struct check_launch *launch, struct check_block *block, CUdeviceptr address,
                    uint64_t bytes, enum check_op op, uint8_t pattern) {
    unsigned i = launch->count++;
    launch->tasks[i] =
        (struct check_task){.address = address, .bytes = bytes, .id = i, .op = op, pattern};
    launch->blocks[i] = block;
    block->uses++;
    return bytes;
}

uint64_t tasks_zones(struct check_launch *launch, struct check_block *block, enum check_op op) {
    lock_check_held(LOCK_CHECK);
    CUdeviceptr end = block->user + block->bytes;
    if (!has_room(launch, 2))
        return 0;
    if (op == CHECK_FILL)
        block_set_zones(block, CHECK_FILLING);
    return add(launch, block, block->base, block->user - block->base, op, CHECK_ZONE_BYTE) +
           add(launch, block, end, block->base + block->size - end, op, CHECK_ZONE_BYTE);
}

/* Adds tasks on all of the block, or on stripes from its first byte to its last. */
uint64_t tasks_body(struct check_launch *launch, struct check_block *block, enum check_op op) {
    lock_check_held(LOCK_CHECK);
    const uint64_t whole = (uint64_t)CHECK_STRIPES * CHECK_STRIPE;
    if (block->bytes <= whole)
        return has_room(launch, 1)
                   ? add(launch, block, block->user, block->bytes, op, CHECK_POISON_BYTE)
                   : 0;
    if (!has_room(launch, CHECK_STRIPES))
        return 0;
    uint64_t last = block->bytes - CHECK_STRIPE;
    for (unsigned i = 0; i < CHECK_STRIPES; i++) {
        uint64_t offset = last / (CHECK_STRIPES - 1) * i & ~(uint64_t)(CHECK_KERNEL_WORD - 1);
        add(launch, block, block->user + (i == CHECK_STRIPES - 1 ? last : offset), CHECK_STRIPE, op,
            CHECK_POISON_BYTE);
    }
    return whole;
}

uint64_t tasks_verify(struct check_launch *launch, struct check_block *block) {
    lock_check_held(LOCK_CHECK);
    bool poisoned = block->state == CHECK_QUARANTINED || block->state == CHECK_LEAVING;
    if (!has_room(launch, CHECK_BLOCK_TASKS))
        return 0;
    uint64_t bytes = block->zones == CHECK_ZONED ? tasks_zones(launch, block, CHECK_VERIFY) : 0;
    return bytes + (poisoned ? tasks_body(launch, block, CHECK_VERIFY) : 0);
}

void tasks_drop(struct check_launch *launch, const struct check_block *failed) {
    lock_check_held(LOCK_CHECK);
    unsigned left = 0;
    for (unsigned i = 0; i < launch->count; i++) {
        struct check_block *block = launch->blocks[i];
        bool done = launch->tasks[i].op == CHECK_FILL || block->state == CHECK_GONE;
        if (done || block == failed) {
            block_drop_use(block);
            continue;
        }
        launch->tasks[left] = launch->tasks[i];
        launch->tasks[left].id = left;
        launch->blocks[left++] = block;
    }
    launch->count = left;
}

static bool fills_a_zone(const struct check_task *task) {
    return task->op == CHECK_FILL && task->pattern == CHECK_ZONE_BYTE;
}

static void set_zones(struct check_launch *launch, enum check_zones zones) {
    for (unsigned i = 0; i < launch->count; i++)
        if (fills_a_zone(&launch->tasks[i]))
            block_set_zones(launch->blocks[i], zones);
}

void tasks_submitted(struct check_launch *launch) {
    lock_check_held(LOCK_CHECK);
    set_zones(launch, CHECK_ZONED);
}

void tasks_finish(struct check_launch *launch, bool known) {
    lock_check_held(LOCK_CHECK);
    if (!known)
        set_zones(launch, CHECK_BARE);
    for (unsigned i = 0; i < launch->count; i++) {
        struct check_block *block = launch->blocks[i];
        if (known && block->verified < launch->work)
            block->verified = launch->work;
        block_drop_use(block);
    }
    launch->count = 0;
}
