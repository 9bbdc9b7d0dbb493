/* The tables of the process's own page: routes, reasons of waits; and those that name what they
 * count: modules, tags, calls that pay for waits, and ways past us. */
#include "counters/own_page_parts.h"

#include "base/by_pointer.h"
#include "base/lock.h"
#include "base/modules.h"

#include <string.h>

static void copy_text(char *to, size_t size, const char *from) {
    size_t length = strlen(from);
    if (length >= size) { /* the end of a path says more than its beginning */
        from += length - (size - 1);
        length = size - 1;
    }
    memcpy(to, from, length);
    to[length] = '\0';
}

void stats_route(enum stats_route route) {
    if (own_page)
        atomic_fetch_add_explicit(&own_page->routes[route], 1, memory_order_relaxed);
}

void stats_wait(enum wait_reason reason) {
    if (own_page)
        atomic_fetch_add_explicit(&own_page->waits[reason], 1, memory_order_relaxed);
}

void stats_payer(const char *call) {
    lock_check_held(LOCK_POOL);
    if (!own_page)
        return;
    uint32_t i = 0;
    while (i < own_use.payers && strcmp(own_page->payers[i].name, call) != 0)
        i++;
    if (i == PAGE_PAYERS)
        i--;
    if (i == own_use.payers) {
        copy_text(own_page->payers[i].name, sizeof own_page->payers[i].name,
                  i == PAGE_PAYERS - 1 ? "(others)" : call);
        own_page->payer_count = ++own_use.payers;
    }
    atomic_fetch_add_explicit(&own_page->payers[i].count, 1, memory_order_relaxed);
}

uint32_t own_page_module(uintptr_t address, uint64_t *offset) {
    struct module module;
    char name[PAGE_MODULE_NAME];
    if (!modules_find(address, &module))
        return 0;
    *offset = address - module.base;
    copy_text(name, sizeof name, module.path);
    for (uint32_t i = 1; i < own_use.modules; i++)
        if (strcmp(own_page->modules[i].path, name) == 0)
            return i;
    struct stats_module *entry = &own_page->modules[own_use.modules];
    if (own_use.modules == PAGE_MODULES) {
        *offset = address;
        return 0;
    }
    memcpy(entry->path, name, strlen(name) + 1);
    entry->build_id_size =
        (uint8_t)modules_build_id(&module, entry->build_id, sizeof entry->build_id);
    own_page->module_count = ++own_use.modules;
    return own_use.modules - 1;
}

uint32_t own_page_tag(const char *name) {
    if (own_use.tags == PAGE_TAGS)
        return 0;
    copy_text(own_page->tags[own_use.tags], PAGE_TAG, name);
    own_page->tag_count = ++own_use.tags;
    return own_use.tags;
}

BY_POINTER void stats_bypass(const char *module, const char *name) {
    if (!own_page || own_use.bypasses == PAGE_BYPASSES)
        return;
    uint32_t index = own_use.bypasses;
    copy_text(own_page->bypasses[index].module, sizeof own_page->bypasses[index].module, module);
    copy_text(own_page->bypasses[index].name, sizeof own_page->bypasses[index].name, name);
    own_page->bypass_count = ++own_use.bypasses;
}
