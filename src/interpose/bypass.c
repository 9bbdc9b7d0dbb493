#include "interpose/bypass.h"

#include "base/modules.h"
#include "counters/own_page.h"
#include "counters/stats.h"
#include "interpose/image.h"
#include "interpose/own_object.h"
#include "interpose/real_entries.h"

#include <string.h>

static const char watched[][20] = {
    "dlsym", "cuGetProcAddress", "cuGetProcAddress_v2", "cuMemAlloc_v2", "cuMemFree_v2",
};

/* A function that the loader finds behind ours. */
struct next {
    const char *name;
    bool past;
    uintptr_t address;
};

static bool visit_for_next(const struct module *module, void *state) {
    struct next *next = state;
    if (next->past)
        next->address = image_find_function(module, next->name, NULL);
    next->past = next->past || own_object_contains(module->text_low);
    return !next->address;
}

/* The functions that those names denote past us. */
static uintptr_t past_us(const char *name) {
    struct next next = {.name = name};
    if (strcmp(name, "dlsym") != 0)
        return (uintptr_t)real_find_own(name);
    modules_each(visit_for_next, &next); /* in the order of the search */
    return next.address;
}

struct targets {
    uintptr_t addresses[sizeof watched / sizeof watched[0]];
    void (*found)(const char *module, const char *name);
    bool any;
};

static bool visit(const struct module *module, void *state) {
    struct targets *targets = state;
    if (own_object_contains(module->text_low))
        return true;
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) {
        uintptr_t bound = image_import_slot(module, watched[i]);
        if (bound && bound == targets->addresses[i]) {
            targets->any = true;
            if (targets->found)
                targets->found(module->path, watched[i]);
            return true;
        }
    }
    return true;
}

static bool look(void (*found)(const char *module, const char *name)) {
    struct targets targets = {.found = found};
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++)
        targets.addresses[i] = past_us(watched[i]);
    modules_each(visit, &targets);
    return targets.any;
}

void bypass_report(void) {
    look(stats_bypass);
}

bool bypass_exists(void) {
    return look(NULL);
}
