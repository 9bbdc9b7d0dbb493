#include "interpose/symbol_order.h"

#include "base/modules.h"
#include "interpose/entry_points.h"
#include "interpose/image.h"
#include "interpose/own_object.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The modules behind us, in order, of those that the process started with: these stay loaded. Made
 * once and never freed. */
struct order {
    size_t count, visited, room;
    bool past_us;
    struct behind {
        struct image image;
        uintptr_t text_low, text_high;
        _Atomic enum { UNSEEN, NO_HOOKS, HOOKS_OF_ITS_OWN } hooks;
    } modules[];
};
static _Atomic(struct order *) known;
static size_t loaded_at_start;

/* The loader lists the modules in the order of the search, and counts those that it has loaded. */
static int read_loads(struct dl_phdr_info *info, size_t size, void *state) {
    if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof info->dlpi_adds)
        *(size_t *)state = (size_t)info->dlpi_adds;
    return 1;
}

void symbol_order_begin(void) {
    dl_iterate_phdr(read_loads, &loaded_at_start); /* no thread forks yet */
}

static bool visit(const struct module *module, void *state) {
    struct order *order = state;
    if (order->past_us && order->count < order->room) {
        struct behind *behind = &order->modules[order->count++];
        image_open(module, &behind->image);
        behind->text_low = module->text_low;
        behind->text_high = module->text_high;
    }
    order->past_us = order->past_us || own_object_contains(module->text_low);
    return ++order->visited < loaded_at_start;
}

static struct order *find_order(void) {
    struct order *order = atomic_load_explicit(&known, memory_order_acquire), *none = NULL;
    if (order)
        return order;
    order = calloc(1, sizeof *order + loaded_at_start * sizeof *order->modules);
    if (!order)
        return NULL;
    order->room = loaded_at_start;
    if (order->room)
        modules_each(visit, order);
    if (atomic_compare_exchange_strong(&known, &none, order))
        return order;
    free(order); /* another thread has made the same */
    return none;
}

static bool has(const struct image *image, const char *name) {
    return image_find(image, name, image_hash(name), NULL) != 0;
}

static const struct image *find_next(const char *name, uintptr_t *address) {
    const struct order *order = find_order();
    uint32_t hash = image_hash(name);
    for (size_t i = 0; order && i < order->count; i++)
        if ((*address = image_find(&order->modules[i].image, name, hash, NULL)))
            return &order->modules[i].image;
    return NULL;
}

uintptr_t symbol_order_next(const char *name, bool *has_dlsym) {
    uintptr_t address = 0;
    const struct image *next = find_next(name, &address);
    *has_dlsym = next && has(next, "dlsym");
    return address;
}

bool symbol_order_has(uintptr_t base) {
    const struct order *order = find_order();
    for (size_t i = 0; order && i < order->count; i++)
        if (order->modules[i].image.base == base)
            return true;
    return false;
}

bool symbol_order_has_other_dlsym(void) {
    uintptr_t address = 0;
    const struct image *next = find_next("dlsym", &address);
    return next && strcmp(next->soname, "libc.so.6") != 0 &&
           strcmp(next->soname, "libdl.so.2") != 0;
}

static bool has_hooks(const struct image *image) {
    bool found = has(image, "dlsym");
    for (unsigned i = 0; i < ENTRIES && !found; i++)
        found = has(image, entry_name(i));
    return found;
}

bool symbol_order_may_hook(uintptr_t address) {
    struct order *order = find_order();
    struct behind *behind = order ? order->modules : NULL;
    size_t left = order ? order->count : 0;
    for (; left && (address < behind->text_low || address >= behind->text_high); left--)
        behind++;
    if (!left)
        return false;
    if (atomic_load(&behind->hooks) == UNSEEN)
        atomic_store(&behind->hooks, has_hooks(&behind->image) ? HOOKS_OF_ITS_OWN : NO_HOOKS);
    return atomic_load(&behind->hooks) == HOOKS_OF_ITS_OWN;
}
