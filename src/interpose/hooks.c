#include "interpose/hooks.h"

#include "interpose/assembly.h"
#include "interpose/stubs.h"

#include <stdatomic.h>
#include <string.h>

/* Where entry.S has them, by the linker's name for the beginning of a section. */
extern const char hook_entries[] __asm__("__start_hook_entries")
    __attribute__((visibility("hidden")));

/* Names stand in the table itself: a pointer to each would cost every program at its start. */
enum { NAME_SIZE = 40 };
static const struct {
    char symbol[NAME_SIZE], base[NAME_SIZE];
    int since;
    bool per_thread;
} hook_table[HOOKS] = {
#define HOOK(name, base, since, per_thread, parameters)                                            \
    [HOOK_##name] = {#name, base, since, per_thread},
#include "interpose/hooks.def"
#undef HOOK
};

/* What the driver's cuGetProcAddress answers for each row, where that differs from its exported
 * symbol: a form is recognised by its address, never guessed from a version number. */
static void *listed[HOOKS];

static atomic_bool listed_ready;

static void *replacement(int row) {
    return (void *)(uintptr_t)(hook_entries + (size_t)row * HOOK_ENTRY_SIZE);
}

static bool is_real(int row, const void *found) {
    return found && (found == real_entries[row] || found == real_own[row]);
}

void *hooks_replace_symbol(const char *name, void *found) {
    for (int i = 0; i < HOOKS; i++)
        if (strcmp(name, hook_table[i].symbol) == 0)
            return real_load() && is_real(i, found) ? replacement(i) : found;
    return stubs_replace_symbol(name, found);
}

static void list_entries(void) {
    for (int i = 0; i < HOOKS; i++)
        if (real_entries[i])
            __atomic_store_n(
                &listed[i],
                real_ask(hook_table[i].base, hook_table[i].since, hook_table[i].per_thread),
                __ATOMIC_RELAXED);
    atomic_store_explicit(&listed_ready, true, memory_order_release);
}

void *hooks_replace_base(const char *base, void *found, bool per_thread) {
    bool ours = false;
    for (int i = 0; i < HOOKS && !ours; i++)
        ours = strcmp(base, hook_table[i].base) == 0;
    if (!ours)
        return stubs_replace_base(base, found, per_thread);
    if (!real_load())
        return found;
    for (int i = 0; i < HOOKS; i++)
        if (is_real(i, found))
            return replacement(i);
    if (!atomic_load_explicit(&listed_ready, memory_order_acquire))
        list_entries();
    for (int i = 0; i < HOOKS; i++)
        if (found == listed[i] && strcmp(base, hook_table[i].base) == 0)
            return replacement(i);
    return stubs_replace_base(base, found, per_thread);
}
