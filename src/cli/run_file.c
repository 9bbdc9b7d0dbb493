#include "cli/run_file.h"

#include "report/emitter.h"
#include "report/report.h"
#include "report/saving.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LARGEST_JSON = 64 << 20 }; /* bytes; the library writes less than 3 MiB */

/* Reading an object: what is absent is 0 or "" unless it is required, what is of another type is
 * noted as a fault. */
struct reading {
    const char *fault;   /* the first member found wrong */
    const char *missing; /* the first that is required and absent */
};

static uint64_t to_number(struct reading *reading, const json_t *value, const char *name) {
    if (value && (!json_is_integer(value) || json_integer_value(value) < 0))
        reading->fault = reading->fault ? reading->fault : name;
    return (uint64_t)json_integer_value(value);
}

/* A number from `least` to `most`. */
static uint64_t limited(struct reading *reading, const json_t *value, const char *name,
                        uint64_t least, uint64_t most) {
    uint64_t read = to_number(reading, value, name);
    if (read >= least && read <= most)
        return read;
    reading->fault = reading->fault ? reading->fault : name;
    return least;
}

static uint64_t number(struct reading *reading, const json_t *object, const char *name) {
    return to_number(reading, json_object_get(object, name), name);
}

static void text(struct reading *reading, const json_t *object, const char *name, char *to,
                 size_t size) {
    const json_t *value = json_object_get(object, name);
    if (value && !json_is_string(value))
        reading->fault = reading->fault ? reading->fault : name;
    snprintf(to, size, "%s", json_is_string(value) ? json_string_value(value) : "");
}

/* The array of that name with at most `most` members; NULL if there is none. */
static const json_t *array(struct reading *reading, const json_t *object, const char *name,
                           size_t most) {
    const json_t *value = json_object_get(object, name);
    if (value && (!json_is_array(value) || json_array_size(value) > most)) {
        reading->fault = reading->fault ? reading->fault : name;
        return NULL;
    }
    return value;
}

/* A text, or {"hex": "..."} where it is no UTF-8. False if it is neither. */
static bool add_bytes(struct command_line *line, const json_t *value) {
    const char *hex = json_string_value(json_object_get(value, "hex"));
    size_t length = hex ? strlen(hex) / 2 : 0;
    if (json_is_string(value)) {
        command_line_add(line, json_string_value(value));
        return true;
    }
    char *text = hex && length < sizeof line->text ? calloc(1, length + 1) : NULL;
    unsigned byte = 0;
    for (size_t i = 0; text && i < length && sscanf(hex + 2 * i, "%2x", &byte) == 1; i++)
        text[i] = (char)byte;
    bool sound = text && strlen(text) == length && strlen(hex) % 2 == 0;
    if (sound)
        command_line_add(line, text);
    free(text);
    return sound;
}

/* Files of version 0.4.0 and older have none. */
static void read_command_line(struct reading *reading, const json_t *process,
                              struct command_line *line) {
    const json_t *object = json_object_get(process, "command_line");
    const json_t *arguments = json_object_get(object, "arguments");
    if (!object || json_is_null(object))
        return;
    if (json_is_true(json_object_get(object, "too_long"))) {
        line->size = COMMAND_LINE_TOO_LONG;
        return;
    }
    bool sound = add_bytes(line, json_object_get(object, "folder")) &&
                 add_bytes(line, json_object_get(object, "program")) && json_is_array(arguments);
    for (size_t i = 0; sound && i < json_array_size(arguments); i++)
        sound = add_bytes(line, json_array_get(arguments, i));
    if (!sound)
        reading->fault = reading->fault ? reading->fault : "command_line";
}

static void read_process(struct reading *reading, const json_t *process, struct stats_page *page) {
    const json_t *rank = json_object_get(process, "rank");
    page->process = number(reading, process, "pid");
    text(reading, process, "command", page->command, sizeof page->command);
    text(reading, process, "host", page->host, sizeof page->host);
    if (rank && !json_is_null(rank))
        page->rank = (int32_t)limited(reading, rank, "rank", 0, INT32_MAX);
    page->finished = json_is_true(json_object_get(process, "finished"));
    page->start_wall_ns = number(reading, process, "start_wall_ns");
    page->last_ns = number(reading, process, "last_ns");
    text(reading, process, "options", page->options, sizeof page->options);
    text(reading, process, "tools", page->tools, sizeof page->tools);
    text(reading, process, "trace", page->trace, sizeof page->trace);
    read_command_line(reading, process, &page->command_line);
    text(reading, process, "shortage", page->shortage, sizeof page->shortage);
}

static void read_counters(struct reading *reading, const json_t *root, struct stats_page *page) {
    static const char *const counters[] = {
#define COUNTER(field, help) #field,
#define GAUGE(field, help)   #field,
#include "counters/counters.def"
    };
    static const char *const reasons[] = {
#define WAIT_REASON(name, text) #name,
#include "counters/wait_reasons.def"
#undef WAIT_REASON
    };
    static const char *const routes[] = {
#define ROUTE(name, key, text) key,
#include "counters/routes.def"
#undef ROUTE
    };
    const json_t *object = json_object_get(root, "counters");
    for (size_t i = 0; i < STATS_COUNTERS; i++)
        page->counters[i] = number(reading, object, counters[i]);
    object = json_object_get(root, "waited_because_of");
    for (size_t i = 0; i < WAIT_REASONS; i++)
        page->waits[i] = number(reading, object, reasons[i]);
    object = json_object_get(root, "interception");
    for (size_t i = 0; i < STATS_ROUTES; i++)
        page->routes[i] = number(reading, object, routes[i]);
}

/* The index of the member's text among `count` names of `size` bytes each; count: it is none. */
static size_t name_index(struct reading *reading, const json_t *object, const char *name,
                         const char *names, size_t size, size_t count) {
    const char *value = json_string_value(json_object_get(object, name));
    size_t i = 0;
    while (value && i < count && strcmp(value, names + i * size) != 0)
        i++;
    if (!value || i == count)
        reading->fault = reading->fault ? reading->fault : name;
    return value ? i : count;
}

static void read_cost(struct reading *reading, const json_t *entry, struct stats_page *page) {
    size_t call =
        name_index(reading, entry, "call", saving_calls[0], sizeof saving_calls[0], STATS_CALLS);
    size_t memory = name_index(reading, entry, "memory", saving_memories[1],
                               sizeof saving_memories[1], STATS_MEMORIES);
    uint64_t from = number(reading, entry, "from_bytes");
    int size = from ? 63 - __builtin_clzll(from) : STATS_SIZES;
    if (call == STATS_CALLS || memory == STATS_MEMORIES || size >= STATS_SIZES) {
        reading->fault = reading->fault ? reading->fault : "from_bytes";
        return;
    }
    struct stats_cost *cost = &page->costs[call][memory][size];
    cost->calls = number(reading, entry, "calls");
    cost->ns = number(reading, entry, "ns");
    cost->least_ns = number(reading, entry, "least_ns");
    cost->least_bytes = number(reading, entry, "least_bytes");
}

/* Reads the saving of several runs; of one run it follows from the rest. */
static void read_saving(struct reading *reading, const json_t *root, struct stats_page *page) {
    const json_t *list =
        array(reading, root, "timed_calls", (size_t)STATS_CALLS * STATS_MEMORIES * STATS_SIZES);
    for (size_t i = 0; i < json_array_size(list); i++)
        read_cost(reading, json_array_get(list, i), page);
    const json_t *saved = json_object_get(root, "time_saved");
    for (int call = 0; call < STATS_CALLS; call++) {
        const json_t *of = json_object_get(saved, saving_calls[call]);
        page->saving.of[call].priced = number(reading, of, "priced");
        page->saving.of[call].timed = number(reading, of, "timed");
        for (int m = 0; m < STATS_MEMORIES; m++)
            page->saving.of[call].ns[m] = number(reading, of, saving_ns_names[m]);
    }
}

static void read_payers(struct reading *reading, const json_t *root, struct stats_page *page) {
    json_t *object = json_object_get(root, "waits_made_before"), *value;
    const char *name;
    json_object_foreach(object, name, value) {
        if (page->payer_count == PAGE_PAYERS) {
            reading->fault = "waits_made_before";
            return;
        }
        uint32_t at = page->payer_count++;
        snprintf(page->payers[at].name, sizeof page->payers[at].name, "%s", name);
        page->payers[at].count = to_number(reading, value, name);
    }
}

static void read_bypasses(struct reading *reading, const json_t *root, struct stats_page *page) {
    const json_t *list = array(reading, root, "bypassed", PAGE_BYPASSES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        text(reading, entry, "module", page->bypasses[i].module, sizeof page->bypasses[i].module);
        text(reading, entry, "name", page->bypasses[i].name, sizeof page->bypasses[i].name);
        page->bypass_count = (uint32_t)i + 1;
    }
}

static void read_device(struct reading *reading, const json_t *entry, struct stats_device *device) {
    const json_t *samples = array(reading, entry, "samples", STATS_SAMPLES);
    const json_t *map = json_object_get(entry, "map");
    const json_t *blocks = map ? array(reading, map, "blocks", STATS_EXTENTS) : NULL;
    device->capacity = number(reading, entry, "capacity_bytes");
    device->in_use = number(reading, entry, "in_use_bytes");
    device->live = stats_sum(device->in_use, number(reading, entry, "waste_bytes"));
    device->held = stats_sum(device->live, number(reading, entry, "idle_bytes"));
    device->peak_live = number(reading, entry, "peak_live_bytes");
    device->peak_held = number(reading, entry, "peak_held_bytes");
    device->allocations = number(reading, entry, "allocations");
    device->hits = number(reading, entry, "hits");
    device->interval_ns = number(reading, entry, "interval_ns");
    for (size_t i = 0; i < json_array_size(samples); i++) {
        const json_t *row = json_array_get(samples, i);
        struct stats_sample *sample = &device->samples[i];
        _Atomic uint64_t *const figures[] = {&sample->time_ns, &sample->in_use,      &sample->idle,
                                             &sample->waste,   &sample->allocations, &sample->hits};
        for (size_t f = 0; f < sizeof figures / sizeof figures[0]; f++)
            *figures[f] = to_number(reading, json_array_get(row, f), "samples");
    }
    device->sample_count = (uint32_t)json_array_size(samples);
    device->map_time_ns = number(reading, map, "time_ns");
    device->map_left_out = number(reading, map, "left_out");
    for (size_t i = 0; i < json_array_size(blocks); i++) {
        const json_t *row = json_array_get(blocks, i);
        device->map[i].address = to_number(reading, json_array_get(row, 0), "map");
        device->map[i].bytes = to_number(reading, json_array_get(row, 1), "map");
        device->map[i].idle = to_number(reading, json_array_get(row, 2), "map") != 0;
        device->map[i].site = (uint32_t)to_number(reading, json_array_get(row, 3), "map");
    }
    device->extent_count = (uint32_t)json_array_size(blocks);
}

static void read_devices(struct reading *reading, const json_t *root, struct stats_page *page) {
    const json_t *list = array(reading, root, "devices", PAGE_DEVICES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        uint64_t ordinal = number(reading, entry, "device");
        if (ordinal >= PAGE_DEVICES)
            reading->fault = "device";
        else
            read_device(reading, entry, &page->devices[ordinal]);
    }
}

static void read_modules(struct reading *reading, const json_t *root, struct stats_page *page) {
    const json_t *list = array(reading, root, "modules", PAGE_MODULES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct stats_module *module = &page->modules[i];
        char id[2 * PAGE_BUILD_ID + 1] = "";
        unsigned byte;
        text(reading, json_array_get(list, i), "path", module->path, sizeof module->path);
        text(reading, json_array_get(list, i), "build_id", id, sizeof id);
        for (size_t b = 0; b < strlen(id) / 2 && sscanf(id + 2 * b, "%2x", &byte) == 1; b++)
            module->build_id[module->build_id_size++] = (uint8_t)byte;
    }
    page->module_count = (uint32_t)json_array_size(list);
}

/* A tag's place in the page's table, from 1; 0 if there is no room for it. */
static uint32_t add_tag(struct stats_page *page, const char *tag) {
    uint32_t i = 0;
    char cut[PAGE_TAG];
    snprintf(cut, sizeof cut, "%s", tag);
    while (i < page->tag_count && strcmp(page->tags[i], cut) != 0)
        i++;
    if (i == PAGE_TAGS)
        return 0;
    if (i == page->tag_count)
        memcpy(page->tags[page->tag_count++], cut, sizeof cut);
    return i + 1;
}

static void read_site(struct reading *reading, const json_t *entry, struct stats_page *page) {
    const json_t *tag = json_object_get(entry, "tag");
    const json_t *frames = array(reading, entry, "frames", CALL_SITE_MAX_DEPTH);
    uint64_t id = number(reading, entry, "id");
    if (id >= PAGE_SITES) {
        reading->fault = "id";
        return;
    }
    struct stats_site *site = &page->sites[id];
    site->hits = number(reading, entry, "hits");
    site->misses = stats_rest(number(reading, entry, "allocations"), site->hits);
    site->allocated_bytes = number(reading, entry, "allocated_bytes");
    site->live_blocks = number(reading, entry, "live_blocks");
    site->live_bytes = number(reading, entry, "live_bytes");
    site->peak_live_bytes = number(reading, entry, "peak_live_bytes");
    site->held_blocks = stats_sum(site->live_blocks, number(reading, entry, "idle_blocks"));
    site->held_bytes = stats_sum(site->live_bytes, number(reading, entry, "idle_bytes"));
    if (json_object_get(entry, "least_bytes"))
        stats_site_serves(site, number(reading, entry, "least_bytes"));
    if (json_object_get(entry, "memory"))
        site->memory = 1 + (uint32_t)name_index(reading, entry, "memory", saving_memories[1],
                                                sizeof saving_memories[1], STATS_MEMORIES + 1);
    if (json_is_string(tag))
        site->tag = add_tag(page, json_string_value(tag));
    for (size_t i = 0; i < json_array_size(frames); i++) {
        site->module[i] = (uint32_t)number(reading, json_array_get(frames, i), "module");
        site->offset[i] = number(reading, json_array_get(frames, i), "offset");
    }
    site->depth = json_array_size(frames) ? (uint32_t)json_array_size(frames) : 1;
    page->site_count = id >= page->site_count ? (uint32_t)id + 1 : page->site_count;
}

/* Notes which of the members are absent. */
static void require(struct reading *reading, const json_t *object, const char *const *names,
                    size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!json_object_get(object, names[i]))
            reading->missing = reading->missing ? reading->missing : names[i];
}

/* These members are in reports of every version; others came later. */
static void check_whole(struct reading *reading, const json_t *root) {
    static const char *const objects[] = {"process", "counters", "interception"};
    static const char *const lists[] = {"devices", "modules", "sites"};
    static const char *const counters[] = {
        "malloc_calls", "malloc_hits",  "free_calls",      "free_kept",      "driver_allocs",
        "driver_frees", "in_use_bytes", "idle_bytes",      "waste_bytes",    "held_bytes",
        "live_blocks",  "idle_blocks",  "peak_live_bytes", "peak_held_bytes"};
    require(reading, root, objects, sizeof objects / sizeof objects[0]);
    require(reading, root, lists, sizeof lists / sizeof lists[0]);
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        const json_t *value = json_object_get(root, objects[i]);
        if (value && !json_is_object(value))
            reading->fault = reading->fault ? reading->fault : objects[i];
    }
    require(reading, json_object_get(root, "counters"), counters,
            sizeof counters / sizeof counters[0]);
}

static const char *from_json(const json_t *root, struct stats_page *page, char *why, size_t size) {
    struct reading reading = {NULL, NULL};
    const char *format = json_string_value(json_object_get(root, "format"));
    uint64_t version = number(&reading, root, "version");
    if (!format || strcmp(format, STATS_REPORT_FORMAT) != 0)
        return "not a poolcuda stats file";
    if (reading.fault || !version)
        return "a report without a version";
    if (version > STATS_REPORT_VERSION) {
        snprintf(why, size, "a report of version %llu, which only a newer poolcuda can read",
                 (unsigned long long)version);
        return why;
    }
    const json_t *runs = json_object_get(root, "runs");
    page->runs = runs ? (uint32_t)limited(&reading, runs, "runs", 1, UINT32_MAX) : 1;
    read_process(&reading, json_object_get(root, "process"), page);
    read_counters(&reading, root, page);
    read_saving(&reading, root, page);
    read_payers(&reading, root, page);
    read_bypasses(&reading, root, page);
    read_devices(&reading, root, page);
    read_modules(&reading, root, page);
    const json_t *sites = array(&reading, root, "sites", PAGE_SITES);
    for (size_t i = 0; i < json_array_size(sites); i++)
        read_site(&reading, json_array_get(sites, i), page);
    check_whole(&reading, root);
    if (!reading.fault && !reading.missing)
        return stats_page_fault(page);
    snprintf(why, size, "damaged: \"%s\" is %s", reading.fault ? reading.fault : reading.missing,
             reading.fault ? "not what it should be" : "missing");
    return why;
}

/* NULL after the reason in *error. */
static json_t *load_json(FILE *file, const char *path, char *error, size_t error_size) {
    json_error_t where;
    char why[128];
    struct stat status;
    if (fstat(fileno(file), &status) == 0 && status.st_size > LARGEST_JSON) {
        snprintf(error, error_size, "%s: larger than any report", path);
        return NULL;
    }
    json_t *root = json_loadf(file, 0, &where);
    if (!root && json_error_code(&where) == json_error_numeric_overflow) {
        snprintf(error, error_size, "%s: damaged: a number in line %d is not below 2^63", path,
                 where.line);
    } else if (!root) {
        emitter_clean(why, sizeof why, where.text);
        snprintf(error, error_size, "%s: no JSON in line %d: %s", path, where.line, why);
    }
    return root;
}

/* NULL after the reason in *error. */
static struct stats_page *page_of(const json_t *root, const char *path, char *error,
                                  size_t error_size) {
    char why[128];
    struct stats_page *fresh = stats_page_new();
    const char *wrong = fresh ? from_json(root, fresh, why, sizeof why) : "not enough memory";
    if (!wrong)
        return fresh;
    stats_page_destroy(fresh);
    snprintf(error, error_size, "%s: %s", path, wrong);
    return NULL;
}

static bool read_json(FILE *file, const char *path, struct stats_page **page, char *error,
                      size_t error_size) {
    json_t *root = load_json(file, path, error, error_size);
    *page = root ? page_of(root, path, error, error_size) : NULL;
    json_decref(root);
    return *page;
}

bool run_file_read_list(const char *path, void (*take)(struct stats_page *page, void *state),
                        void *state, char *error, size_t error_size) {
    FILE *file = fopen(path, "rbe");
    if (!file) {
        snprintf(error, error_size, "%s: %s", path, strerror(errno));
        return false;
    }
    json_t *root = load_json(file, path, error, error_size);
    bool whole = root;
    for (size_t i = 0; whole && i < json_array_size(root); i++) {
        struct stats_page *page = page_of(json_array_get(root, i), path, error, error_size);
        whole = page;
        if (page)
            take(page, state);
    }
    fclose(file);
    json_decref(root);
    return whole;
}

/* What of a JSON report is lost, its beginning tells what it was. */
static bool is_ours(const char *head, size_t length) {
    static const char format[] = "\"" STATS_REPORT_FORMAT "\"", magic[] = PAGE_MAGIC;
    if (length && (*head == '{' || *head == '['))
        return memmem(head, length, format, sizeof format - 1);
    return length >= sizeof magic - 1 && memcmp(head, magic, sizeof magic - 1) == 0;
}

enum run_file_kind run_file_read(const char *path, struct stats_page **page, char *error,
                                 size_t error_size) {
    static const char text_opening[] = "poolcuda ";
    char head[256];
    enum run_file_kind kind = RUN_FILE_OTHER;
    struct stat status;
    *page = NULL;
    /* A pipe or a device would be waited for, and can hold no report. */
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        snprintf(error, error_size, "%s: not a regular file", path);
        return RUN_FILE_OTHER;
    }
    FILE *file = fopen(path, "rbe");
    if (!file) {
        snprintf(error, error_size, "%s: %s", path, strerror(errno));
        return RUN_FILE_UNOPENED;
    }
    size_t length = fread(head, 1, sizeof head, file);
    rewind(file);
    if (length == 0) {
        snprintf(error, error_size, "%s: empty", path);
    } else if (length > 1 && memcmp(head, "\x1f\x8b", 2) == 0) {
        /* Never unpacked: a small file could fill the memory, and a report is small as it is. */
        snprintf(error, error_size, "%s: gzip-compressed, unpack it first", path);
    } else if (head[0] == '{') {
        kind = read_json(file, path, page, error, error_size) ? RUN_FILE_JSON : RUN_FILE_OTHER;
    } else if (head[0] == '[' && is_ours(head, length)) {
        kind = RUN_FILE_LIST;
    } else if (length >= sizeof text_opening && head[sizeof text_opening - 1] >= '0' &&
               head[sizeof text_opening - 1] <= '9' &&
               memcmp(head, text_opening, sizeof text_opening - 1) == 0) {
        kind = RUN_FILE_TEXT;
    } else {
        *page = stats_page_read(path, error, error_size);
        kind = *page ? RUN_FILE_PAGE : RUN_FILE_OTHER;
    }
    fclose(file);
    return kind == RUN_FILE_OTHER && is_ours(head, length) ? RUN_FILE_DAMAGED : kind;
}
