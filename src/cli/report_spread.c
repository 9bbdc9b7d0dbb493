#include "cli/report_spread.h"

#include "report/emitter.h"
#include "report/human.h"
#include "report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_HOSTS = 20, FIRST_SITES = 10, FIRST_SHORT = 10 };

struct text {
    char text[128];
};

static struct text run_name(const struct merge_run *run) {
    struct text name;
    char host[64];
    emitter_clean(host, sizeof host, run->host);
    int length = run->rank >= 0
                     ? snprintf(name.text, sizeof name.text, "rank %d", (int)run->rank)
                     : snprintf(name.text, sizeof name.text, "process %" PRIu64, run->process);
    if (*host)
        snprintf(name.text + length, sizeof name.text - (size_t)length, " on %s", host);
    return name;
}

/* --- figures of runs --- */

static struct text bytes_text(uint64_t figure) {
    struct text text;
    snprintf(text.text, sizeof text.text, "%s", human(figure).text);
    return text;
}

static struct text number_text(uint64_t figure) {
    struct text text;
    snprintf(text.text, sizeof text.text, "%" PRIu64, figure);
    return text;
}

static struct text share_text(uint64_t figure) {
    struct text text;
    snprintf(text.text, sizeof text.text, "%.1f%%", (double)figure / 10);
    return text;
}

static struct text time_text(uint64_t figure) {
    struct text text;
    snprintf(text.text, sizeof text.text, "%.3fs", (double)figure * 1e-9);
    return text;
}

static uint64_t peak_of(const struct merge_run *run) {
    return run->peak_held;
}

static uint64_t allocations_of(const struct merge_run *run) {
    return run->allocations;
}

/* In thousandths. */
static uint64_t hits_of(const struct merge_run *run) {
    return run->allocations ? (uint64_t)((double)run->hits / (double)run->allocations * 1000 + 0.5)
                            : 0;
}

static uint64_t waits_of(const struct merge_run *run) {
    return run->wait_ns;
}

static uint64_t time_of(const struct merge_run *run) {
    return (uint64_t)(run->seconds * 1e9);
}

static uint64_t leaked_of(const struct merge_run *run) {
    return run->leaked_bytes;
}

static const struct {
    const char *name;
    uint64_t (*of)(const struct merge_run *run);
    struct text (*text)(uint64_t figure);
    bool low; /* it is the least that stands out */
} figures[] = {
    {"peak held", peak_of, bytes_text, false}, {"allocations", allocations_of, number_text, false},
    {"hits", hits_of, share_text, true},       {"time in waits", waits_of, time_text, false},
    {"time", time_of, time_text, false},       {"leaked", leaked_of, bytes_text, false},
};

/* For qsort_r. */
static int by_figure(const void *one, const void *other, void *of) {
    uint64_t (*const *figure)(const struct merge_run *) = of;
    const struct merge_run *a = *(const struct merge_run *const *)one;
    const struct merge_run *b = *(const struct merge_run *const *)other;
    uint64_t first = (*figure)(a), second = (*figure)(b);
    if (first != second)
        return first < second ? -1 : 1;
    return (a > b) - (a < b);
}

/* Sorts the runs by a figure. The first of equal ones is what was read first. */
static void sort_runs(const struct merge_run **runs, size_t count,
                      uint64_t (*figure)(const struct merge_run *)) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers
    qsort_r(runs, count, sizeof runs[0], by_figure, &figure);
}

static void print_figures(FILE *out, const struct merge_run **runs, size_t count) {
    fprintf(out, "\n  %-13s %10s %10s %10s  what stands out\n", "of each run", "least", "median",
            "most");
    for (size_t f = 0; f < sizeof figures / sizeof figures[0]; f++) {
        sort_runs(runs, count, figures[f].of);
        uint64_t least = figures[f].of(runs[0]), most = figures[f].of(runs[count - 1]);
        size_t first = count - 1; /* of those that have the most */
        while (first && figures[f].of(runs[first - 1]) == most)
            first--;
        fprintf(out, "  %-13s %10s %10s %10s  ", figures[f].name, figures[f].text(least).text,
                figures[f].text(figures[f].of(runs[(count - 1) / 2])).text,
                figures[f].text(most).text);
        if (least == most)
            fputs("all are the same\n", out);
        else
            fprintf(out, "%s: %s\n", figures[f].low ? "least" : "most",
                    run_name(runs[figures[f].low ? 0 : first]).text);
    }
}

static int by_shortages(const void *one, const void *other) {
    const struct merge_run *a = *(const struct merge_run *const *)one;
    const struct merge_run *b = *(const struct merge_run *const *)other;
    if (a->oom_events != b->oom_events)
        return a->oom_events < b->oom_events ? 1 : -1;
    return (a > b) - (a < b);
}

/* Which ran out of memory: the ones that did so most often come first. */
static void print_short(FILE *out, const struct merge_run **runs, size_t count) {
    size_t found = 0;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers
    qsort(runs, count, sizeof runs[0], by_shortages);
    while (found < count && runs[found]->oom_events)
        found++;
    if (!found)
        return;
    fprintf(out, "  out of memory: %zu of %zu runs:", found, count);
    for (size_t i = 0; i < found && i < FIRST_SHORT; i++)
        fprintf(out, "%s %s (%" PRIu64 " times)", i ? "," : "", run_name(runs[i]).text,
                runs[i]->oom_events);
    if (found > FIRST_SHORT)
        fprintf(out, ", and %zu more", found - FIRST_SHORT);
    fputc('\n', out);
}

/* --- hosts --- */

struct host {
    const char *name;
    size_t runs;
    uint64_t least, median, most, together, wait_ns, oom_events; /* but for the last two: held */
};

static int by_host(const void *one, const void *other) {
    const struct merge_run *a = *(const struct merge_run *const *)one;
    const struct merge_run *b = *(const struct merge_run *const *)other;
    int order = strcmp(a->host, b->host);
    return order ? order : (a->peak_held > b->peak_held) - (a->peak_held < b->peak_held);
}

static int by_most(const void *one, const void *other) {
    const struct host *a = one, *b = other;
    if (a->most != b->most)
        return a->most < b->most ? 1 : -1;
    return strcmp(a->name, b->name);
}

/* Makes a host of each stretch of runs, which are sorted by what they held; returns how many. */
static size_t gather_hosts(const struct merge_run **runs, size_t count, struct host *hosts) {
    size_t found = 0;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers
    qsort(runs, count, sizeof runs[0], by_host);
    for (size_t i = 0; i < count; i++) {
        if (!found || strcmp(hosts[found - 1].name, runs[i]->host) != 0)
            hosts[found++] = (struct host){.name = runs[i]->host, .least = runs[i]->peak_held};
        struct host *host = &hosts[found - 1];
        host->median = runs[i - (host->runs + 1) / 2]->peak_held;
        host->most = runs[i]->peak_held;
        host->runs++;
        host->together += runs[i]->peak_held;
        host->wait_ns += runs[i]->wait_ns;
        host->oom_events += runs[i]->oom_events;
    }
    return found;
}

static void print_hosts(FILE *out, const struct merge_run **runs, size_t count, bool all) {
    struct host *hosts = calloc(count, sizeof *hosts);
    size_t found = hosts ? gather_hosts(runs, count, hosts) : 0;
    size_t shown = all || found < FIRST_HOSTS ? found : FIRST_HOSTS;
    char name[64];
    if (found > 1) {
        qsort(hosts, found, sizeof *hosts, by_most);
        fprintf(out, "\n  %-16s %6s %10s %10s %10s %10s %9s %6s\n", "peak held on", "runs", "least",
                "median", "most", "together", "in waits", "no mem");
        for (size_t i = 0; i < shown; i++)
            fprintf(out, "  %-16s %6zu %10s %10s %10s %10s %9s %6" PRIu64 "\n",
                    emitter_clean(name, sizeof name, hosts[i].name), hosts[i].runs,
                    human(hosts[i].least).text, human(hosts[i].median).text,
                    human(hosts[i].most).text, human(hosts[i].together).text,
                    time_text(hosts[i].wait_ns).text, hosts[i].oom_events);
        if (shown < found)
            fprintf(out, "  and %zu more hosts whose runs held less: --all lists them\n",
                    found - shown);
    }
    free(hosts);
}

/* --- sites --- */

struct differing {
    uint32_t site;
    const struct spread *spread;
    uint64_t beyond; /* what the most is above the median */
};

static int by_beyond(const void *one, const void *other) {
    const struct differing *a = one, *b = other;
    if (a->beyond != b->beyond)
        return a->beyond < b->beyond ? 1 : -1;
    return (a->site > b->site) - (a->site < b->site);
}

static void print_sites(FILE *out, const struct merge *merge, const struct stats_names *names,
                        bool all) {
    struct differing *sites = calloc(PAGE_SITES, sizeof *sites);
    size_t found = 0;
    for (uint32_t i = 1; sites && i < merge->page->site_count; i++) {
        const struct spread *spread = merge_site_peaks(merge, i);
        if (spread && spread->least != spread->most)
            sites[found++] = (struct differing){i, spread, spread->most - spread_median(spread)};
    }
    if (found) {
        size_t shown = all || found < FIRST_SITES ? found : FIRST_SITES;
        qsort(sites, found, sizeof *sites, by_beyond);
        fprintf(out, "\n  %6s %10s %10s %10s  %-24s peak of a site whose runs differ\n", "runs",
                "least", "median", "most", "most in");
        for (size_t i = 0; i < shown; i++) {
            const struct spread *spread = sites[i].spread;
            char place[1024], clean[sizeof place];
            stats_place(merge->page, &merge->page->sites[sites[i].site], names, place,
                        sizeof place);
            fprintf(out, "  %6zu %10s %10s %10s  %-24s %s\n", spread->count,
                    human(spread->least).text, human(spread_median(spread)).text,
                    human(spread->most).text, run_name(&merge->runs[spread->most_of]).text,
                    emitter_clean(clean, sizeof clean, place));
        }
        if (shown < found)
            fprintf(out, "  and %zu more sites that differ less: --all lists them\n",
                    found - shown);
    }
    free(sites);
}

void report_spread(FILE *out, const struct merge *merge, const struct stats_names *names,
                   bool all) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers
    const struct merge_run **runs = calloc(merge->run_count, sizeof *runs);
    if (!runs || merge->run_count < 2) {
        free(runs);
        return;
    }
    for (size_t i = 0; i < merge->run_count; i++)
        runs[i] = &merge->runs[i];
    print_figures(out, runs, merge->run_count);
    print_short(out, runs, merge->run_count);
    print_hosts(out, runs, merge->run_count, all);
    print_sites(out, merge, names, all);
    free(runs);
}
