/* Reads a stats page from a file. */
#include "counters/page.h"

#include "base/segment.h"
#include "counters/shards.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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

/* Reads the page itself, which is younger than what the file has, if it is still there. */
static void read_live(struct stats_page *page) {
    struct page_part parts[PAGE_PARTS];
    const struct stats_head *head = (const struct stats_head *)page;
    if (page->finished || !page->segment)
        return;
    struct stats_page *live =
        segment_join((int)page->segment - 1, sizeof *live, false, (uint32_t)syscall(SYS_geteuid));
    if (!live)
        return;
    if (stats_page_is_of((const struct stats_head *)live, head)) {
        size_t count = stats_page_parts(live, parts);
        for (size_t i = 0; i < count; i++)
            memcpy((char *)page + parts[i].offset, (const char *)live + parts[i].offset,
                   parts[i].size);
    }
    segment_leave(live, sizeof *live);
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
        read_live(page);
        wrong = stats_page_fault(page);
    }
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
