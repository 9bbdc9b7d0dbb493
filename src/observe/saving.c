#include "observe/saving.h"

const char saving_calls[STATS_CALLS][12] = {"allocation", "free"};
const char saving_ns_names[STATS_MEMORIES][12] = {"device_ns", "host_ns", "managed_ns"};
const char saving_memories[STATS_MEMORIES + 2][8] = {"", "device", "host", "managed", "mixed"};

static uint64_t get(const struct stats_page *page, enum stats_counter counter) {
    return stats_read(&page->counters[counter]);
}

/* What one call of a size takes; negative: not known. An allocation takes the mean, but for the
 * dearest, which may have prepared something for the others: so a single one says nothing of the
 * size, at `dearest`, that has the dearest of all. A free takes the least, since others may have
 * waited for work of other threads. */
static double price_of(const struct stats_cost *costs, enum stats_call call, int size,
                       int dearest) {
    const struct stats_cost *cost = &costs[size];
    uint64_t calls = stats_read(&cost->calls), ns = stats_read(&cost->ns);
    if (!calls || (call == STATS_CALL_ALLOC && calls == 1 && size == dearest))
        return -1;
    if (call == STATS_CALL_FREE)
        return (double)stats_read(&cost->least_ns);
    if (calls > 1)
        return (double)stats_rest(ns, stats_read(&cost->most_ns)) / (double)(calls - 1);
    return (double)ns;
}

static int dearest_of(const struct stats_cost *costs) {
    int dearest = 0;
    for (int size = 1; size < STATS_SIZES; size++)
        if (stats_read(&costs[size].most_ns) > stats_read(&costs[dearest].most_ns))
            dearest = size;
    return dearest;
}

/* What one call for a mean of `bytes` takes. Where none of that size are known, it takes as much as
 * one of the next smaller size, and never more than one of a larger: a larger block costs no less.
 * Where all were larger, an allocation in proportion: a smaller block costs no less per byte. A
 * free costs the least. */
static double price_for(const struct stats_page *page, enum stats_call call,
                        enum stats_memory memory, double bytes) {
    const struct stats_cost *costs = page->costs[call][memory];
    int dearest = dearest_of(costs), wanted = 0;
    double found = -1, least = -1, larger = -1;
    while (wanted < STATS_SIZES - 1 && bytes >= (double)(2ull << wanted))
        wanted++;
    for (int size = 0; size < STATS_SIZES; size++) {
        double price = price_of(costs, call, size, dearest);
        if (price < 0)
            continue;
        if (size <= wanted)
            found = least = price;
        else if (larger < 0)
            larger = call == STATS_CALL_FREE ? price : price * bytes / (double)(2ull << size);
        least = price < least ? price : least;
    }
    return found < 0 ? larger : least;
}

/* Calls of sites, by memory: allocations served from idle memory, and frees. */
struct served {
    double of[STATS_CALLS][STATS_MEMORIES], all[STATS_CALLS]; /* all: of mixed memory, too */
};

static double calls_of(const struct stats_site *site, enum stats_call call) {
    return call == STATS_CALL_ALLOC
               ? (double)stats_read(&site->hits)
               : (double)stats_rest(stats_site_allocations(site), stats_read(&site->live_blocks));
}

/* Whether the site's calls can be priced; *memory is what they are about. */
static bool is_priced(const struct stats_site *site, enum stats_memory *memory) {
    *memory = (enum stats_memory)(site->memory - 1);
    return site->depth && site->memory && site->memory <= STATS_MEMORIES &&
           stats_site_allocations(site);
}

static void sum_up(const struct stats_page *page, struct served *served) {
    *served = (struct served){0};
    for (uint32_t i = 0; i < page->site_count; i++) {
        enum stats_memory memory;
        bool priced = is_priced(&page->sites[i], &memory);
        for (int call = 0; page->sites[i].depth && call < STATS_CALLS; call++) {
            double calls = calls_of(&page->sites[i], (enum stats_call)call);
            served->all[call] += calls;
            if (priced)
                served->of[call][memory] += calls;
        }
    }
}

/* `part` of `whole`, from 0 to 1. */
static double share(double part, double whole) {
    return part <= 0 || whole <= 0 ? 0 : part < whole ? part / whole : 1;
}

/* The part of sites' calls that were avoided ones of a plain allocation or free. Frees are kept or
 * not whatever their site. Stream-ordered calls cost the program little without the pool, and those
 * served by pages mapped anew have cost calls of their own. */
static double avoided_share(const struct stats_page *page, const struct served *served,
                            enum stats_call call, enum stats_memory memory) {
    double calls = served->of[call][memory], left = calls;
    if (memory == STATS_DEVICE && call == STATS_CALL_ALLOC)
        left -= (double)get(page, STATS_malloc_stitched) + (double)get(page, STATS_async_served);
    if (memory == STATS_DEVICE && call == STATS_CALL_FREE)
        left -= (double)get(page, STATS_async_frees);
    return share(left, calls) * share((double)saving_avoided(page, call), served->all[call]);
}

/* Rounds a number from a page that others may have written. */
static uint64_t whole(double number) {
    return number >= 9e18 ? (uint64_t)9e18 : (uint64_t)number;
}

static void price(const struct stats_page *page, const struct served *served, enum stats_call call,
                  struct stats_saving *saving) {
    double priced = 0, ns[STATS_MEMORIES] = {0}, shares[STATS_MEMORIES];
    for (int m = 0; m < STATS_MEMORIES; m++) {
        shares[m] = avoided_share(page, served, call, (enum stats_memory)m);
        for (int size = 0; size < STATS_SIZES; size++)
            saving->of[call].timed += stats_read(&page->costs[call][m][size].calls);
    }
    for (uint32_t i = 0; i < page->site_count; i++) {
        const struct stats_site *site = &page->sites[i];
        enum stats_memory memory;
        if (!is_priced(site, &memory))
            continue;
        double bytes =
            (double)stats_read(&site->allocated_bytes) / (double)stats_site_allocations(site);
        double calls = calls_of(site, call) * shares[memory];
        double each = price_for(page, call, memory, bytes);
        if (each < 0)
            continue;
        priced += calls;
        ns[memory] += calls * each;
    }
    saving->of[call].priced = whole(priced + 0.5);
    for (int m = 0; m < STATS_MEMORIES; m++)
        saving->of[call].ns[m] = whole(ns[m]);
}

void saving_of(const struct stats_page *page, struct stats_saving *saving) {
    struct served served;
    if (page->runs > 1) {
        *saving = page->saving;
        return;
    }
    *saving = (struct stats_saving){0};
    sum_up(page, &served);
    price(page, &served, STATS_CALL_ALLOC, saving);
    price(page, &served, STATS_CALL_FREE, saving);
}

void saving_add(struct stats_saving *sum, const struct stats_saving *more) {
    for (int call = 0; call < STATS_CALLS; call++) {
        sum->of[call].timed += more->of[call].timed;
        sum->of[call].priced += more->of[call].priced;
        for (int m = 0; m < STATS_MEMORIES; m++)
            sum->of[call].ns[m] += more->of[call].ns[m];
    }
}

uint64_t saving_avoided(const struct stats_page *page, enum stats_call call) {
    if (call == STATS_CALL_ALLOC)
        return get(page, STATS_malloc_hits);
    return stats_rest(get(page, STATS_free_kept), get(page, STATS_driver_frees));
}

uint64_t saving_ns(const struct stats_saving *saving, enum stats_call call) {
    uint64_t ns = 0;
    for (int m = 0; m < STATS_MEMORIES; m++)
        ns += saving->of[call].ns[m];
    return ns;
}
