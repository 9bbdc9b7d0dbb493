#include "report/report_gain.h"

#include "report/human.h"
#include "report/saving.h"

static uint64_t get(const struct stats_page *page, enum stats_counter counter) {
    return stats_read(&page->counters[counter]);
}

static const char *why_not_measured(enum stats_call call, uint64_t made, uint64_t timed) {
    if (!made)
        return "the run made none";
    if (call == STATS_CALL_FREE && !timed)
        return "the frees made may have waited for the device";
    if (!timed)
        return "none of the calls made was timed";
    return timed == 1 ? "one timed call is too few"
                      : "the timed calls were too few, larger, or of other memory";
}

static void print_calls(struct emitter *emitter, const struct stats_page *page,
                        const struct stats_saving *saving, enum stats_call call) {
    uint64_t made = get(page, call == STATS_CALL_ALLOC ? STATS_driver_allocs : STATS_driver_frees);
    uint64_t avoided = saving_avoided(page, call), priced = saving->of[call].priced;
    uint64_t timed = saving->of[call].timed;
    const char *name = saving_calls[call];
    if (!avoided)
        return;
    emitter_print(emitter, "    %llu %s%s avoided: ", (unsigned long long)avoided, name,
                  avoided == 1 ? "" : "s");
    if (!priced) {
        emitter_print(emitter, "not measured, since %s\n", why_not_measured(call, made, timed));
        return;
    }
    emitter_print(emitter, "at least %s", human_time(saving_ns(saving, call)).text);
    emitter_print(emitter, ", judging by %llu that %s made\n", (unsigned long long)timed,
                  timed == 1 ? "was" : "were");
    if (priced < avoided)
        emitter_print(
            emitter,
            "      %llu of them %s not in it, since nobody knows what they would have taken\n",
            (unsigned long long)(avoided - priced), avoided - priced == 1 ? "is" : "are");
}

/* Prints how much of the time was for memory other than the device's. */
static void print_other_memory(struct emitter *emitter, const struct stats_saving *saving) {
    static const char *const names[STATS_MEMORIES] = {"", "pinned host memory", "managed memory"};
    for (int m = STATS_HOST; m < STATS_MEMORIES; m++) {
        uint64_t ns = saving->of[STATS_CALL_ALLOC].ns[m] + saving->of[STATS_CALL_FREE].ns[m];
        if (ns)
            emitter_print(emitter, "    of the time, for %s: %s\n", names[m], human_time(ns).text);
    }
}

static void print_waits(struct emitter *emitter, const struct stats_page *page) {
    uint64_t ns = get(page, STATS_wait_ns);
    uint64_t made =
        get(page, STATS_free_waited) + get(page, STATS_waits_paid) + get(page, STATS_fences_waited);
    uint64_t spared = stats_rest(get(page, STATS_waits_owed), get(page, STATS_waits_paid)) +
                      stats_rest(get(page, STATS_free_deferred), get(page, STATS_async_frees));
    if (!made && !spared)
        return;
    emitter_print(emitter, "    waits for the device: %llu made", (unsigned long long)made);
    if (ns)
        emitter_print(emitter, ", %s in all", human_time(ns).text);
    emitter_print(emitter, spared ? "; %llu spared, not counted as time saved\n" : "\n",
                  (unsigned long long)spared);
}

static void print(struct emitter *emitter, const struct stats_page *page,
                  const struct stats_saving *saving) {
    uint64_t allocs = saving_avoided(page, STATS_CALL_ALLOC);
    uint64_t frees = saving_avoided(page, STATS_CALL_FREE);
    uint64_t ns = saving_ns(saving, STATS_CALL_ALLOC) + saving_ns(saving, STATS_CALL_FREE);
    if (!allocs && !frees)
        emitter_print(emitter, "  time saved: none, since no driver call was avoided\n");
    else if (!saving->of[STATS_CALL_ALLOC].priced && !saving->of[STATS_CALL_FREE].priced)
        emitter_print(emitter, "  time saved: not measured\n");
    else
        emitter_print(emitter, "  time saved: at least %s%s\n", human_time(ns).text,
                      frees && !saving->of[STATS_CALL_FREE].priced ? "; frees are not in it" : "");
    uint64_t made = get(page, STATS_driver_allocs), given_back = get(page, STATS_driver_frees);
    emitter_print(emitter,
                  "    driver calls: %llu allocation%s and %llu free%s made, %llu avoided\n",
                  (unsigned long long)made, plural(made), (unsigned long long)given_back,
                  plural(given_back), (unsigned long long)allocs + frees);
    print_calls(emitter, page, saving, STATS_CALL_ALLOC);
    print_calls(emitter, page, saving, STATS_CALL_FREE);
    print_other_memory(emitter, saving);
    print_waits(emitter, page);
    emitter_print(emitter, "\n");
}

static void emit_saving(struct emitter *emitter, const struct stats_page *page,
                        const struct stats_saving *saving) {
    emitter_open(emitter, "time_saved", '{');
    for (int call = 0; call < STATS_CALLS; call++) {
        emitter_open(emitter, saving_calls[call], '{');
        emitter_number(emitter, "avoided", saving_avoided(page, (enum stats_call)call));
        emitter_number(emitter, "priced", saving->of[call].priced);
        emitter_number(emitter, "timed", saving->of[call].timed);
        for (int m = 0; m < STATS_MEMORIES; m++)
            emitter_number(emitter, saving_ns_names[m], saving->of[call].ns[m]);
        emitter_close(emitter, '}');
    }
    emitter_close(emitter, '}');
}

static void emit_costs(struct emitter *emitter, const struct stats_page *page) {
    emitter_open(emitter, "timed_calls", '[');
    for (int call = 0; call < STATS_CALLS; call++)
        for (int m = 0; m < STATS_MEMORIES; m++)
            for (int size = 0; size < STATS_SIZES; size++) {
                const struct stats_cost *cost = &page->costs[call][m][size];
                if (!stats_read(&cost->calls))
                    continue;
                emitter_open(emitter, NULL, '{');
                emitter_string(emitter, "call", saving_calls[call]);
                emitter_string(emitter, "memory", saving_memories[1 + m]);
                emitter_number(emitter, "from_bytes", 1ull << size);
                emitter_number(emitter, "calls", stats_read(&cost->calls));
                emitter_number(emitter, "ns", stats_read(&cost->ns));
                emitter_number(emitter, "least_ns", stats_read(&cost->least_ns));
                emitter_number(emitter, "least_bytes", stats_read(&cost->least_bytes));
                emitter_close(emitter, '}');
            }
    emitter_close(emitter, ']');
}

void report_gain(struct emitter *emitter, const struct stats_page *page) {
    struct stats_saving saving;
    saving_of(page, &saving);
    print(emitter, page, &saving);
    emit_saving(emitter, page, &saving);
    emit_costs(emitter, page);
}
