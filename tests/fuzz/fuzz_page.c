/* The readers of stats pages on any file: what they accept can be reported and shown without
 * reading outside, and what `poolcuda top` shows is harmless to a terminal. */
#include "cli/live_rows.h"
#include "counters/page.h"
#include "report/report.h"

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

/* Whether a terminal only prints it. */
static void check_harmless(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == '\x7f')
            abort();
}

/* As `poolcuda top` in all its forms. */
static void show(const struct stats_page *page) {
    static struct live_process process;
    static const struct live_list nothing;
    struct live_list list = {.processes = &process, .count = 1};
    struct live_row row;
    char line[LIVE_LINE], *text = NULL;
    size_t size;
    if (!live_read(page, &process))
        return;
    snprintf(process.name, sizeof process.name, "1");
    for (int key = 0; key < LIVE_KEYS; key++)
        live_rows(&list, key % 2 ? &list : &nothing, (enum live_key)key, &row);
    live_row_line(&row, true, line);
    check_harmless(line);
    live_sum_line(&row, 1, line);
    check_harmless(line);
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    live_json(out, &row, 1);
    live_prometheus(out, &row, 1);
    live_openmetrics(out, &row, 1);
    fclose(out);
    for (char *end, *at = text; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        check_harmless(at);
    }
    free(text);
    reported += size;
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
    page.devices_used = UINT32_MAX;
    page.module_count = 2;
    page.site_count = 3;
    page.sites[1].depth = 2;
    page.sites[1].misses = 5;
    command_line_add(&page.command_line, "/w");
    command_line_add(&page.command_line, "./app");
    command_line_add(&page.command_line, "./app");
    const uint32_t tables = offsetof(struct stats_page, sites) + 4 * sizeof page.sites[0];
    where %= tables + 512; /* or the beginning of the devices, or of the command line */
    if (where >= tables + 256)
        where += offsetof(struct stats_page, command_line) - tables - 256;
    else if (where >= tables)
        where += offsetof(struct stats_page, devices) - tables;
    memcpy((char *)&page + where, data, size < sizeof page - where ? size : sizeof page - where);
    int file = memfd_create("page", 0);
    if (file < 0 || write(file, &page, sizeof page) != sizeof page)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct stats_page *read_back = stats_page_read(path, error, sizeof error);
    if (read_back) /* one form of both, by chance, so that it takes no longer */
        stats_report(read_back, where % 2 ? STATS_TEXT : STATS_JSON, NULL, SIZE_MAX, write_nowhere,
                     NULL);
    else if (!strstr(error, path) || strchr(error, '\n'))
        abort();
    show(&page);
    stats_page_destroy(read_back);
    close(file);
    return 0;
}
