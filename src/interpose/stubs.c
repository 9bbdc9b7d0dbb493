/* The stubs that stand before the driver's functions that have no hook of their own: which one is
 * handed out for which function. */
#include "interpose/stubs.h"

#include "interpose/entry_points.h"
#include "interpose/given_addresses.h"
#include "interpose/real_entries.h"
#include "interpose/unknown.h"

extern const char stub_code[] __attribute__((visibility("hidden")));

static void *stub(unsigned number) {
    return (void *)(uintptr_t)(stub_code + (uint64_t)number * STUB_SIZE);
}

static void *spare_stub(void *function, const char *name, const struct entry *entry) {
    int number = stub_spare_number(function, name, entry);
    return number < 0 ? NULL : stub((unsigned)number);
}

static void *known_stub(unsigned number) {
    void *real = atomic_load_explicit(&stub_entries[number].real, memory_order_acquire);
    if (!real)
        atomic_store_explicit(&stub_entries[number].real, real_find(entry_name(number)),
                              memory_order_release);
    return stub(number);
}

static void *replace_unknown(const char *name, void *found, bool per_thread) {
    struct entry entry = unknown_entry(name, per_thread);
    void *ours = spare_stub(found, name, &entry);
    return ours ? ours : found;
}

void *stubs_replace_symbol(const char *name, void *found) {
    if (!real_load() || !real_is(name, found))
        return found;
    unsigned number = entry_find(name);
    if (number == ENTRIES)
        return replace_unknown(name, found, unknown_is_per_thread(name));
    return entry_has_stub(&entry_points[number]) ? known_stub(number) : found;
}

/* A form that the table has is at the address of its symbol, or at the one that the driver answers
 * with for the version that introduced it. What is to have a hook has got it before. */
void *stubs_replace_base(const char *base, void *found, bool per_thread) {
    if (!real_load())
        return found;
    for (unsigned i = entry_next_form(base, 0); i < ENTRIES; i = entry_next_form(base, i + 1))
        if (real_is(entry_name(i), found))
            return entry_has_stub(&entry_points[i]) ? known_stub(i) : found;
    for (unsigned i = entry_next_form(base, 0); i < ENTRIES; i = entry_next_form(base, i + 1)) {
        const struct entry *entry = &entry_points[i];
        if (real_ask(base, entry->since, entry_is_per_thread(entry)) != found)
            continue;
        if (entry->ours == OURS_hook)
            break;
        void *ours = entry_has_stub(entry) ? spare_stub(found, entry_name(i), entry) : NULL;
        return ours ? ours : found;
    }
    return replace_unknown(base, found, per_thread);
}

void stubs_forget_after_fork(void) {
    for (int i = 0; i < ENTRIES + STUB_SPARES; i++)
        atomic_store_explicit(&stub_entries[i].look, 0, memory_order_relaxed);
    given_forget_after_fork();
}
