/* Reads a stats page from a file. */
#include "observe/page.h"

#include "observe/shards.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct stats_page *zeros(void) {
    void *page = mmap(NULL, sizeof(struct stats_page), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? NULL : page;
}

struct stats_page *stats_page_new(void) {
    struct stats_page *page = zeros();
    if (!page)
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
    struct stats_page *page = zeros();
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
    if (!wrong) {
        shards_fold(page);
        return page;
    }
    snprintf(error, error_size, "%s: %s", path, wrong);
    stats_page_destroy(page);
    return NULL;
}

void stats_page_destroy(struct stats_page *page) {
    if (page)
        munmap(page, sizeof *page);
}
