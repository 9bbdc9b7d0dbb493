/* Looks at a stats page that others may have written. */
#include "counters/page.h"

#include <string.h>

static bool ends(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!text[i])
            return true;
    return false;
}

static bool texts_end(const struct stats_page *page) {
    if (!ends(page->command, sizeof page->command) || !ends(page->host, sizeof page->host) ||
        !ends(page->job, sizeof page->job) || !ends(page->step, sizeof page->step) ||
        !ends(page->options, sizeof page->options) || !ends(page->tools, sizeof page->tools) ||
        !ends(page->trace, sizeof page->trace) || !ends(page->file, sizeof page->file) ||
        !ends(page->shortage, sizeof page->shortage) ||
        !command_line_is_sound(&page->command_line) || !ends(page->mailbox.text, PAGE_REQUEST) ||
        !ends(page->mailbox.answer, PAGE_REQUEST))
        return false;
    for (uint32_t i = 0; i < page->module_count; i++)
        if (!ends(page->modules[i].path, PAGE_MODULE_NAME) ||
            page->modules[i].build_id_size > PAGE_BUILD_ID)
            return false;
    for (uint32_t i = 0; i < page->bypass_count; i++)
        if (!ends(page->bypasses[i].module, sizeof page->bypasses[i].module) ||
            !ends(page->bypasses[i].name, sizeof page->bypasses[i].name))
            return false;
    for (uint32_t i = 0; i < page->payer_count; i++)
        if (!ends(page->payers[i].name, sizeof page->payers[i].name))
            return false;
    for (uint32_t i = 0; i < page->tag_count; i++)
        if (!ends(page->tags[i], PAGE_TAG))
            return false;
    return true;
}

static bool site_is_sound(const struct stats_page *page, const struct stats_site *site) {
    if (site->depth > CALL_SITE_MAX_DEPTH || site->tag > page->tag_count)
        return false;
    for (uint32_t d = 0; d < site->depth; d++)
        if (site->module[d] >= page->module_count)
            return false;
    return true;
}

const char *stats_page_fault(const struct stats_page *page) {
    if (strncmp(page->banner, PAGE_MAGIC, sizeof PAGE_MAGIC - 1) != 0)
        return "not a poolcuda stats file";
    if (page->version != PAGE_VERSION || page->counter_count != STATS_COUNTERS ||
        page->route_count != STATS_ROUTES || page->wait_reason_count != WAIT_REASONS ||
        page->size != sizeof *page)
        return "written by another version of poolcuda";
    if (page->module_count > PAGE_MODULES || page->site_count > PAGE_SITES ||
        page->tag_count > PAGE_TAGS || page->bypass_count > PAGE_BYPASSES ||
        page->payer_count > PAGE_PAYERS || !texts_end(page))
        return "damaged";
    for (uint32_t i = 0; i < page->site_count; i++)
        if (!site_is_sound(page, &page->sites[i]))
            return "damaged";
    for (uint32_t i = 0; i < PAGE_DEVICES; i++)
        if (page->devices[i].sample_count > STATS_SAMPLES ||
            page->devices[i].extent_count > STATS_EXTENTS)
            return "damaged";
    return NULL;
}

static uint32_t at_most(uint32_t count, uint32_t most) {
    return count < most ? count : most;
}

static struct page_part part(const struct stats_page *page, const void *place, size_t bytes) {
    return (struct page_part){(size_t)((const char *)place - (const char *)page), bytes};
}

size_t stats_page_parts(const struct stats_page *page, struct page_part parts[PAGE_PARTS]) {
    size_t count = 0;
    parts[count++] = part(page, page->banner, offsetof(struct stats_page, modules));
    parts[count++] = part(page, page->modules,
                          at_most(page->module_count, PAGE_MODULES) * sizeof page->modules[0]);
    parts[count++] =
        part(page, page->tags, at_most(page->tag_count, PAGE_TAGS) * sizeof page->tags[0]);
    for (size_t i = 0; i < PAGE_DEVICES; i++)
        if (page->devices_used >> i & 1)
            parts[count++] = part(page, &page->devices[i], sizeof page->devices[i]);
    if (page->trace[0])
        parts[count++] = part(page, page->trace, sizeof page->trace);
    if (page->file[0])
        parts[count++] = part(page, page->file, sizeof page->file);
    if (page->command_line.size)
        parts[count++] = part(page, &page->command_line, sizeof page->command_line);
    parts[count++] =
        part(page, page->sites, at_most(page->site_count, PAGE_SITES) * sizeof page->sites[0]);
    return count;
}

bool stats_page_is_of(const struct stats_head *head, const struct stats_head *other) {
    return head->version == other->version && head->process == other->process &&
           head->namespace_id == other->namespace_id && head->start_ns == other->start_ns &&
           head->start_wall_ns == other->start_wall_ns;
}

_Static_assert(offsetof(struct stats_head, counters) == offsetof(struct stats_page, counters),
               "a page begins with a head");
