#include "interpose/surroundings.h"

#include "base/format.h"
#include "base/modules.h"
#include "counters/own_page.h"
#include "interpose/bypass.h"
#include "interpose/hooks.h"
#include "interpose/image.h"
#include "interpose/loader.h"
#include "interpose/own_object.h"
#include "tools.h"

#include <link.h>
#include <stdatomic.h>
#include <string.h>

static bool visit_for_tools(const struct module *module, void *state) {
    tools_look(module->path, state);
    return true;
}

static struct tools_found find_tools(char *const *environment) {
    struct tools_found found = {{false}};
    tools_look_environment(environment, &found);
    modules_each(visit_for_tools, &found);
    return found;
}

const char *surroundings_memory_checker(char *const *environment) {
    struct tools_found found = find_tools(environment);
    return tools_memory_checker(&found);
}

/* Who stands between the pool and the driver. */
static void note_between(void) {
    for (int i = 0; i < HOOKS; i++) {
        char module[128], line[sizeof module + 40];
        if (!real_own[i] || real_entries[i] == real_own[i])
            continue;
        modules_name((uintptr_t)real_entries[i], module, sizeof module);
        format(line, sizeof line, "%s (the pool calls the driver through it)", module);
        stats_tool(line);
    }
}

void surroundings_note_tools(char *const *environment) {
    struct tools_found found = find_tools(environment);
    for (size_t i = 0; i < TOOLS; i++)
        if (found.found[i])
            stats_tool(tools_name(i));
    note_between();
}

static bool visit_for_libraries(const struct module *module, void *state) {
    if (tools_is_direct_library(module->path))
        *(bool *)state = true;
    return true;
}

/* The loader's own count of modules ever loaded: the first module tells. */
static int read_loads(struct dl_phdr_info *info, size_t size, void *state) {
    if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof info->dlpi_adds)
        *(unsigned long long *)state = info->dlpi_adds;
    return 1;
}

/* Whether we come before the driver, and before whoever else defines dlsym. */
struct order {
    uintptr_t driver;
    bool ours;
};

static bool visit_for_order(const struct module *module, void *state) {
    struct order *order = state;
    order->ours = own_object_contains(module->text_low);
    bool driver = order->driver >= module->text_low && order->driver < module->text_high;
    return !order->ours && !driver && !image_find_function(module, "dlsym", NULL);
}

static bool is_hooked(void) {
    struct order order = {0};
    if (real_load()) /* one that is loaded later comes behind us */
        order.driver = (uintptr_t)real_own[HOOK_cuMemAlloc_v2];
    modules_each(visit_for_order, &order); /* in the order of the search */
    return order.ours;
}

bool surroundings_hooked(void) {
    static atomic_int known; /* 0: not yet, else 1 + the answer */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (!answer) {
        answer = 1 + is_hooked();
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

_Atomic uint64_t surroundings_seen;

static atomic_uint looks; /* since something new was seen */

/* Nothing new is to be seen. A call of dlopen that is under way may still bring it, or more of it,
 * as modules come one by one: so we look a number of times before it is taken to be over. */
static void note_nothing(uint64_t opens) {
    enum { LOOKS = 64 };
    if (!surroundings_change() || atomic_fetch_add(&looks, 1) < LOOKS)
        return;
    atomic_store(&looks, 0);
    atomic_store(&surroundings_seen, opens);
}

void surroundings_look(struct pool *pool) {
    static _Atomic unsigned long long seen;
    unsigned long long loads = 0;
    uint64_t opens = loader_opens;
    bool direct = false;
    modules_iterate(read_loads, &loads);
    if (loads == atomic_load_explicit(&seen, memory_order_acquire)) {
        note_nothing(opens);
        return;
    }
    modules_each(visit_for_libraries, &direct);
    if (direct)
        pool_reason_stays(pool, WAIT_REASON_library);
    if (loader_deep || bypass_exists() || !surroundings_hooked())
        pool_reason_stays(pool, WAIT_REASON_bypass);
    atomic_store_explicit(&seen, loads, memory_order_release);
    atomic_store(&looks, 0);
}
