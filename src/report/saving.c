/* What an avoided call would have taken is the least that the run's own calls show: it is taken to
 * be as quick as the quickest timed one of its size class. No mean would do: blocks of less than a
 * page of the driver's share it, and a call that opens a page takes many times what the others do.
 * A run that begins opens the pages; the calls that it avoids later would mostly have found one. So
 * all classes below a page are one, and a single call, which may have opened a page or prepared
 * something else, is no price.
 *
 * Beyond that it is taken for granted that a call about a larger block takes no less. So a site's
 * avoided calls are priced by calls about blocks that were no larger than the smallest that the
 * site's avoided calls were about; where too few of those were timed, they have no price. A call
 * that is known not to be avoided, but not whose it was, is taken to be of what costs most. */
#include "report/saving.h"
#include "base/sizes.h"

const char saving_calls[STATS_CALLS][12] = {"allocation", "free"};
const char saving_ns_names[STATS_MEMORIES][12] = {"device_ns", "host_ns", "managed_ns"};
const char saving_memories[STATS_MEMORIES + 2][8] = {"", "device", "host", "managed", "mixed"};

/* Prices by size: each is that of blocks from `from` bytes on, up to the next step. Invariant:
 * prices do not fall. calls: avoided ones that have this price. */
struct step {
    double from, price, calls;
};
struct stairs {
    int count;
    struct step steps[STATS_SIZES];
};

static uint64_t get(const struct stats_page *page, enum stats_counter counter) {
    return stats_read(&page->counters[counter]);
}

/* Timed calls that one price is taken from. */
struct timed {
    uint64_t calls, least_ns;
};

static struct timed both(struct timed one, struct timed other) {
    return (struct timed){.calls = one.calls + other.calls,
                          .least_ns = !one.calls || other.least_ns < one.least_ns ? other.least_ns
                                                                                  : one.least_ns};
}

/* A single call of a size class from a page on is taken together with those of the next smaller
 * one. Where the sizes are not known, as in figures from elsewhere, all were the largest of their
 * class. */
static void build(struct stairs *stairs, const struct stats_cost *costs) {
    struct timed timed = {0};
    uint64_t from = 0;
    stairs->count = 0;
    for (int size = 0; size < STATS_SIZES; size++) {
        const struct stats_cost *cost = &costs[size];
        const struct timed own = {stats_read(&cost->calls), stats_read(&cost->least_ns)};
        uint64_t least = stats_read(&cost->least_bytes), end = (2ull << size) - 1;
        bool shares_page = end < ROUND_PAGE;
        if (1ull << size == ROUND_PAGE)
            timed = (struct timed){0};
        if (!own.calls)
            continue;
        if (!shares_page || !timed.calls)
            from = least ? least : end;
        if (shares_page)
            stairs->count = 0;
        timed = shares_page || own.calls == 1 ? both(timed, own) : own;
        if (timed.calls > 1)
            stairs->steps[stairs->count++] =
                (struct step){.from = (double)from, .price = (double)timed.least_ns};
    }
    for (int i = stairs->count - 2; i >= 0; i--)
        if (stairs->steps[i].price > stairs->steps[i + 1].price)
            stairs->steps[i].price = stairs->steps[i + 1].price;
}

/* The step of blocks of that size; NULL: too few that were no larger were timed. */
static struct step *step_of(struct stairs *stairs, double bytes) {
    struct step *found = NULL;
    for (int i = 0; i < stairs->count && stairs->steps[i].from <= bytes; i++)
        found = &stairs->steps[i];
    return found;
}

/* Allocations served from idle memory, and frees. */
static double calls_of(const struct stats_site *site, enum stats_call call) {
    return call == STATS_CALL_ALLOC
               ? (double)stats_read(&site->hits)
               : (double)stats_rest(stats_site_allocations(site), stats_read(&site->live_blocks));
}

/* Puts each site's calls on its step. Returns how many calls there were, those without a price
 * included: of sites with several kinds of memory, or whose least size is not known. */
static double sort(const struct stats_page *page, enum stats_call call,
                   struct stairs stairs[STATS_MEMORIES]) {
    double all = 0;
    for (uint32_t i = 0; i < page->site_count; i++) {
        const struct stats_site *site = &page->sites[i];
        uint32_t memory = site->memory - 1;
        double calls = site->depth ? calls_of(site, call) : 0;
        double least = (double)stats_site_least(site);
        struct step *step =
            memory < STATS_MEMORIES && least > 0 ? step_of(&stairs[memory], least) : NULL;
        if (step)
            step->calls += calls;
        all += calls;
    }
    return all;
}

/* So many calls, of which only these kinds of memory are known, were none that was avoided. */
static void leave_out(struct stairs *stairs, int memories, double calls) {
    while (calls > 0) {
        struct step *dearest = NULL;
        for (int m = 0; m < memories; m++)
            for (int i = 0; i < stairs[m].count; i++) {
                struct step *step = &stairs[m].steps[i];
                if (step->calls > 0 && (!dearest || step->price > dearest->price))
                    dearest = step;
            }
        if (!dearest)
            return;
        double out = calls < dearest->calls ? calls : dearest->calls;
        dearest->calls -= out;
        calls -= out;
    }
}

/* Calls about device memory that are no plain allocations or frees: stream-ordered ones cost the
 * program little without the pool, those served by pages mapped anew have cost calls of their own.
 */
static double other_calls(const struct stats_page *page, enum stats_call call) {
    return call == STATS_CALL_ALLOC
               ? (double)get(page, STATS_malloc_stitched) + (double)get(page, STATS_async_served)
               : (double)get(page, STATS_async_frees);
}

/* Rounds a number from a page that others may have written. */
static uint64_t whole(double number) {
    return number >= 9e18 ? (uint64_t)9e18 : (uint64_t)number;
}

static void price(const struct stats_page *page, enum stats_call call,
                  struct stats_saving *saving) {
    struct stairs stairs[STATS_MEMORIES];
    double priced = 0;
    for (int m = 0; m < STATS_MEMORIES; m++) {
        build(&stairs[m], page->costs[call][m]);
        for (int size = 0; size < STATS_SIZES; size++)
            saving->of[call].timed += stats_read(&page->costs[call][m][size].calls);
    }
    double all = sort(page, call, stairs);
    leave_out(&stairs[STATS_DEVICE], 1, other_calls(page, call));
    leave_out(stairs, STATS_MEMORIES, all - (double)saving_avoided(page, call));
    for (int m = 0; m < STATS_MEMORIES; m++) {
        double ns = 0;
        for (int i = 0; i < stairs[m].count; i++) {
            priced += stairs[m].steps[i].calls;
            ns += stairs[m].steps[i].calls * stairs[m].steps[i].price;
        }
        saving->of[call].ns[m] = whole(ns);
    }
    saving->of[call].priced = whole(priced);
}

void saving_of(const struct stats_page *page, struct stats_saving *saving) {
    if (page->runs > 1) {
        *saving = page->saving;
        return;
    }
    *saving = (struct stats_saving){0};
    price(page, STATS_CALL_ALLOC, saving);
    price(page, STATS_CALL_FREE, saving);
}

/* Up to the greatest number that a report can have. */
static void grow(uint64_t *sum, uint64_t by) {
    uint64_t room = stats_rest(INT64_MAX, *sum);
    *sum += by < room ? by : room;
}

void saving_add(struct stats_saving *sum, const struct stats_saving *more) {
    for (int call = 0; call < STATS_CALLS; call++) {
        grow(&sum->of[call].timed, more->of[call].timed);
        grow(&sum->of[call].priced, more->of[call].priced);
        for (int m = 0; m < STATS_MEMORIES; m++)
            grow(&sum->of[call].ns[m], more->of[call].ns[m]);
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
