/* The presets beside their origins, decision by decision: which allocations of a trace are served
 * from idle memory. What the origins decide, compiled from their own source, is in
 * expected/TRACE.txt.gz beside the traces.
 *
 * Each preset is compared twice: as it is, and with what docs/policies.md says it does differently
 * taken away (sizes as they are asked for, bounds lifted). Then nothing may differ.
 *
 * Usage: test_preset_decisions FOLDER. Without that folder the test is skipped. */
#include "base/sizes.h"
#include "fake_driver.h"
#include "options/options.h"
#include "options/pool_options.h"
#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { SKIPPED = 77 };

static const char *const traces[] = {"pytorch-train-v100", "mindspore-pangu-2.6b",
                                     "mindspore-resnet50", "minimalloc-k",
                                     "moe-align",          "ssim",
                                     "segment-reduce",     "mgpu_reduce",
                                     "random-1",           "random-2",
                                     "random-3",           "random-4",
                                     "random-5",           "random-6",
                                     "random-7",           "random-8"};
enum { TRACES = sizeof traces / sizeof traces[0] };

/* Futhark's and PyCUDA's lists compare sizes as they are asked for. */
static size_t as_asked(size_t bytes) {
    return bytes;
}

/* TensorFlow rounds to 256 bytes. */
static size_t to_256(size_t bytes) {
    enum { UNIT = 256 };
    return round_up(bytes, UNIT);
}

static size_t to_512(size_t bytes) {
    return round_up(bytes, ROUND_SMALL);
}

/* The end of a bin of PyCUDA's: of a request's four highest bits after the first, the rest is
 * filled up. */
static size_t to_bin(size_t bytes) {
    enum { BITS = 4 };
    int highest = 63 - __builtin_clzll(bytes);
    size_t unit = highest > BITS ? (size_t)1 << (highest - BITS) : 1;
    return (bytes & ~(unit - 1)) + unit;
}

/* differ: allocations decided otherwise by the preset as it is, of all traces. */
static const struct pair {
    const char *preset, *origin;
    size_t (*round)(size_t bytes); /* the origin's */
    unsigned differ;
} pairs[] = {
    {"futhark", "futhark-2018", as_asked, 2613},
    {"pyopencl", "pycuda", to_bin, 615},
    {"bfc", "tensorflow-bfc", to_256, 14},
    {"pytorch", "pytorch", to_512, 0},
    {"pytorch-expandable", "pytorch-expandable-model", to_512, 0},
};
enum { PAIRS = sizeof pairs / sizeof pairs[0] };

static void say(const char *line) {
    fprintf(stderr, "%s\n", line);
    exit(1);
}

static uint64_t now_ns;

static uint64_t trace_clock(void) {
    return now_ns;
}

/* That driver cannot map memory. This one's has no limit, and its addresses no end. */
static CUresult create_any(CUmemGenericAllocationHandle *handle, size_t bytes,
                           const CUmemAllocationProp *properties, unsigned long long flags) {
    (void)properties, (void)flags;
    *handle = bytes;
    return CUDA_SUCCESS;
}

static CUresult reserve_next(CUdeviceptr *pointer, size_t bytes, size_t alignment,
                             CUdeviceptr wanted, unsigned long long flags) {
    static CUdeviceptr next = (CUdeviceptr)1 << 50;
    (void)alignment, (void)wanted, (void)flags;
    *pointer = next;
    next += bytes;
    return CUDA_SUCCESS;
}

static CUresult map_any(CUdeviceptr pointer, size_t bytes, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)pointer, (void)offset, (void)flags;
    return handle == bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult open_any(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access,
                         size_t count) {
    (void)pointer, (void)bytes, (void)access, (void)count;
    return CUDA_SUCCESS;
}

static CUresult drop_range(CUdeviceptr pointer, size_t bytes) {
    (void)pointer, (void)bytes;
    return CUDA_SUCCESS;
}

static CUresult drop_handle(CUmemGenericAllocationHandle handle) {
    (void)handle;
    return CUDA_SUCCESS;
}

static const struct driver *mapping_driver(void) {
    static struct driver driver;
    driver = *fake_driver();
    driver.mem_create = create_any;
    driver.mem_release = drop_handle;
    driver.mem_address_reserve = reserve_next;
    driver.mem_address_free = driver.mem_unmap = drop_range;
    driver.mem_map = map_any;
    driver.mem_set_access = open_any;
    return &driver;
}

/* The policy with the origin's rounding. */
static struct policy unrounded;
static struct keeper unrounded_keeper;

static struct pool *start(const struct pair *pair, bool as_origin) {
    static const uint64_t unlimited = (uint64_t)1 << 42;
    char preset[64], waste[] = "POOLCUDA_MAX_WASTE=100%", idle[] = "POOLCUDA_MAX_IDLE=100%";
    char *environment[] = {preset, waste, idle, NULL};
    if (!as_origin)
        environment[1] = NULL;
    snprintf(preset, sizeof preset, "POOLCUDA_PRESET=%s", pair->preset);
    struct options options;
    options_parse(&options, environment, say);
    struct pool_config config = pool_config_from(&options);
    config.clock = trace_clock;
    unrounded = *config.policy;
    unrounded_keeper = *unrounded.keeper;
    unrounded_keeper.round = pair->round;
    unrounded.keeper = &unrounded_keeper;
    if (as_origin)
        config.policy = &unrounded;
    for (int i = 0; i < STATS_COUNTERS; i++)
        stats_set((enum stats_counter)i, 0);
    fake_reset(unlimited);
    fake.pages = true;
    return pool_create(&config, mapping_driver());
}

/* What the origin decided: a letter, H or M, for each allocation. NULL: it is not in the file. */
static char *read_expected(const char *folder, const char *trace, const char *origin,
                           size_t allocations) {
    char path[4096], word[64];
    snprintf(path, sizeof path, "%s/expected/%s.txt.gz", folder, trace);
    gzFile file = gzopen(path, "r");
    char *decisions = calloc(allocations + 1, 1);
    size_t length = 0, letters = 0;
    bool found = false, first = true;
    for (int c; file && (c = gzgetc(file)) != -1;) {
        if (c != ' ' && c != '\n') {
            if (letters + 1 < sizeof word)
                word[letters++] = (char)c;
            continue;
        }
        word[letters] = '\0';
        letters = 0;
        if (first)
            found = strcmp(word, origin) == 0;
        else if (found)
            for (unsigned long n = strtoul(word + 1, NULL, 10); n && length < allocations; n--)
                decisions[length++] = word[0];
        first = c == '\n';
        if (first && found)
            break;
    }
    if (file)
        gzclose(file);
    if (length == allocations)
        return decisions;
    free(decisions);
    return NULL;
}

/* The same of the preset. */
static char *decide(const struct trace *trace, const struct pair *pair, bool as_origin) {
    struct pool *pool = start(pair, as_origin);
    CUdeviceptr *blocks = calloc(trace->block_count, sizeof *blocks);
    char *decisions = calloc(trace->block_count + 1, 1);
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        struct call_site site = {.frames = {event->site + 1u}, .depth = 1};
        uint64_t before = stats_get(STATS_malloc_hits);
        now_ns = 1 + event->time_ns;
        if (event->op == TRACE_ALLOC) {
            if (pool_malloc(pool, &blocks[event->block], event->value, &site) != CUDA_SUCCESS)
                say("an allocation failed on a device without a limit");
            decisions[event->block] = stats_get(STATS_malloc_hits) > before ? 'H' : 'M';
        } else if (event->op == TRACE_FREE && blocks[event->block]) {
            pool_free(pool, blocks[event->block]);
        }
    }
    pool_destroy(pool);
    free(blocks);
    return decisions;
}

static struct trace *find_trace(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.csv.gz", folder, name);
    if (access(path, R_OK) != 0)
        snprintf(path, sizeof path, "%s/random/%s.csv.gz", folder, name);
    return trace_read(path, say);
}

static unsigned count_differences(const char *one, const char *other, const char *what) {
    unsigned differ = 0;
    for (size_t i = 0; one[i]; i++)
        if (one[i] != other[i] && differ++ == 0 && what)
            printf("  first, %s: allocation %zu is %c, in the origin %c\n", what, i, one[i],
                   other[i]);
    return differ;
}

int main(int argc, char **argv) {
    unsigned sums[PAIRS][2] = {{0}};
    bool good = true;
    if (argc < 2 || access(argv[1], R_OK) != 0) {
        printf("%s is not there\n", argc > 1 ? argv[1] : "the folder of traces");
        return SKIPPED;
    }
    for (size_t t = 0; t < TRACES; t++) {
        struct trace *trace = find_trace(argv[1], traces[t]);
        for (size_t p = 0; trace && p < PAIRS; p++) {
            char *expected = read_expected(argv[1], traces[t], pairs[p].origin, trace->block_count);
            if (!expected)
                say("the expected decisions are not of this trace");
            char *preset = decide(trace, &pairs[p], false), *same = decide(trace, &pairs[p], true);
            unsigned differ = count_differences(preset, expected, NULL);
            unsigned still = count_differences(same, expected, pairs[p].preset);
            printf("%-22s %-18s %5zu allocations, %5u decided otherwise; %5u as the origin\n",
                   traces[t], pairs[p].preset, trace->block_count, differ, still);
            sums[p][0] += differ;
            sums[p][1] += still;
            free(expected);
            free(preset);
            free(same);
        }
        trace_free(trace);
    }
    for (size_t p = 0; p < PAIRS; p++) {
        bool as_told = sums[p][0] == pairs[p].differ && sums[p][1] == 0;
        printf("%s and %s: %u differ, expected %u; with rounding and bounds as in the origin %u, "
               "expected 0%s\n",
               pairs[p].preset, pairs[p].origin, sums[p][0], pairs[p].differ, sums[p][1],
               as_told ? "" : ": WRONG");
        good = good && as_told;
    }
    return !good;
}
