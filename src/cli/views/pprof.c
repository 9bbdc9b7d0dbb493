/* pprof's profile.proto, compressed by gzip as its readers expect:
 * https://github.com/google/pprof/blob/main/proto/profile.proto
 *
 * Addresses are made up, as the page has offsets in modules only: each module is a mapping of
 * MAPPING_SIZE bytes, at its index times that. */
#include "cli/gzip.h"
#include "cli/views/protobuf.h"
#include "cli/views/stack.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define MAPPING_SIZE ((uint64_t)1 << 40)

/* The numbers of the fields in profile.proto. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING_TABLE,
    PROFILE_TIME_NANOS = 9,
    PROFILE_DURATION_NANOS,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_SAMPLE_TYPE
};
enum { VALUE_TYPE = 1, VALUE_UNIT };
enum { SAMPLE_LOCATION_ID = 1, SAMPLE_VALUE };
enum {
    MAPPING_ID = 1,
    MAPPING_START,
    MAPPING_LIMIT,
    MAPPING_OFFSET,
    MAPPING_FILENAME,
    MAPPING_BUILD_ID,
    MAPPING_HAS_FUNCTIONS,
    MAPPING_HAS_FILENAMES,
    MAPPING_HAS_LINE_NUMBERS,
    MAPPING_HAS_INLINE_FRAMES
};
enum { LOCATION_ID = 1, LOCATION_MAPPING_ID, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION_ID = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILENAME };

/* Something that has been given a number, by the bytes that identify it. */
struct entry {
    UT_hash_handle hh;
    uint64_t number;
    char key[];
};

/* Invariant: mapped[m] says that module m of the page is among the mappings, under the id m. */
struct profile {
    struct protobuf message;
    struct entry *strings, *functions, *locations;
    const struct stats_page *page;
    bool mapped[PAGE_MODULES];
};

/* Finds the key's number or gives it the next one, `first` being the first. */
static uint64_t number_of(struct profile *profile, struct entry **entries, const void *key,
                          size_t size, uint64_t first, bool *fresh) {
    struct entry *entry;
    HASH_FIND(hh, *entries, key, size, entry);
    *fresh = !entry;
    if (entry)
        return entry->number;
    entry = calloc(1, sizeof *entry + size);
    if (!entry) {
        profile->message.short_of_memory = true;
        *fresh = false;
        return first;
    }
    memcpy(entry->key, key, size);
    entry->number = HASH_COUNT(*entries) + first;
    HASH_ADD_KEYPTR(hh, *entries, entry->key, size, entry);
    return entry->number;
}

/* Protocol buffers' texts are UTF-8, which names of files need not be. */
static uint64_t string(struct profile *profile, const char *text) {
    char clean[4096 + 1];
    size_t length = strnlen(text, sizeof clean - 1);
    for (size_t i = 0; i < length; i++)
        clean[i] = (unsigned char)text[i] < 0x80 && (unsigned char)text[i] >= ' ' ? text[i] : '?';
    bool fresh;
    uint64_t number = number_of(profile, &profile->strings, clean, length, 0, &fresh);
    if (fresh)
        protobuf_text(&profile->message, PROFILE_STRING_TABLE, clean, length);
    return number;
}

static void add_value_type(struct profile *profile, const char *type, const char *unit) {
    struct protobuf value = {0};
    protobuf_number(&value, VALUE_TYPE, string(profile, type));
    protobuf_number(&value, VALUE_UNIT, string(profile, unit));
    protobuf_message(&profile->message, PROFILE_SAMPLE_TYPE, &value);
}

static uint64_t function_id(struct profile *profile, const struct stack_frame *frame) {
    uint64_t key[2] = {string(profile, frame->function),
                       string(profile, frame->file ? frame->file : "")};
    bool fresh;
    uint64_t id = number_of(profile, &profile->functions, key, sizeof key, 1, &fresh);
    if (!fresh)
        return id;
    struct protobuf function = {0};
    protobuf_number(&function, FUNCTION_ID, id);
    protobuf_number(&function, FUNCTION_NAME, key[0]);
    protobuf_number(&function, FUNCTION_SYSTEM_NAME, key[0]);
    protobuf_number(&function, FUNCTION_FILENAME, key[1]);
    protobuf_message(&profile->message, PROFILE_FUNCTION, &function);
    return id;
}

/* One for all that a place stands for: the functions inlined there are its lines, innermost first.
 */
static uint64_t location_id(struct profile *profile, const struct stack_frame *frames,
                            size_t count) {
    uint64_t tag = frames[0].module ? 0 : string(profile, frames[0].function);
    uint64_t key[3] = {frames[0].module, frames[0].offset, tag};
    bool fresh;
    uint64_t id = number_of(profile, &profile->locations, key, sizeof key, 1, &fresh);
    if (!fresh)
        return id;
    struct protobuf location = {0};
    protobuf_number(&location, LOCATION_ID, id);
    if (frames[0].module) {
        profile->mapped[frames[0].module] = true;
        protobuf_number(&location, LOCATION_MAPPING_ID, frames[0].module);
        /* As pprof's own: an address in the call, where the page has the one behind it. */
        protobuf_number(&location, LOCATION_ADDRESS,
                        frames[0].module * MAPPING_SIZE + (frames[0].offset - 1) % MAPPING_SIZE);
    }
    for (size_t i = count; i > 0; i--) {
        struct protobuf line = {0};
        protobuf_number(&line, LINE_FUNCTION_ID, function_id(profile, &frames[i - 1]));
        protobuf_number(&line, LINE_LINE, frames[i - 1].line);
        protobuf_message(&location, LOCATION_LINE, &line);
    }
    protobuf_message(&profile->message, PROFILE_LOCATION, &location);
    return id;
}

static void add_sample(struct profile *profile, const struct stats_site *site,
                       const struct stack *stack) {
    uint64_t locations[CALL_SITE_MAX_DEPTH * STACK_INLINED];
    size_t count = 0;
    for (size_t end = stack->count; end > 0;) {
        size_t begin = end - 1;
        while (begin > 0 && stack->frames[begin - 1].caller)
            begin--;
        locations[count++] = location_id(profile, &stack->frames[begin], end - begin);
        end = begin;
    }
    const uint64_t values[] = {
        stack_weight(site, VIEW_WEIGHT_allocations),
        stack_weight(site, VIEW_WEIGHT_bytes),
        site->live_blocks,
        stack_weight(site, VIEW_WEIGHT_live),
        stack_weight(site, VIEW_WEIGHT_peak),
    };
    struct protobuf sample = {0};
    protobuf_numbers(&sample, SAMPLE_LOCATION_ID, locations, count);
    protobuf_numbers(&sample, SAMPLE_VALUE, values, sizeof values / sizeof values[0]);
    protobuf_message(&profile->message, PROFILE_SAMPLE, &sample);
}

static void add_mapping(struct profile *profile, uint32_t index) {
    const struct stats_module *module = &profile->page->modules[index];
    char id[2 * PAGE_BUILD_ID + 1] = "";
    for (size_t b = 0; b < module->build_id_size && b < PAGE_BUILD_ID; b++)
        snprintf(id + 2 * b, 3, "%02x", module->build_id[b]);
    struct protobuf mapping = {0};
    protobuf_number(&mapping, MAPPING_ID, index);
    protobuf_number(&mapping, MAPPING_START, index * MAPPING_SIZE);
    protobuf_number(&mapping, MAPPING_LIMIT, (index + 1) * MAPPING_SIZE);
    protobuf_number(&mapping, MAPPING_FILENAME, string(profile, module->path));
    protobuf_number(&mapping, MAPPING_BUILD_ID, string(profile, id));
    for (unsigned has = MAPPING_HAS_FUNCTIONS; has <= MAPPING_HAS_INLINE_FRAMES; has++)
        protobuf_number(&mapping, has, 1); /* or pprof would look for them at made-up addresses */
    protobuf_message(&profile->message, PROFILE_MAPPING, &mapping);
}

static void fill(struct profile *profile, const struct view_input *input,
                 const struct stats_site **sites, size_t count, struct stack *stack) {
    static const char *const defaults[VIEW_WEIGHT_COUNT] = {
        [VIEW_WEIGHT_bytes] = "alloc_space",
        [VIEW_WEIGHT_allocations] = "alloc_objects",
        [VIEW_WEIGHT_peak] = "peak_space",
        [VIEW_WEIGHT_live] = "inuse_space",
    };
    char comment[PAGE_COMMAND + 64];
    string(profile, ""); /* must be the first */
    add_value_type(profile, "alloc_objects", "count");
    add_value_type(profile, "alloc_space", "bytes");
    add_value_type(profile, "inuse_objects", "count");
    add_value_type(profile, "inuse_space", "bytes");
    add_value_type(profile, "peak_space", "bytes");
    for (size_t i = 0; i < count; i++) {
        stack_of_site(stack, input, profile->page, sites[i]);
        add_sample(profile, sites[i], stack);
    }
    for (uint32_t m = 1; m < PAGE_MODULES; m++)
        if (profile->mapped[m])
            add_mapping(profile, m);
    snprintf(comment, sizeof comment, "device memory of %s, by poolcuda " POOLCUDA_VERSION,
             profile->page->command);
    uint64_t comments[] = {string(profile, comment)};
    protobuf_numbers(&profile->message, PROFILE_COMMENT, comments, 1);
    protobuf_number(&profile->message, PROFILE_TIME_NANOS, profile->page->start_wall_ns);
    protobuf_number(&profile->message, PROFILE_DURATION_NANOS, profile->page->last_ns);
    protobuf_number(&profile->message, PROFILE_DEFAULT_SAMPLE_TYPE,
                    string(profile, defaults[input->weight]));
}

static void free_entries(struct entry *entries) {
    struct entry *entry, *next;
    HASH_ITER (hh, entries, entry, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DEL(entries, entry);
        free(entry);
    }
}

bool view_pprof(FILE *file, const struct view_input *input) {
    struct profile *profile = calloc(1, sizeof *profile);
    struct stack *stack = malloc(sizeof *stack);
    size_t count;
    const struct stats_site **sites = stack_sites(input->merged, &count);
    bool done = profile && stack && sites;
    if (done) {
        profile->page = input->merged;
        fill(profile, input, sites, count, stack);
        done = !profile->message.short_of_memory &&
               gzip_write(file, profile->message.bytes, profile->message.size);
        free_entries(profile->strings);
        free_entries(profile->functions);
        free_entries(profile->locations);
        protobuf_free(&profile->message);
    }
    free(profile);
    free(stack);
    free(sites);
    return done;
}
