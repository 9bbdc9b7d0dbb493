/* Reads and checks a stats page from a file. */
#include "observe/page.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool ends(const char *text, size_t size) {
    return memchr(text, '\0', size) != NULL;
}

static bool texts_end(const struct stats_page *page) {
    if (!ends(page->command, sizeof page->command) || !ends(page->host, sizeof page->host) ||
        !ends(page->options, sizeof page->options) || !ends(page->tools, sizeof page->tools) ||
        !ends(page->trace, sizeof page->trace) || !ends(page->shortage, sizeof page->shortage) ||
        !ends(page->mailbox.text, PAGE_REQUEST) || !ends(page->mailbox.answer, PAGE_REQUEST))
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

struct stats_page *stats_page_new(void) {
    struct stats_page *page =
        mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    memcpy(page->banner, PAGE_MAGIC, sizeof PAGE_MAGIC);
    page->version = PAGE_VERSION;
    page->counter_count = STATS_COUNTERS;
    page->route_count = STATS_ROUTES;
    page->wait_reason_count = WAIT_REASONS;
    page->size = sizeof *page;
    page->runs = 1;
    page->rank = -1;
    return page;
}

struct stats_page *stats_page_read(const char *path, char *error, size_t error_size) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        snprintf(error, error_size, "%s: cannot be opened", path);
        return NULL;
    }
    struct stats_page *page = stats_page_new();
    if (!page) {
        close(file);
        snprintf(error, error_size, "%s: not enough memory to read it", path);
        return NULL;
    }
    size_t done = 0;
    ssize_t got = 1;
    while (done < sizeof *page && got > 0) {
        got = read(file, (char *)page + done, sizeof *page - done);
        done += got > 0 ? (size_t)got : 0;
    }
    close(file);
    const char *wrong = stats_page_fault(page);
    if (!wrong && done < sizeof *page)
        wrong = "cut off";
    if (!wrong)
        return page;
    snprintf(error, error_size, "%s: %s", path, wrong);
    stats_page_free(page);
    return NULL;
}

void stats_page_free(struct stats_page *page) {
    if (page)
        munmap(page, sizeof *page);
}
