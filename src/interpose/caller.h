/* Who asked for memory: finds the application's frame behind a driver hook. */
#ifndef POOLCUDA_INTERPOSE_CALLER_H
#define POOLCUDA_INTERPOSE_CALLER_H

#include "base/call_site.h"
#include "interpose/loader.h"
#include "interpose/own_stack.h"
#include "interpose/site_words.h"
#include "thread_marks.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The allocation site of the driver call whose hook was entered with the return address
 * `return_address` and the canonical frame address `frame` (the stack pointer before the call).
 * depth: frames wanted, 1 to CALL_SITE_MAX_DEPTH. Never fails: a site that cannot be found is the
 * return address itself. */
void caller_find(struct call_site *site, uintptr_t return_address, uintptr_t frame, unsigned depth);

/* What has been learnt of one return address of our hooks, as far as every call needs it.
 * LEARNING: nothing yet, as always while sites have several frames. DIRECT: it is itself the
 * application's. LEARNT: the application's lies `offset` bytes above the hook's frame, in the text
 * of one module. BEYOND: behind go-betweens, where `words` tell sites apart. */
struct caller_rule {
    uintptr_t return_address;
    _Atomic int kind;
    uint32_t offset;
    uintptr_t text_low, text_high;
    _Atomic uint64_t unloads; /* loader_unloads when last known to hold */
    struct site_words *words; /* of BEYOND; never freed */
    _Atomic uint64_t direct; /* the same of a DIRECT one, as caller_find saw it; UINT64_MAX: none */
};
enum { CALLER_LEARNING, CALLER_DIRECT, CALLER_LEARNT, CALLER_BEYOND };
enum { CALLER_RULES = 256 };
/* By caller_slot, and next to it. */
extern _Atomic(struct caller_rule *) caller_rules[CALLER_RULES]
    __attribute__((visibility("hidden")));
extern atomic_bool caller_single __attribute__((visibility("hidden"))); /* sites have one frame */

static inline size_t caller_slot(uintptr_t return_address) {
    return (return_address * 0x9e3779b97f4a7c15u >> 32) % CALLER_RULES;
}

/* Whether a call ends at `address`, of the kinds that compilers make of a call by name. */
static inline bool caller_follows_named_call(uintptr_t address) {
#if defined(__x86_64__)
    const unsigned char *end = (const unsigned char *)address;
    return end[-5] == 0xe8 || (end[-6] == 0xff && end[-5] == 0x15); /* rel32, or through the GOT */
#elif defined(__aarch64__)
    return (*(const uint32_t *)(address - 4) & 0xfc000000) == 0x94000000; /* bl */
#endif
}

/* The application's return address as a LEARNT rule says, 0 if the word found there cannot be one,
 * or if the stack may not reach so far. */
uintptr_t caller_read_far(const struct caller_rule *rule, uintptr_t frame) __attribute__((cold));

/* site_id() of the site that caller_find would find, where that is known without looking; else 0,
 * and nothing has happened. */
__attribute__((always_inline)) static inline uintptr_t caller_quick(uintptr_t return_address,
                                                                    uintptr_t frame) {
    uintptr_t noted = thread_marks.caller;
    if (noted) {
        if (!atomic_load_explicit(&caller_single, memory_order_relaxed))
            return 0;
        thread_marks.caller = 0;
        return noted;
    }
    const struct caller_rule *rule =
        atomic_load_explicit(&caller_rules[caller_slot(return_address)], memory_order_acquire);
    if (!rule || rule->return_address != return_address)
        return 0;
    uint64_t unloads = atomic_load_explicit(&loader_unloads, memory_order_acquire);
    if (__builtin_expect(atomic_load_explicit(&rule->direct, memory_order_relaxed) == unloads, 1))
        return return_address;
    if (atomic_load_explicit(&rule->unloads, memory_order_relaxed) != unloads)
        return 0;
    int kind = atomic_load_explicit(&rule->kind, memory_order_acquire);
    if (kind != CALLER_LEARNT)
        return kind == CALLER_BEYOND ? site_words_quick(rule->words, frame) : 0;
    if (__builtin_expect(!own_stack_is_near(frame, frame + rule->offset), 0))
        return caller_read_far(rule, frame);
    uintptr_t address = *(const uintptr_t *)(frame + rule->offset - sizeof(uintptr_t));
    return address >= rule->text_low + 8 && address < rule->text_high &&
                   caller_follows_named_call(address)
               ? address
               : 0;
}

/* What caller_quick says, where it knows nothing, of calls by way of go-betweens: it looks for
 * words only where they are mostly found. */
uintptr_t caller_beyond(uintptr_t return_address, uintptr_t frame)
    __attribute__((visibility("hidden")));

/* A runtime hook passes the application's return address down to the driver hook below it on the
 * same thread. Returns the note it replaces, to be put back afterwards. */
uintptr_t caller_note(uintptr_t return_address);

/* A lookup of the driver function `name` returned to `return_address`. Modules that make lookups
 * may hold a CUDA runtime; "" is the probe by which one is recognised [seen: CUDA 12 and 13
 * runtimes probe the driver's lookup with an empty name before they use it]. */
void caller_note_lookup(uintptr_t return_address, const char *name);

#endif
