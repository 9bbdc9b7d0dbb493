#include "cli/leaks.h"

#include "report/emitter.h"
#include "report/human.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

static int by_live_bytes(const void *one, const void *other) {
    uint64_t a = stats_read(&(*(const struct stats_site *const *)one)->live_bytes);
    uint64_t b = stats_read(&(*(const struct stats_site *const *)other)->live_bytes);
    return (a < b) - (a > b);
}

void leaks_print(FILE *out, const struct merge *merge, const struct stats_names *names) {
    const struct stats_page *page = merge->page;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers
    const struct stats_site **leaking = calloc(PAGE_SITES, sizeof *leaking);
    size_t count = 0;
    uint64_t blocks = 0, bytes = 0;
    if (!leaking)
        return;
    for (uint32_t i = 0; i < page->site_count; i++) {
        blocks += stats_read(&page->sites[i].live_blocks);
        bytes += stats_read(&page->sites[i].live_bytes);
        if (page->sites[i].depth && stats_read(&page->sites[i].live_blocks))
            leaking[count++] = &page->sites[i];
    }
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers
    qsort(leaking, count, sizeof leaking[0], by_live_bytes);
    if (count)
        fprintf(out, "%llu block%s, %s, %s not freed at exit\n\n  %12s %10s  site\n",
                (unsigned long long)blocks, plural(blocks), human(bytes).text,
                blocks == 1 ? "was" : "were", "blocks", "bytes");
    else
        fputs("everything was freed\n", out);
    for (size_t i = 0; i < count; i++) {
        char place[1024], clean[sizeof place];
        stats_place(page, leaking[i], names, place, sizeof place);
        fprintf(out, "  %12llu %10s  %s\n",
                (unsigned long long)stats_read(&leaking[i]->live_blocks),
                human(stats_read(&leaking[i]->live_bytes)).text,
                emitter_clean(clean, sizeof clean, place));
    }
    free(leaking);
}
