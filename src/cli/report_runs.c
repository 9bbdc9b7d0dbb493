#include "cli/report_runs.h"

#include "report/emitter.h"
#include "report/human.h"

#include <stdlib.h>

enum { FIRST_RUNS = 20 };

/* What held most comes first; of equals, as the ranks of a job mostly are, the lower
 * rank, or what was read first. */
static int by_peak(const void *one, const void *other) {
    const struct merge_run *a = *(const struct merge_run *const *)one;
    const struct merge_run *b = *(const struct merge_run *const *)other;
    if (a->peak_held != b->peak_held)
        return a->peak_held < b->peak_held ? 1 : -1;
    if (a->rank != b->rank)
        return a->rank > b->rank ? 1 : -1;
    return (a > b) - (a < b);
}

static void print_run(FILE *out, const struct merge_run *run) {
    char rank[16] = "-", host[64], file[512], hits[16] = "-";
    if (run->rank >= 0)
        snprintf(rank, sizeof rank, "%d", (int)run->rank);
    if (run->allocations)
        snprintf(hits, sizeof hits, "%.1f%%", 100.0 * (double)run->hits / (double)run->allocations);
    fprintf(out, "  %5s %-12s %9llu %9.1fs %11llu %6s %10s %10s %6llu  %s%s\n", rank,
            emitter_clean(host, sizeof host, run->host), (unsigned long long)run->process,
            run->seconds, (unsigned long long)run->allocations, hits, human(run->peak_held).text,
            human(run->leaked_bytes).text, (unsigned long long)run->oom_events,
            emitter_clean(file, sizeof file, run->file),
            run->finished ? "" : " (running or killed)");
}

void report_runs(FILE *out, const struct merge *merge, bool all) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers
    const struct merge_run **sorted = calloc(merge->run_count, sizeof *sorted);
    size_t shown = all || merge->run_count < FIRST_RUNS ? merge->run_count : FIRST_RUNS;
    if (!sorted)
        return;
    for (size_t i = 0; i < merge->run_count; i++)
        sorted[i] = &merge->runs[i];
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers
    qsort(sorted, merge->run_count, sizeof sorted[0], by_peak);
    fprintf(out, "\n  %5s %-12s %9s %10s %11s %6s %10s %10s %6s  file\n", "rank", "host", "process",
            "time", "allocations", "hits", "peak held", "leaked", "no mem");
    for (size_t i = 0; i < shown; i++)
        print_run(out, sorted[i]);
    if (shown < merge->run_count)
        fprintf(out, "  and %zu more that held less: --all lists them\n", merge->run_count - shown);
    free(sorted);
}
