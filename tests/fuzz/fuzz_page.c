/* The reader of stats files on any file: what it accepts can be reported without reading outside.
 */
#include "observe/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t reported;

static void write_nowhere(const char *text, size_t length, void *state) {
    (void)text;
    (void)state;
    reported += length;
}

/* A good page, with the input written over it from a place that the input chooses. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct stats_page page;
    char path[64], error[512];
    uint32_t where = 0;
    if (size < sizeof where)
        return 0;
    memcpy(&where, data, sizeof where);
    data += sizeof where;
    size -= sizeof where;
    memset(&page, 0, sizeof page);
    memcpy(page.banner, PAGE_MAGIC, sizeof PAGE_MAGIC);
    page.version = PAGE_VERSION;
    page.size = sizeof page;
    page.rank = -1;
    page.counter_count = STATS_COUNTERS;
    page.route_count = STATS_ROUTES;
    page.wait_reason_count = WAIT_REASONS;
    page.module_count = 2;
    page.site_count = 3;
    page.sites[1].depth = 2;
    page.sites[1].allocations = 5;
    where %= offsetof(struct stats_page, sites) + 4 * sizeof page.sites[0];
    memcpy((char *)&page + where, data, size < sizeof page - where ? size : sizeof page - where);
    int file = memfd_create("page", 0);
    if (file < 0 || write(file, &page, sizeof page) != sizeof page)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct stats_page *read_back = stats_page_read(path, error, sizeof error);
    if (read_back)
        stats_report(read_back, STATS_TEXT, NULL, write_nowhere, NULL);
    else if (!strstr(error, path) || strchr(error, '\n'))
        abort();
    stats_page_free(read_back);
    close(file);
    return 0;
}
