/* What idle blocks are worth in free memory. The driver's unit is the 2 MiB page: blocks up to 1
 * MiB share pages, and a page comes free with its last block [assumed from pytorch#17120]. */
#include "pool/internal.h"

#include <stdlib.h>

enum { PAGE = 2 << 20, SHARES_PAGES = 1 << 20 };

/* A page with small blocks. */
struct shared_page {
    uint64_t number;
    bool live; /* a live block lies in it */
    UT_hash_handle by_number;
};

/* Returns false without memory. */
static bool note(struct shared_page **pages, uint64_t number, bool live) {
    struct shared_page *page;
    HASH_FIND(by_number, *pages, &number, sizeof number, page);
    if (!page) {
        page = calloc(1, sizeof *page);
        if (!page)
            return false;
        page->number = number;
        HASH_ADD(by_number, *pages, number, sizeof page->number, page);
        if (!page->by_number.tbl) {
            free(page);
            return false;
        }
    }
    page->live = page->live || live;
    return true;
}

static uint64_t shared_pages(struct pool *pool, const struct device *device) {
    struct shared_page *pages = NULL, *page, *next;
    bool complete = true;
    uint64_t bytes = 0;
    struct ledger_place place = {0};
    struct pool_block *block;
    while (complete && (block = ledger_next(pool, &place))) {
        if (block->context->device != device || block->size > SHARES_PAGES)
            continue;
        bool live = block->state == BLOCK_LIVE || block->state == BLOCK_WAITING;
        complete = note(&pages, block->pointer / PAGE, live) &&
                   note(&pages, (block->pointer + block->size - 1) / PAGE, live);
    }
    HASH_ITER (by_number, pages, page, next) {
        bytes += page->live ? 0 : PAGE;
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DELETE(by_number, pages, page);
        free(page);
    }
    return complete ? bytes : 0; /* what can be had may be more than that, never less */
}

uint64_t pages_idle(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    uint64_t bytes = 0;
    bool shared = false;
    const struct context *context;
    const struct pool_block *block;
    struct ledger_place place = {0};
    if (!device->idle || pool->policy->cuts) /* suballocations can be had as they are */
        return device->idle;
    LIST_FOREACH (context, &pool->contexts, link)
        bytes += context->device == device ? context->store.unused : 0;
    while ((block = ledger_next(pool, &place))) {
        if (block->context->device != device ||
            (block->state != BLOCK_IDLE && block->state != BLOCK_DEFERRED))
            continue;
        if (block->size > SHARES_PAGES)
            bytes += (block->size + PAGE - 1) / PAGE * PAGE;
        else
            shared = true;
    }
    return bytes + (shared ? shared_pages(pool, device) : 0);
}
