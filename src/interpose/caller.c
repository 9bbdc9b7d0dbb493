#include "interpose/caller.h"

#include "base/lock.h"
#include "base/modules.h"
#include "counters/stats.h"
#include "interpose/go_between.h"
#include "interpose/image.h"
#include "interpose/loader.h"
#include "interpose/own_object.h"
#include "interpose/python_line.h"
#include "interpose/runtime_symbols.h"
#include "interpose/site_words.h"
#include "interpose/stack_walk.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

atomic_bool caller_single;

uintptr_t caller_note(uintptr_t return_address) {
    uintptr_t previous = thread_marks.caller;
    thread_marks.caller = return_address;
    return previous;
}

/* Modules that look driver functions up by name: CUDA runtimes, and programs that do what a runtime
 * does. Only behind a return address into one of these can there be frames that are not the
 * application's. Entries are appended and revalidated under lock and read without it. */
struct resolver {
    struct module module;
    bool shared_runtime;            /* libcudart itself: all of its code is runtime */
    struct runtime_entries entries; /* of a static runtime; empty if stripped or none */
    atomic_bool probed;             /* made the probing lookup that only CUDA runtimes make */
    _Atomic uint64_t unloads;       /* loader_unloads when last known to be still loaded */
};

enum { RESOLVERS_MAX = 32, LEARNING_CALLS = 64, NO_ENTRY_CALLS = 8, VAIN_WALKS = 256, NEAR = 4096 };

static struct resolver *resolvers[RESOLVERS_MAX];
static _Atomic int resolver_count;

/* What is needed to learn a rule, and to notice that its module has gone. */
struct rule {
    struct caller_rule learnt;
    struct module module; /* of the return address */
    int calls;            /* seen while learning */
    _Atomic uint64_t
        words_unloads; /* loader_unloads of when the first of learnt.words was learnt */
    int vain;          /* walks beyond go-betweens that taught nothing */
    int common;        /* frames common to all chains that differed, 0: none differed yet */
    struct stack_chain first;
};
_Atomic(struct caller_rule *) caller_rules[CALLER_RULES];

static bool in_text(const struct module *module, uintptr_t address) {
    return address >= module->text_low && address < module->text_high;
}

static bool same_module(const struct module *one, const struct module *other) {
    return one->base == other->base && one->text_low == other->text_low &&
           one->text_high == other->text_high && strcmp(one->path, other->path) == 0;
}

/* Whether what was learnt in `module` still holds: at once if nothing was unloaded since. */
static bool still_loaded(const struct module *module, _Atomic uint64_t *unloads) {
    uint64_t now = atomic_load_explicit(&loader_unloads, memory_order_acquire);
    if (atomic_load_explicit(unloads, memory_order_relaxed) == now)
        return true;
    struct module current;
    if (!modules_find(module->text_low, &current) || !same_module(&current, module))
        return false;
    atomic_store_explicit(unloads, now, memory_order_relaxed);
    return true;
}

static struct resolver *find_resolver(uintptr_t address) {
    int count = atomic_load_explicit(&resolver_count, memory_order_acquire);
    for (int i = count - 1; i >= 0; i--) /* newest first: it replaces an unloaded one */
        if (in_text(&resolvers[i]->module, address))
            return still_loaded(&resolvers[i]->module, &resolvers[i]->unloads) ? resolvers[i]
                                                                               : NULL;
    return NULL;
}

static bool is_shared_runtime(const struct module *module) {
    static const char prefix[] = "libcudart";
    const char *slash = strrchr(module->path, '/');
    return strncmp(slash ? slash + 1 : module->path, prefix, sizeof prefix - 1) == 0 ||
           strncmp(image_soname(module), prefix, sizeof prefix - 1) == 0;
}

static struct resolver *new_resolver(uintptr_t address) {
    struct resolver *resolver = calloc(1, sizeof *resolver);
    if (!resolver)
        return NULL;
    atomic_init(&resolver->unloads, atomic_load(&loader_unloads));
    if (!modules_find(address, &resolver->module)) {
        free(resolver);
        return NULL;
    }
    resolver->shared_runtime = is_shared_runtime(&resolver->module);
    if (!resolver->shared_runtime)
        runtime_symbols_read(&resolver->module, &resolver->entries);
    return resolver;
}

void caller_note_lookup(uintptr_t return_address, const char *name) {
    struct resolver *resolver = find_resolver(return_address);
    if (!resolver) {
        lock_take(&loader_lock, LOCK_LOADER);
        int count = atomic_load(&resolver_count);
        resolver = find_resolver(return_address);
        if (!resolver && count < RESOLVERS_MAX && (resolver = new_resolver(return_address))) {
            resolvers[count] = resolver;
            atomic_store_explicit(&resolver_count, count + 1, memory_order_release);
        }
        lock_drop(&loader_lock, LOCK_LOADER);
    }
    if (resolver && !*name)
        atomic_store_explicit(&resolver->probed, true, memory_order_relaxed);
}

/* Whether the instruction before `address` is a call. The seven bytes before it must be readable.
 */
static bool follows_call(uintptr_t address) {
#if defined(__x86_64__)
    const unsigned char *end = (const unsigned char *)address;
    if (end[-5] == 0xe8) /* call rel32 */
        return true;
    for (int length = 2; length <= 7; length++) { /* ff /2: call through register or memory */
        unsigned char mode = end[1 - length];
        if (end[-length] != 0xff || (mode & 0x38) != 0x10)
            continue;
        int kind = mode >> 6, base = mode & 7;
        int expected = 2 + (kind != 3 && base == 4) + (kind == 1) +
                       (kind == 2 || (kind == 0 && base == 5) ? 4 : 0);
        if (expected == length)
            return true;
    }
    return false;
#elif defined(__aarch64__)
    uint32_t instruction = *(const uint32_t *)(address - 4);
    return (instruction & 0xfc000000) == 0x94000000 || /* bl */
           (instruction & 0xfffff000) == 0xd63f0000 || /* blr, blraaz, blrabz */
           (instruction & 0xfffff000) == 0xd73f0000;   /* blraa, blrab */
#endif
}

static struct rule *rule_at(size_t slot) {
    return (struct rule *)atomic_load_explicit(&caller_rules[slot], memory_order_acquire);
}

static struct rule *find_rule(uintptr_t return_address) {
    for (size_t i = caller_slot(return_address), n = 0; n < CALLER_RULES;
         n++, i = (i + 1) % CALLER_RULES) {
        struct rule *rule = rule_at(i);
        if (!rule)
            return NULL;
        if (rule->learnt.return_address == return_address)
            return still_loaded(&rule->module, &rule->learnt.unloads) ? rule : NULL;
    }
    return NULL;
}

/* LOCK_LOADER held. A rule of an unloaded module is replaced and never freed: another thread may be
 * reading it. */
static struct rule *add_rule(uintptr_t return_address) {
    lock_check_held(LOCK_LOADER);
    struct rule *rule = calloc(1, sizeof *rule);
    if (!rule)
        return NULL;
    rule->learnt.return_address = return_address;
    atomic_init(&rule->learnt.unloads, atomic_load(&loader_unloads));
    atomic_init(&rule->learnt.direct, UINT64_MAX);
    if (modules_find(return_address, &rule->module))
        for (size_t i = caller_slot(return_address), n = 0; n < CALLER_RULES;
             n++, i = (i + 1) % CALLER_RULES) {
            const struct rule *old = rule_at(i);
            if (old && old->learnt.return_address != return_address)
                continue;
            atomic_store_explicit(&caller_rules[i], &rule->learnt, memory_order_release);
            return rule;
        }
    free(rule);
    return NULL;
}

uintptr_t caller_read_far(const struct caller_rule *rule, uintptr_t frame) {
    if (!stack_walk_reaches(frame, frame + rule->offset))
        return 0;
    uintptr_t address = *(const uintptr_t *)(frame + rule->offset - sizeof(uintptr_t));
    return address >= rule->text_low + 8 && address < rule->text_high && follows_call(address)
               ? address
               : 0;
}

/* How far above the hook's frame the word with chain->address[index] ends, 0 if that is not sure:
 * on x86-64 just below the stack pointer that its frame continues with, elsewhere at the only place
 * below it that holds this value. */
static uint32_t find_place(const struct stack_chain *chain, int index, uintptr_t frame) {
    uintptr_t address = chain->address[index], end = chain->stack[index], place = 0;
    if (end <= frame || end - frame > NEAR)
        return 0;
#if defined(__x86_64__)
    if (*(const uintptr_t *)(end - sizeof(uintptr_t)) == address)
        place = end;
#else
    for (uintptr_t word = frame; word < end; word += sizeof(uintptr_t)) {
        if (*(const uintptr_t *)word != address)
            continue;
        if (place)
            return 0;
        place = word + sizeof(uintptr_t);
    }
#endif
    return place ? (uint32_t)(place - frame) : 0;
}

/* The application's return address is chain->address[index], and so are those that will be found at
 * its place in the same module. */
static void learn_place(struct rule *rule, const struct stack_chain *chain, int index,
                        uintptr_t frame) {
    struct module module;
    uint32_t place = find_place(chain, index, frame);
    if (!place || !modules_find(chain->address[index], &module))
        return;
    rule->learnt.offset = place;
    rule->learnt.text_low = module.text_low;
    rule->learnt.text_high = module.text_high;
    atomic_store_explicit(&rule->learnt.kind, CALLER_LEARNT, memory_order_release);
}

/* Where above the hook's frame the interpreter has put down with which instruction it goes on, as
 * it does when it calls: the nearest word that says so. It may lie in what
 * AddressSanitizer guards around a frame's variables. */
__attribute__((no_sanitize("address"))) static uint32_t
find_instruction(const struct stack_chain *chain, uintptr_t frame, const struct python_line *line,
                 uintptr_t *found) {
    uintptr_t end = chain->stack[chain->count - 1];
    end = end > frame && end - frame > NEAR ? frame + NEAR : end;
    for (uintptr_t word = frame; word < end; word += sizeof(uintptr_t)) {
        *found = *(const uintptr_t *)word;
        if (*found >= line->next_low && *found <= line->next_high)
            return (uint32_t)(word + sizeof(uintptr_t) - frame);
    }
    return 0;
}

/* Where chain->address[index] is an interpreter's: the line of Python is the site, whose only frame
 * becomes *name if it could be learnt. LOCK_LOADER held. */
static enum python_line_found learn_line(struct rule *rule, const struct stack_chain *chain,
                                         int index, uintptr_t frame, uintptr_t *name) {
    lock_check_held(LOCK_LOADER);
    struct module module;
    struct python_line line;
    uintptr_t word;
    enum python_line_found found = modules_find(chain->address[index], &module)
                                       ? python_line_find(&module, &line)
                                       : PYTHON_LINE_NOT_KNOWN;
    uint32_t place = found == PYTHON_LINE_FOUND ? find_instruction(chain, frame, &line, &word) : 0;
    uintptr_t made = place ? site_tag_frame(line.text) : 0;
    if (made && site_words_learn(rule->learnt.words, place, word, made))
        *name = made;
    return found;
}

static bool learn_word(struct rule *rule, uint32_t place, uintptr_t address) {
    return place && site_words_learn(rule->learnt.words, place, address, address);
}

/* Unwinding at each call would cost more than the sites are worth. What is known stays. Else the
 * site is the interpreter's frame `address`, if that is one, or the return address as if it were no
 * go-between's. LOCK_LOADER held. */
static void give_up(struct rule *rule, uint32_t place, uintptr_t address, bool is_interpreter) {
    lock_check_held(LOCK_LOADER);
    struct site_words *words = rule->learnt.words;
    bool learnt = words && is_interpreter && learn_word(rule, place, address);
    if (!learnt && words && words->count)
        site_words_end(words, is_interpreter ? address : rule->learnt.return_address);
    atomic_store_explicit(&rule->learnt.kind, words && words->count ? CALLER_BEYOND : CALLER_DIRECT,
                          memory_order_release);
}

/* chain->address[index] is the site, and so it will be when its place holds it again; or a line of
 * Python is, which is then returned. An interpreter's frame says nothing of the line: if it were
 * learnt, no further line would be. LOCK_LOADER held. */
static uintptr_t learn_beyond(struct rule *rule, const struct stack_chain *chain, int index,
                              uintptr_t frame) {
    lock_check_held(LOCK_LOADER);
    if (!rule->learnt.words)
        rule->learnt.words = calloc(1, sizeof *rule->learnt.words);
    uint32_t place = find_place(chain, index, frame);
    uintptr_t address = chain->address[index], line = 0;
    uint64_t unloads = atomic_load_explicit(&rule->learnt.unloads, memory_order_relaxed);
    if (rule->learnt.words && rule->words_unloads != unloads) {
        site_words_forget(rule->learnt.words);
        rule->vain = 0;
    }
    rule->words_unloads = unloads;
    enum python_line_found found =
        rule->learnt.words ? learn_line(rule, chain, index, frame, &line) : PYTHON_LINE_NOT_KNOWN;
    bool is_interpreter = found != PYTHON_LINE_NOT_KNOWN;
    if (line || (rule->learnt.words && !is_interpreter && learn_word(rule, place, address)))
        atomic_store_explicit(&rule->learnt.kind, CALLER_BEYOND, memory_order_release);
    else if (++rule->vain >= VAIN_WALKS)
        give_up(rule, place, address, is_interpreter);
    return line;
}

static int frames_in_common(const struct stack_chain *one, const struct stack_chain *other) {
    int i = 0;
    while (i < one->count && i < other->count && one->address[i] == other->address[i])
        i++;
    return i;
}

/* A stripped static runtime: its frames are those that all callers have in common. Which frame is
 * the application's shows once two call chains differ; until then there is only one site anyway. */
static int first_frame_by_divergence(struct rule *rule, const struct stack_chain *chain) {
    if (rule->calls == 0)
        rule->first = *chain;
    int common = frames_in_common(&rule->first, chain);
    if (common < chain->count && (!rule->common || common < rule->common))
        rule->common = common;
    int usual = 3; /* frames between the driver call and cudaMalloc's caller in CUDA 12 and 13 */
    int index = rule->common ? rule->common : usual;
    return index < chain->count ? index : chain->count - 1;
}

/* The index in `chain` of the first frame that is the application's. LOCK_LOADER held. */
static int first_frame(struct rule *rule, const struct resolver *resolver,
                       const struct stack_chain *chain, bool *learnt) {
    lock_check_held(LOCK_LOADER);
    int index = 0;
    if (resolver->shared_runtime) {
        while (index < chain->count - 1 && (in_text(&resolver->module, chain->address[index]) ||
                                            own_object_contains(chain->address[index])))
            index++;
        *learnt = true;
    } else if (resolver->entries.count) {
        for (int i = 0; i < chain->count - 1; i++)
            if (runtime_symbols_contain(&resolver->entries, chain->address[i]))
                index = i + 1;
        /* Below no function that allocates: a call of the driver by the application itself, if it
         * stays so. */
        *learnt = index || rule->calls >= NO_ENTRY_CALLS;
    } else if (atomic_load_explicit(&resolver->probed, memory_order_relaxed)) {
        index = first_frame_by_divergence(rule, chain);
        *learnt = rule->calls >= LEARNING_CALLS;
    } else {
        *learnt = true; /* a program that looks the driver up by itself */
    }
    return index;
}

/* A call from a module that holds no runtime is the application's own, or a go-between's. Returns
 * whether it is the application's. */
static bool add_direct_rule(uintptr_t return_address) {
    lock_take(&loader_lock, LOCK_LOADER);
    bool direct = !go_between_contains(return_address);
    struct rule *rule = direct ? add_rule(return_address) : NULL;
    if (rule) {
        atomic_store_explicit(&rule->learnt.kind, CALLER_DIRECT, memory_order_release);
        if (image_import_version(&rule->module, "cuMemAlloc_v2"))
            stats_route(STATS_ROUTE_DRIVER_LINKED);
    }
    lock_drop(&loader_lock, LOCK_LOADER);
    return direct;
}

/* The first frame from `index` on that is no go-between's; `index` if there is none.
 * LOCK_LOADER held. */
static int skip_go_betweens(const struct stack_chain *chain, int index) {
    lock_check_held(LOCK_LOADER);
    int beyond = index;
    while (beyond < chain->count && go_between_contains(chain->address[beyond]))
        beyond++;
    return beyond < chain->count ? beyond : index;
}

/* What the chain teaches: the runtime's frames end before `index`, go-betweens before `beyond`.
 * Returns the site's frame where that is none of the chain's, else 0. LOCK_LOADER held. */
static uintptr_t learn(struct rule *rule, const struct stack_chain *chain, int index, int beyond,
                       uintptr_t frame) {
    lock_check_held(LOCK_LOADER);
    int kind = atomic_load(&rule->learnt.kind);
    if (beyond && kind != CALLER_DIRECT &&
        (kind == CALLER_BEYOND || go_between_shares_module(chain->address[index])))
        return learn_beyond(rule, chain, beyond, frame);
    if (kind == CALLER_LEARNING && index)
        learn_place(rule, chain, index, frame);
    else if (kind == CALLER_LEARNING)
        atomic_store_explicit(&rule->learnt.kind, CALLER_DIRECT, memory_order_release);
    return 0;
}

/* The index in `chain` of the site's first frame, behind the runtime of `resolver`, if any, and
 * go-betweens; the line of Python there becomes *line if that is the site. */
static int find_and_learn(uintptr_t *line, const struct resolver *resolver,
                          const struct stack_chain *chain, uintptr_t frame, unsigned depth) {
    lock_take(&loader_lock, LOCK_LOADER);
    int index = 0, beyond = 0;
    struct rule *rule = find_rule(chain->address[0]);
    if (!rule)
        rule = add_rule(chain->address[0]);
    if (rule) {
        bool learnt = true;
        if (resolver)
            index = first_frame(rule, resolver, chain, &learnt);
        beyond = skip_go_betweens(chain, index);
        rule->calls++;
        if (learnt && depth == 1)
            *line = learn(rule, chain, index, beyond, frame);
    }
    lock_drop(&loader_lock, LOCK_LOADER);
    if (resolver && index && !resolver->shared_runtime)
        stats_route(STATS_ROUTE_RUNTIME_STATIC);
    return beyond;
}

/* Fills the site's frames from chain->address[index] on, go-betweens left out. */
static void take_frames(struct call_site *site, const struct stack_chain *chain, int index,
                        unsigned depth) {
    site->frames[0] = chain->address[index];
    if (depth == 1)
        return;
    lock_take(&loader_lock, LOCK_LOADER);
    for (int i = index + 1; i < chain->count && site->depth < depth; i++)
        if (!go_between_contains(chain->address[i]))
            site->frames[site->depth++] = chain->address[i];
    lock_drop(&loader_lock, LOCK_LOADER);
}

static void find_by_unwinding(struct call_site *site, uintptr_t return_address, uintptr_t frame,
                              unsigned depth, uintptr_t noted) {
    struct stack_chain chain;
    int index = 0;
    uintptr_t line = 0;
    site->frames[0] = noted ? noted : return_address;
    site->depth = 1;
    struct resolver *resolver = noted ? NULL : find_resolver(return_address);
    if (depth == 1 && !resolver && add_direct_rule(return_address))
        return;
    stack_walk(&chain, return_address);
    if (chain.count == 0)
        return;
    if (noted)
        while (index < chain.count - 1 && chain.address[index] != noted)
            index++;
    else
        index = find_and_learn(&line, resolver, &chain, frame, depth);
    if (!noted || chain.address[index] == noted)
        take_frames(site, &chain, index, depth);
    if (line)
        site->frames[0] = line;
}

uintptr_t caller_beyond(uintptr_t return_address, uintptr_t frame) {
    const struct caller_rule *rule =
        atomic_load_explicit(&caller_rules[caller_slot(return_address)], memory_order_acquire);
    if (!rule || rule->return_address != return_address || thread_marks.caller ||
        atomic_load_explicit(&rule->unloads, memory_order_relaxed) !=
            atomic_load_explicit(&loader_unloads, memory_order_acquire) ||
        atomic_load_explicit(&rule->kind, memory_order_acquire) != CALLER_BEYOND)
        return 0;
    return site_words_read(rule->words, frame);
}

void caller_find(struct call_site *site, uintptr_t return_address, uintptr_t frame,
                 unsigned depth) {
    uintptr_t noted = thread_marks.caller;
    thread_marks.caller = 0;
    atomic_store_explicit(&caller_single, depth == 1, memory_order_relaxed);
    *site = (struct call_site){.depth = 1};
    if (depth == 1 && noted) {
        site->frames[0] = noted;
        return;
    }
    struct rule *rule = depth == 1 ? find_rule(return_address) : NULL;
    int kind =
        rule ? atomic_load_explicit(&rule->learnt.kind, memory_order_acquire) : CALLER_LEARNING;
    if (kind == CALLER_DIRECT) {
        site->frames[0] = return_address;
        atomic_store_explicit(&rule->learnt.direct,
                              atomic_load_explicit(&rule->learnt.unloads, memory_order_relaxed),
                              memory_order_relaxed);
    } else if (kind == CALLER_LEARNT) {
        site->frames[0] = caller_read_far(&rule->learnt, frame);
    } else if (kind == CALLER_BEYOND && rule->words_unloads == rule->learnt.unloads) {
        site->frames[0] = site_words_read(rule->learnt.words, frame);
    }
    if (!site->frames[0])
        find_by_unwinding(site, return_address, frame, depth, noted);
}
