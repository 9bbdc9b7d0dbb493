#include "cli/symbols.h"

#include "cli/symbol_child.h"
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct place {
    uint64_t offset;
    struct symbol *symbols;
    size_t count;
    UT_hash_handle hh;
};

/* Invariant: every place that was asked for is among the places, known or not. */
struct known_module {
    struct stats_module key; /* zeros behind its path's end: it is compared as bytes */
    struct place *places;
    enum symbol_file_state state;
    UT_hash_handle hh;
};

struct symbols {
    const char *debug_folder;
    struct known_module *modules;
    char **notes;
    size_t note_count;
};

/* A missing piece of memory costs a name, nothing else. */
#undef uthash_nonfatal_oom
#define uthash_nonfatal_oom(element) ((void)(element))

struct symbols *symbols_open(const char *debug_folder) {
    struct symbols *symbols = calloc(1, sizeof *symbols);
    if (symbols)
        symbols->debug_folder = debug_folder;
    return symbols;
}

static void free_place(struct place *place) {
    for (size_t i = 0; i < place->count; i++) {
        free((char *)(uintptr_t)place->symbols[i].function);
        free((char *)(uintptr_t)place->symbols[i].file);
    }
    free(place->symbols);
    free(place);
}

void symbols_close(struct symbols *symbols) {
    if (!symbols)
        return;
    struct known_module *module, *next_module;
    HASH_ITER (hh, symbols->modules, module, next_module) {
        struct place *place, *next_place;
        HASH_ITER (hh, module->places, place, next_place) {
            // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
            HASH_DEL(module->places, place);
            free_place(place);
        }
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DEL(symbols->modules, module);
        free(module);
    }
    for (size_t i = 0; i < symbols->note_count; i++)
        free(symbols->notes[i]);
    free(symbols->notes);
    free(symbols);
}

static void note(struct symbols *symbols, const char *path, const char *what) {
    char **notes = realloc(symbols->notes, (symbols->note_count + 1) * sizeof *notes);
    if (!notes)
        return;
    symbols->notes = notes;
    if (asprintf(&notes[symbols->note_count], "%s: %s; its places are named as module+offset", path,
                 what) >= 0)
        symbols->note_count++;
}

const char *const *symbols_notes(const struct symbols *symbols, size_t *count) {
    *count = symbols ? symbols->note_count : 0;
    return symbols ? (const char *const *)symbols->notes : NULL;
}

static struct known_module *module_of(struct symbols *symbols, const struct stats_module *wanted) {
    struct stats_module key = {.build_id_size = wanted->build_id_size};
    memcpy(key.path, wanted->path, strlen(wanted->path));
    memcpy(key.build_id, wanted->build_id, wanted->build_id_size);
    struct known_module *module;
    HASH_FIND(hh, symbols->modules, &key, sizeof key, module);
    if (module)
        return module;
    module = calloc(1, sizeof *module);
    if (!module)
        return NULL;
    module->key = key;
    HASH_ADD(hh, symbols->modules, key, sizeof key, module);
    return module;
}

static struct place *place_of(const struct known_module *module, uint64_t offset) {
    struct place *place;
    HASH_FIND(hh, module->places, &offset, sizeof offset, place);
    return place;
}

/* Returns whether the place is a new one. */
static bool add_place(struct known_module *module, uint64_t offset) {
    struct place *place = place_of(module, offset) ? NULL : calloc(1, sizeof *place);
    if (!place)
        return false;
    place->offset = offset;
    HASH_ADD(hh, module->places, offset, sizeof offset, place);
    return true;
}

struct filling {
    struct known_module *module;
    const uint64_t *offsets;
};

static void fill(size_t index, const struct symbol *found, void *state) {
    struct filling *filling = state;
    struct place *place = place_of(filling->module, filling->offsets[index]);
    struct symbol *symbols =
        place ? realloc(place->symbols, (place->count + 1) * sizeof *symbols) : NULL;
    if (!symbols)
        return;
    place->symbols = symbols;
    struct symbol *symbol = &symbols[place->count];
    *symbol = (struct symbol){strdup(found->function), found->file ? strdup(found->file) : NULL,
                              found->line, found->into};
    if (symbol->function && (symbol->file || !found->file))
        place->count++;
    else
        free((char *)(uintptr_t)symbol->function);
}

/* Looks up this place and all others of the page's sites that lie in the module. */
static void load(struct symbols *symbols, struct known_module *module,
                 const struct stats_page *page, uint32_t index, uint64_t offset) {
    size_t count = 0, room = 1 + (size_t)page->site_count * CALL_SITE_MAX_DEPTH;
    uint64_t *offsets = calloc(room, sizeof *offsets);
    if (!offsets)
        return;
    if (add_place(module, offset))
        offsets[count++] = offset;
    for (uint32_t s = 0; s < page->site_count; s++)
        for (uint32_t d = 0; !page->sites[s].tag && d < page->sites[s].depth; d++)
            if (page->sites[s].module[d] == index && add_place(module, page->sites[s].offset[d]))
                offsets[count++] = page->sites[s].offset[d];
    const struct symbol_module wanted = {
        .path = module->key.path,
        .build_id = module->key.build_id,
        .build_id_size = module->key.build_id_size,
        .run_start_ns = page->start_wall_ns,
        .debug_folder = symbols->debug_folder,
    };
    enum symbol_file_state before = module->state;
    module->state =
        symbol_child_find(&wanted, offsets, count, fill, &(struct filling){module, offsets});
    if (module->state != before && module->state == SYMBOL_FILE_CHANGED)
        note(symbols, module->key.path, "changed since the run");
    if (module->state != before && module->state == SYMBOL_FILE_DAMAGED)
        note(symbols, module->key.path, "damaged, or too large to be read");
    free(offsets);
}

struct symbol_place symbols_find(struct symbols *symbols, const struct stats_page *page,
                                 uint32_t module, uint64_t offset) {
    const struct symbol_place unknown = {0};
    if (!symbols || module >= page->module_count || !*page->modules[module].path)
        return unknown;
    struct known_module *known = module_of(symbols, &page->modules[module]);
    if (!known)
        return unknown;
    if (!place_of(known, offset) && known->state == SYMBOL_FILE_FOUND)
        load(symbols, known, page, module, offset);
    const struct place *place = place_of(known, offset);
    return place ? (struct symbol_place){place->symbols, place->count} : unknown;
}

static bool name_place(const struct stats_page *page, uint32_t module, uint64_t offset, char *text,
                       size_t size, void *state) {
    struct symbol_place place = symbols_find(state, page, module, offset);
    if (!place.count)
        return false;
    const struct symbol *symbol = place.symbols;
    const char *whole = symbol->file ? symbol->file : page->modules[module].path;
    const char *slash = strrchr(whole, '/'), *file = slash ? slash + 1 : whole;
    if (symbol->file)
        snprintf(text, size, "%s (%s:%u)", symbol->function, file, symbol->line);
    else
        snprintf(text, size, "%s+0x%llx (%s)", symbol->function, (unsigned long long)symbol->into,
                 file);
    return true;
}

struct stats_names symbols_names(struct symbols *symbols) {
    return (struct stats_names){name_place, symbols};
}
