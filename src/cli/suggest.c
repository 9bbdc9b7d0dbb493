#include "cli/suggest.h"

#include "cli/next_step.h"
#include "report/human.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Below these nothing is worth a word. */
enum { FEW_CALLS = 100, MUCH_IDLE = 64 << 20 };
static const double GOOD_HIT_RATE = 0.8, MANY_WAITS = 0.1, MUCH_HELD = 1.5;

static uint64_t get(const struct stats_page *page, enum stats_counter counter) {
    return stats_read(&page->counters[counter]);
}

static bool set(const struct stats_page *page, const char *text) {
    return strstr(page->options, text) != NULL;
}

/* The first suggestion is preceded by a heading. */
static const char *heading(bool *said) {
    const char *text = *said ? "" : "\nworth trying:\n";
    *said = true;
    return text;
}

/* The allocations of runs that made more than a few, and those of them served from idle memory:
 * many small runs do not add up to one that is worth a word. */
struct calls {
    uint64_t made, hits;
};
static struct calls calls_of_large(const struct merge *merge, const struct stats_page *page) {
    uint64_t runs = page->runs > merge->run_count ? page->runs - merge->run_count + 1 : 1;
    struct calls sum = {0};
    for (size_t i = 0; i < merge->run_count; i++) {
        const struct merge_run *run = &merge->runs[i];
        if (run->allocations < FEW_CALLS * runs) /* a file may hold the sums of several */
            continue;
        sum.made += run->allocations;
        sum.hits += run->hits;
    }
    return sum;
}

/* The allocations that have failed, and (hopeless) those that no idle memory could have served. */
static uint64_t failed(const struct stats_page *page, uint64_t *hopeless) {
    uint64_t events = get(page, STATS_oom_events), rescued = get(page, STATS_oom_rescued);
    uint64_t count = events > rescued ? events - rescued : 0;
    *hopeless = get(page, STATS_oom_hopeless);
    if (*hopeless > count) /* one may have looked more than once */
        *hopeless = count;
    return count;
}

static void about_waits(FILE *out, const struct merge *merge, const struct stats_page *page,
                        bool *said) {
    uint64_t frees = get(page, STATS_free_calls);
    uint64_t waits = get(page, STATS_free_waited) + get(page, STATS_waits_paid);
    if (!calls_of_large(merge, page).made || frees < FEW_CALLS ||
        (double)waits < MANY_WAITS * (double)frees || set(page, "POOLCUDA_FREE="))
        return;
    fprintf(out,
            "%s  POOLCUDA_FREE=defer: %llu of %llu frees waited for the device. Not for programs "
            "that rely on that wait.\n",
            heading(said), (unsigned long long)waits, (unsigned long long)frees);
}

static void about_hits(FILE *out, const struct merge *merge, const struct stats_page *page,
                       bool *said) {
    struct calls calls = calls_of_large(merge, page);
    uint64_t hopeless, misses = calls.made - calls.hits;
    failed(page, &hopeless);
    misses -= hopeless < misses ? hopeless : misses;
    uint64_t made = calls.hits + misses;
    if (made < FEW_CALLS || (double)calls.hits >= GOOD_HIT_RATE * (double)made ||
        set(page, "POOLCUDA_PRESET=") || set(page, "POOLCUDA_POLICY="))
        return;
    fprintf(
        out,
        "%s  POOLCUDA_PRESET=bfc: %llu of %llu allocations found no idle block that fits whole.\n",
        heading(said), (unsigned long long)misses, (unsigned long long)made);
}

static void about_shortages(FILE *out, const struct stats_page *page, bool *said) {
    uint64_t hopeless, count = failed(page, &hopeless);
    if (count > hopeless && !set(page, "POOLCUDA_PRESET="))
        fprintf(
            out,
            "%s  POOLCUDA_PRESET=vmm: %llu allocations found no memory; pages mapped anew leave "
            "none unused.\n",
            heading(said), (unsigned long long)(count - hopeless));
}

static bool holds_much(const struct merge_run *run) {
    return run->idle_unbounded && run->peak_held > MUCH_IDLE &&
           (double)(run->peak_held - MUCH_IDLE) > MUCH_HELD * (double)run->peak_live;
}

/* Each process has its own bound, so sums over several tell nothing. */
static void about_idle(FILE *out, const struct merge *merge, bool *said) {
    const struct merge_run *most = NULL; /* of those that hold much, the one with most live */
    size_t count = 0;
    for (size_t i = 0; i < merge->run_count; i++) {
        const struct merge_run *run = &merge->runs[i];
        if (!holds_much(run))
            continue;
        count++;
        most = !most || run->peak_live > most->peak_live ? run : most;
    }
    if (!most)
        return;
    fprintf(out, "%s  POOLCUDA_MAX_IDLE=%lluM: ", heading(said),
            (unsigned long long)(most->peak_live >> 22) + 1);
    if (merge->run_count > 1)
        fprintf(out, "%zu of %zu runs held much more than was live; in one of them ", count,
                merge->run_count);
    fprintf(out, "%s were held at a peak of %s live.\n", human(most->peak_held).text,
            human(most->peak_live).text);
}

void suggest(FILE *out, const struct merge *merge, const struct stats_page *page) {
    bool said = false;
    about_waits(out, merge, page, &said);
    about_hits(out, merge, page, &said);
    about_shortages(out, page, &said);
    about_idle(out, merge, &said);
    if (*page->trace && access(page->trace, R_OK) == 0) {
        char *self = next_step_self(), *file = next_step_file(page->trace);
        fprintf(out, "\nnext: %s tune %s\n", self ? self : "?", file ? file : "?");
        free(self);
        free(file);
        return;
    }
    next_step_tell_run(out, "--trace=app.trace ", &page->command_line,
                       page->runs > 1 ? "one of these runs" : page->command);
}

bool suggest_by_tuning(const struct stats_page *page) {
    char self[] = "/proc/self/exe", tune[] = "tune", path[PAGE_TRACE];
    int status = 0;
    memcpy(path, page->trace, sizeof path);
    if (!*path || access(path, R_OK) != 0) {
        fprintf(stderr,
                "poolcuda report: --tune: %s; expected a run with POOLCUDA_TRACE, not tuned\n",
                *path ? "the trace of this run cannot be read" : "this run has recorded no trace");
        return false;
    }
    putchar('\n');
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execv(self, (char *[]){program_invocation_name, tune, path, NULL});
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0)
        ;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
