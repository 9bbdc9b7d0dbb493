/* What the driver has back beyond the bytes of regions without live blocks: it hands memory out in
 * pages. */
#include "base/sizes.h"
#include "keep/region.h"

/* A page that regions smaller than it share. */
struct shared_page {
    uint64_t number, filled; /* filled: bytes of it that regions take */
    bool live;               /* one of these has a live block */
};

/* What the driver has back with the page beyond the bytes of its regions. */
static uint64_t beyond_filled(const struct shared_page *page) {
    return page->filled && !page->live ? ROUND_PAGE - page->filled : 0;
}

/* Adds what lies in each page of a region, and returns what pages before it have beyond theirs. */
static uint64_t share_pages(struct region *region, struct shared_page *page) {
    uint64_t bytes = 0, end = region->base + region->size, next;
    bool live = region_has_live(region);
    for (uint64_t at = region->base; at < end; at = next) {
        next = (at / ROUND_PAGE + 1) * ROUND_PAGE;
        next = next < end ? next : end;
        if (at / ROUND_PAGE != page->number) {
            bytes += beyond_filled(page);
            *page = (struct shared_page){.number = at / ROUND_PAGE};
        }
        page->filled += next - at;
        page->live = page->live || live;
    }
    return bytes;
}

/* Lock held. */
uint64_t region_beyond_ends(const struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    uint64_t bytes = 0;
    struct region *region;
    struct shared_page page = {.number = 0};
    if (store->regions)
        for (region = region_after(store, NULL); region; region = region_after(store, region)) {
            size_t in_last = region->size % ROUND_PAGE;
            if (in_last && region->size < ROUND_PAGE)
                bytes += share_pages(region, &page);
            else if (in_last && !region_has_live(region))
                bytes += ROUND_PAGE - in_last;
        }
    return bytes + beyond_filled(&page);
}
