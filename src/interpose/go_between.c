#include "interpose/go_between.h"

#include "base/lock.h"
#include "interpose/function_name.h"
#include "interpose/image.h"
#include "interpose/loader.h"
#include "interpose/runtime_symbols.h"

#include <stdlib.h>
#include <string.h>

enum { PATTERN = 32, MODULES_MAX = 128, RANGES_MAX = 1 << 16 };

/* Without pointers, which would cost every program relocations at its start. */
static const struct {
    char module[PATTERN], function[PATTERN];
} table[] = {
#define GO_BETWEEN(module, function, what) {module, function},
#include "interpose/go_betweens.def"
#undef GO_BETWEEN
};
enum { ROWS = sizeof table / sizeof table[0] };

/* Functions of go-betweens, as the addresses that calls in them may return to. */
struct range {
    uintptr_t low, high;
};

/* A module that has been looked at. Invariant: ranges are in order and do not overlap. */
struct seen {
    struct module module;
    uint64_t unloads; /* loader_unloads when it was last known to be loaded */
    bool whole;       /* all of it is a go-between */
    size_t count;
    struct range *ranges;
};

static const char *skipped = ""; /* POOLCUDA_SITE_SKIP */

/* Guarded by LOCK_LOADER. */
static struct seen *modules[MODULES_MAX];

void go_between_name(const char *list) {
    skipped = list;
}

/* Whether `text`, of that length, is what the pattern, of that length, says. */
static bool matches(const char *pattern, size_t size, const char *text, size_t length) {
    const char *end = pattern + size, *text_end = text + length;
    const char *star = NULL, *retry = NULL;
    while (text < text_end) {
        if (pattern < end && *pattern == '*') {
            star = pattern++;
            retry = text;
        } else if (pattern < end && *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*')
        pattern++;
    return pattern == end;
}

/* The first `wanted` among so many bytes, NULL if there is none. Not memchr: each function of libc
 * that we ask for costs programs without CUDA a look-up at their start. */
static const char *find_byte(const char *text, size_t size, char wanted) {
    for (; size; text++, size--)
        if (*text == wanted)
            return text;
    return NULL;
}

/* A pattern with a slash is that of a whole path. */
static bool matches_module(const char *pattern, size_t size, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash && !find_byte(pattern, size, '/') ? slash + 1 : path;
    return matches(pattern, size, name, strlen(name));
}

/* One way to name go-betweens: a row of the table, or a part of POOLCUDA_SITE_SKIP. */
struct rule {
    const char *module, *function;
    size_t module_size, function_size;
};

/* The part of POOLCUDA_SITE_SKIP that begins at *text: MODULE, MODULE!FUNCTION or !FUNCTION, up to
 * a comma. Moves *text behind it. */
static struct rule next_part(const char **text) {
    const char *comma = strchr(*text, ',');
    size_t size = comma ? (size_t)(comma - *text) : strlen(*text);
    const char *mark = find_byte(*text, size, '!');
    struct rule rule = {*text, "*", size, 1};
    if (mark) {
        rule.module_size = (size_t)(mark - *text);
        rule.function = mark + 1;
        rule.function_size = size - rule.module_size - 1;
    }
    if (mark && !rule.module_size) {
        rule.module = "*";
        rule.module_size = 1;
    }
    *text += size + (comma != NULL);
    return rule;
}

/* Calls visit for each way to name go-betweens until it returns true, which is then the result. */
static bool any_rule(bool (*visit)(const struct rule *rule, const void *state), const void *state) {
    for (size_t i = 0; i < ROWS; i++) {
        struct rule rule = {table[i].module, table[i].function, strlen(table[i].module),
                            strlen(table[i].function)};
        if (visit(&rule, state))
            return true;
    }
    for (const char *text = skipped; *text;) {
        struct rule rule = next_part(&text);
        if (rule.module_size && rule.function_size && visit(&rule, state))
            return true;
    }
    return false;
}

static bool is_any(const char *pattern, size_t size) {
    return size == 1 && *pattern == '*';
}

static bool names_module(const struct rule *rule, const void *path) {
    return is_any(rule->function, rule->function_size) &&
           matches_module(rule->module, rule->module_size, path);
}

struct function {
    const char *path, *name;
};

static bool names_function(const struct rule *rule, const void *state) {
    const struct function *function = state;
    return !is_any(rule->function, rule->function_size) &&
           matches(rule->function, rule->function_size, function->name, strlen(function->name)) &&
           matches_module(rule->module, rule->module_size, function->path);
}

static void add_function(const char *symbol, uintptr_t low, uintptr_t high, void *state) {
    struct seen *seen = state;
    char name[FUNCTION_NAME_SIZE];
    function_name_read(symbol, name);
    struct function function = {seen->module.path, name};
    if (seen->count == RANGES_MAX || !any_rule(names_function, &function))
        return;
    if ((seen->count & (seen->count - 1)) == 0) { /* a power of two: as many as there is room for */
        size_t room = seen->count ? 2 * seen->count : 1;
        struct range *larger = calloc(room, sizeof *larger);
        if (!larger)
            return;
        if (seen->count)
            memcpy(larger, seen->ranges, seen->count * sizeof *larger);
        free(seen->ranges);
        seen->ranges = larger;
    }
    seen->ranges[seen->count++] = (struct range){low, high};
}

static int compare(const void *one, const void *other) {
    const struct range *a = one, *b = other;
    return a->low < b->low ? -1 : a->low > b->low;
}

/* Functions that share an address, or overlap, become one. */
static void tidy(struct seen *seen) {
    if (!seen->count)
        return;
    qsort(seen->ranges, seen->count, sizeof *seen->ranges, compare);
    size_t last = 0;
    for (size_t i = 1; i < seen->count; i++) {
        if (seen->ranges[i].low <= seen->ranges[last].high) {
            if (seen->ranges[i].high > seen->ranges[last].high)
                seen->ranges[last].high = seen->ranges[i].high;
        } else {
            seen->ranges[++last] = seen->ranges[i];
        }
    }
    seen->count = last + 1;
}

/* What a shared object exports stands in memory; a file is opened only of the program itself, which
 * exports no functions of templates. */
static void look_at(struct seen *seen) {
    seen->whole = any_rule(names_module, seen->module.path);
    if (seen->whole)
        return;
    if (seen->module.executable)
        runtime_symbols_each(&seen->module, add_function, seen);
    else
        image_functions_each(&seen->module, add_function, seen);
    tidy(seen);
}

/* The module of `address`, NULL if it is of none or of one too many. LOCK_LOADER held. */
static const struct seen *find(uintptr_t address) {
    lock_check_held(LOCK_LOADER);
    uint64_t unloads = atomic_load(&loader_unloads);
    size_t slot = 0;
    for (; slot < MODULES_MAX && modules[slot]; slot++) {
        struct seen *seen = modules[slot];
        if (address < seen->module.text_low || address >= seen->module.text_high)
            continue;
        if (seen->unloads == unloads)
            return seen;
        struct module now;
        if (modules_find(address, &now) && now.base == seen->module.base &&
            strcmp(now.path, seen->module.path) == 0) {
            seen->unloads = unloads;
            return seen;
        }
        break; /* another one is there now: its place is taken */
    }
    if (slot == MODULES_MAX)
        return NULL;
    struct seen *seen = modules[slot] ? modules[slot] : calloc(1, sizeof *seen);
    if (!seen)
        return NULL;
    free(seen->ranges);
    *seen = (struct seen){.unloads = unloads};
    if (!modules_find(address, &seen->module)) {
        seen->module = (struct module){0}; /* holds no address: to be filled later */
        modules[slot] = seen;
        return NULL;
    }
    look_at(seen);
    modules[slot] = seen;
    return seen;
}

/* Whether the call that returns to this address, which is in that module, is the one by which
 * libffi calls others. It is known by the instructions behind it, which have been the same for
 * years, as many programs have libffi inside, without a name: interpreters that are handed out for
 * any system, for one. */
static bool is_libffi(const struct seen *seen, uintptr_t address) {
#if defined(__x86_64__)
    static const unsigned char behind[] = {0x48, 0x8d, 0x65, 0x18, 0x48, 0x8b, 0x4d, 0x00,
                                           0x48, 0x8b, 0x7d, 0x08, 0x48, 0x8b, 0x6d, 0x10};
    return seen->module.text_high - address >= sizeof behind &&
           memcmp((const void *)address, behind, sizeof behind) == 0;
#else
    (void)seen, (void)address;
    return false;
#endif
}

bool go_between_contains(uintptr_t address) {
    lock_check_held(LOCK_LOADER);
    const struct seen *seen = find(address);
    if (!seen || seen->whole || is_libffi(seen, address))
        return seen != NULL;
    size_t low = 0, high = seen->count;
    while (low < high) { /* the first range that ends at the address or behind it */
        size_t middle = low + (high - low) / 2;
        if (seen->ranges[middle].high < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < seen->count && address > seen->ranges[low].low;
}

bool go_between_shares_module(uintptr_t address) {
    lock_check_held(LOCK_LOADER);
    const struct seen *seen = find(address);
    return seen && (seen->whole || seen->count || is_libffi(seen, address));
}
