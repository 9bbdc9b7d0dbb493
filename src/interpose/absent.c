#include "interpose/absent.h"

#include "base/format.h"
#include "base/modules.h"
#include "interpose/image.h"
#include "interpose/loader.h"
#include "interpose/own_object.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

static char *const *arguments;

void absent_take(char *const *argv) {
    arguments = argv;
}

/* Begins the name of a look-up that is made for its error alone. No symbol's name has such letters.
 * What follows is the native error. */
static const char mark[] = "\001poolcuda\001";

/* The loader words its error itself, with the name that it was asked for. So it is asked for the
 * text that the program is to see, and our dlerror cuts off what comes before. What has become of
 * the error then is the C library's affair: each later call of its functions forgets it. */
static void fail(const char *asker, const char *name) {
    char wanted[1280];
    format(wanted, sizeof wanted, "%s%s: undefined symbol: %s", mark,
           *asker || !arguments || !arguments[0] ? asker : arguments[0], name);
    loader_fail(wanted);
}

__attribute__((visibility("default"))) char *dlerror(void) {
    loader_dlerror_function *real = loader_find_dlerror();
    char *text = real ? real() : NULL, *marked = text ? strstr(text, mark) : NULL;
    return marked ? marked + sizeof mark - 1 : text;
}

static bool is_own(const void *address) {
    return own_object_contains((uintptr_t)address);
}

struct search {
    const char *name;
    bool found;
};

static bool visit_for_name(const struct module *module, void *state) {
    struct search *search = state;
    search->found = !own_object_contains(module->text_low) &&
                    (image_find_function(module, search->name, NULL) ||
                     image_find_object(module, search->name));
    return !search->found;
}

/* Whether any other module defines the name, wherever it is visible. */
static bool is_somewhere(const char *name) {
    struct search search = {.name = name};
    modules_each(visit_for_name, &search);
    return search.found;
}

bool absent_from_handle(void *handle, const char *name) {
    const struct link_map *map = handle;
    if (is_own(map->l_ld)) /* the program has opened this very library */
        return false;
    bool whole_program = !*map->l_name;
    if (whole_program ? loader_find(RTLD_NEXT, name) != NULL : is_somewhere(name))
        return false;
    fail(map->l_name, name);
    return true;
}

struct place {
    uintptr_t address;
    bool before_us;
};

static bool visit_for_place(const struct module *module, void *state) {
    struct place *place = state;
    place->before_us = place->address >= module->text_low && place->address < module->text_high;
    return !place->before_us && !own_object_contains(module->text_low);
}

/* Whether the code comes before us in the order of symbols: the program, or another tool. */
static bool is_before_us(uintptr_t address) {
    struct place place = {.address = address};
    modules_each(visit_for_place, &place);
    return place.before_us;
}

bool absent_from_scope(void *handle, const char *name, uintptr_t caller) {
    struct module module;
    if (!is_own(loader_find_first(name)) || loader_find(RTLD_NEXT, name))
        return false;
    if (!modules_find(caller, &module))
        return false;
    /* What is behind us does not see us. What was opened later may see modules that others do not.
     */
    if (handle == RTLD_NEXT ? !is_before_us(caller) : !module.executable && is_somewhere(name))
        return false;
    fail(module.executable ? "" : module.path, name);
    return true;
}
