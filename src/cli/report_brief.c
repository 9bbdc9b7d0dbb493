#include "cli/report_brief.h"

#include "report/human.h"
#include "report/saving.h"

#include <stdlib.h>

static uint64_t get(const struct stats_page *page, enum stats_counter counter) {
    return stats_read(&page->counters[counter]);
}

static int by_number(const void *one, const void *other) {
    int32_t a = *(const int32_t *)one, b = *(const int32_t *)other;
    return (a > b) - (a < b);
}

/* How many ranks the runs are of: 0 if one has none, or without memory. */
static size_t count_ranks(const struct merge *merge) {
    int32_t *ranks = calloc(merge->run_count, sizeof *ranks);
    size_t count = 0;
    for (size_t i = 0; ranks && i < merge->run_count; i++)
        ranks[i] = merge->runs[i].rank;
    if (ranks)
        qsort(ranks, merge->run_count, sizeof *ranks, by_number);
    for (size_t i = 0; ranks && ranks[0] >= 0 && i < merge->run_count; i++)
        count += i == 0 || ranks[i] != ranks[i - 1];
    free(ranks);
    return count;
}

/* page: as of report_brief. A file may itself hold the sum of several runs. */
static void print_runs(FILE *out, const struct merge *merge, const struct stats_page *page) {
    size_t ranks = page->runs == merge->run_count ? count_ranks(merge) : 0, killed = 0;
    for (size_t i = 0; i < merge->run_count; i++)
        killed += !merge->runs[i].finished;
    if (ranks)
        fprintf(out, "%zu rank%s", ranks, ranks == 1 ? "" : "s");
    if (ranks && ranks < page->runs)
        fprintf(out, " in ");
    if (ranks < page->runs)
        fprintf(out, "%u process%s", (unsigned)page->runs, page->runs == 1 ? "" : "es");
    if (killed)
        fprintf(out, " (%zu running or killed)", killed);
}

static void print_saving(FILE *out, const struct stats_page *page) {
    struct stats_saving saving;
    saving_of(page, &saving);
    if (saving.of[STATS_CALL_ALLOC].priced || saving.of[STATS_CALL_FREE].priced)
        fprintf(
            out, ", at least %s saved",
            human_time(saving_ns(&saving, STATS_CALL_ALLOC) + saving_ns(&saving, STATS_CALL_FREE))
                .text);
    else
        fprintf(out, ", no time saved that was measured");
}

void report_brief(FILE *out, const struct merge *merge, const struct stats_page *page) {
    uint64_t calls = get(page, STATS_malloc_calls), hits = get(page, STATS_malloc_hits);
    uint64_t shortages = get(page, STATS_oom_events);
    print_runs(out, merge, page);
    fprintf(out, ": %llu of %llu allocations from idle memory", (unsigned long long)hits,
            (unsigned long long)calls);
    if (calls)
        fprintf(out, " (%.1f%%)", 100.0 * (double)hits / (double)calls);
    print_saving(out, page);
    fprintf(out, ", %s held for %s live at the peaks", human(get(page, STATS_peak_held_bytes)).text,
            human(get(page, STATS_peak_live_bytes)).text);
    if (shortages)
        fprintf(out, ", out of memory %llu time%s\n", (unsigned long long)shortages,
                shortages == 1 ? "" : "s");
    else
        fprintf(out, ", never out of memory\n");
}
