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

static const char *fault(const struct stats_page *page) {
    if (strncmp(page->banner, PAGE_MAGIC, sizeof PAGE_MAGIC - 1) != 0)
        return "not a poolcuda stats file";
    if (page->version != PAGE_VERSION || page->counter_count != STATS_COUNTERS ||
        page->route_count != STATS_ROUTES || page->wait_reason_count != WAIT_REASONS)
        return "written by another version of poolcuda";
    if (page->module_count > PAGE_MODULES || page->site_count > PAGE_SITES ||
        !ends(page->shortage, sizeof page->shortage) || !ends(page->tools, sizeof page->tools) ||
        !ends(page->trace, sizeof page->trace) || page->bypass_count > PAGE_BYPASSES ||
        page->payer_count > PAGE_PAYERS || !ends(page->command, sizeof page->command))
        return "damaged";
    for (uint32_t i = 0; i < page->module_count; i++)
        if (!ends(page->modules[i], sizeof page->modules[i]))
            return "damaged";
    for (uint32_t i = 0; i < page->bypass_count; i++)
        if (!ends(page->bypasses[i].module, sizeof page->bypasses[i].module) ||
            !ends(page->bypasses[i].name, sizeof page->bypasses[i].name))
            return "damaged";
    for (uint32_t i = 0; i < page->payer_count; i++)
        if (!ends(page->payers[i].name, sizeof page->payers[i].name))
            return "damaged";
    for (uint32_t i = 0; i < page->site_count; i++) {
        if (page->sites[i].depth > CALL_SITE_MAX_DEPTH)
            return "damaged";
        for (uint32_t d = 0; d < page->sites[i].depth; d++)
            if (page->sites[i].module[d] >= page->module_count)
                return "damaged";
    }
    return NULL;
}

struct stats_page *stats_page_read(const char *path, char *error, size_t error_size) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        snprintf(error, error_size, "%s: cannot be opened", path);
        return NULL;
    }
    struct stats_page *page =
        mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
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
    const char *wrong = fault(page);
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
