/* What idle blocks are worth in free memory. The driver's unit is the 2 MiB page: a page that small
 * blocks share comes free with its last block.
 *
 * The ledger has the sums over all blocks, and the index those over small ones and over large ones,
 * live or not. So what is idle of one class tells what is idle of the other, and however many
 * blocks there are, at most LOOKS of each class are looked at. Where that does not tell all, the
 * answer is the least that it can be: what can be had may be more, never less. */
#include "keep/region.h"
#include "pool/internal.h"

enum { LOOKS = 1024 };

/* Idle blocks of one class. worth: bytes that the driver would have back with them. */
struct idle {
    uint64_t blocks, bytes, worth;
};

static bool is_idle(const struct pool_block *block) {
    return block->state == BLOCK_IDLE || block->state == BLOCK_DEFERRED;
}

static uint64_t least(uint64_t one, uint64_t other) {
    return one < other ? one : other;
}

static void add(struct idle *idle, const struct pool_block *block) {
    if (is_idle(block)) {
        idle->blocks++;
        idle->bytes += block->size;
    }
}

static struct idle look_at_large(const struct index_blocks *blocks) {
    struct idle idle = {0};
    struct index_entry *place = NULL;
    const struct pool_block *block;
    while ((block = address_index_next(blocks, &place))) {
        add(&idle, block);
        idle.worth += is_idle(block) ? round_up(block->size, ROUND_PAGE) : 0;
    }
    return idle;
}

/* The blocks come by address, and so those of one page after each other. */
static struct idle look_at_small(const struct index_blocks *blocks) {
    struct idle idle = {0};
    struct index_entry *place = NULL;
    const struct pool_block *block;
    uint64_t page = 0, idle_in_page = 0; /* idle: not, if any block of the page is live */
    while ((block = address_index_next(blocks, &place))) {
        uint64_t last = (block->pointer + block->size - 1) / ROUND_PAGE;
        add(&idle, block);
        for (uint64_t each = block->pointer / ROUND_PAGE; each <= last; each++) {
            idle.worth += each != page ? idle_in_page : 0;
            idle_in_page = is_idle(block) && (each != page || idle_in_page) ? ROUND_PAGE : 0;
            page = each;
        }
    }
    idle.worth += idle_in_page;
    return idle;
}

/* large: of the large blocks, as far as is known of them. A live block keeps one page, or two. */
static uint64_t least_worth_of_small(const struct device *device, const struct idle *large) {
    const struct address_index *index = &device->index;
    uint64_t idle = least(device_idle_blocks(device) - large->blocks, index->small.count);
    uint64_t live = index->small.count - idle, kept = live + least(live, index->crossing);
    return (index->pages - least(index->pages, kept)) * ROUND_PAGE;
}

static uint64_t worth(const struct device *device, uint64_t idle_bytes) {
    const struct address_index *index = &device->index;
    struct idle small = {.bytes = least(index->small.bytes, idle_bytes)},
                large = {.blocks = least(index->large.count, device_idle_blocks(device))};
    bool looks_at_small = index->small.count <= LOOKS;
    if (looks_at_small)
        small = look_at_small(&index->small);
    if (index->large.count <= LOOKS)
        large = look_at_large(&index->large);
    else
        large.worth = idle_bytes - small.bytes;
    return large.worth + (looks_at_small ? small.worth : least_worth_of_small(device, &large));
}

/* Suballocations can be had as they are. */
static uint64_t worth_of_regions(struct pool *pool, const struct device *device) {
    uint64_t bytes = device_idle(device);
    const struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        bytes += context->device == device ? region_beyond_ends(&context->store) : 0;
    return bytes;
}

uint64_t pages_idle(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    uint64_t unused = 0;
    const struct context *context;
    if (!device_idle(device))
        return 0;
    if (pool->keeper->cuts)
        return worth_of_regions(pool, device);
    LIST_FOREACH (context, &pool->contexts, link)
        unused += context->device == device ? context->store.unused : 0;
    if (!ledger_index(pool))
        return device->live_blocks ? unused : device_idle(device);
    return unused + worth(device, device_idle(device) - unused);
}

/* A block that shares its page with others may free all of it. */
uint64_t pages_idle_roughly(const struct device *device) {
    lock_check_held(LOCK_POOL);
    return device_idle(device) + device_idle_blocks(device) * ROUND_PAGE;
}

/* Whether pages_idle has looked at all blocks, or need not. */
static bool tells_all(struct pool *pool, const struct device *device) {
    return pool->keeper->cuts || (ledger_index(pool) && device->index.small.count <= LOOKS &&
                                  device->index.large.count <= LOOKS);
}

uint64_t pages_idle_at_most(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    return tells_all(pool, device) ? pages_idle(pool, device) : pages_idle_roughly(device);
}
