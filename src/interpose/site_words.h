/* Sites by words on the stack: behind one return address that says nothing of who called, such as
 * libffi's, a few places above the hook's frame hold words that do, such as the return address of
 * the frame beyond. What has been learnt of them is kept here.
 *
 * Learning is done under LOCK_LOADER; reading takes no lock, calls nothing, and looks at nothing
 * but the stack, as far as that can be read. */
#ifndef POOLCUDA_INTERPOSE_SITE_WORDS_H
#define POOLCUDA_INTERPOSE_SITE_WORDS_H

#include "interpose/own_stack.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SITE_PLACES = 4, SITE_WORDS = 1024 };

/* Invariant: places fill up from the first one, and are never changed. Of a word that is there, the
 * site is the one that was learnt with it last; a reader who comes between may take the one before:
 * a wrong site can cost hit rate and nothing else. */
struct site_words {
    _Atomic uint32_t place[SITE_PLACES]; /* bytes from the hook's frame to behind a word; 0: none */
    uint32_t count;                      /* of words. LOCK_LOADER held */
    _Atomic uintptr_t otherwise; /* the site where no word is known; 0: it is to be looked for */
    struct {
        _Atomic uintptr_t word; /* 0: none */
        _Atomic uint32_t place;
        _Atomic uintptr_t site;
    } slots[SITE_WORDS];
};

/* The site_id() of the site that a word above `frame` is known to mean, or else of the one that is
 * otherwise meant; 0: neither is known. */
uintptr_t site_words_read(const struct site_words *words, uintptr_t frame)
    __attribute__((visibility("hidden")));

static inline size_t site_words_slot(uintptr_t word, uint32_t place) {
    return ((word + place) * (uintptr_t)0x9e3779b97f4a7c15u >> 48) % SITE_WORDS;
}

/* The same, if one of the words is in the slot where it belongs; else 0, which says nothing. Calls
 * nothing. */
__attribute__((always_inline)) static inline uintptr_t
site_words_quick(const struct site_words *words, uintptr_t frame) {
    for (int i = 0; i < SITE_PLACES; i++) {
        uint32_t place = atomic_load_explicit(&words->place[i], memory_order_relaxed);
        if (!place)
            return 0;
        if (!own_stack_reaches(frame, frame + place))
            continue;
        uintptr_t word = *(const uintptr_t *)(frame + place - sizeof(uintptr_t));
        size_t at = site_words_slot(word, place);
        if (word && atomic_load_explicit(&words->slots[at].word, memory_order_acquire) == word &&
            atomic_load_explicit(&words->slots[at].place, memory_order_relaxed) == place)
            return atomic_load_explicit(&words->slots[at].site, memory_order_relaxed);
    }
    return 0;
}

/* From now on this word, at that place, means the site. False: there is no room. LOCK_LOADER held.
 */
bool site_words_learn(struct site_words *words, uint32_t place, uintptr_t word, uintptr_t site);

/* From now on words that are not known mean this site. LOCK_LOADER held. */
void site_words_end(struct site_words *words, uintptr_t site);

/* The words may mean something else from now on; the places stay. LOCK_LOADER held. */
void site_words_forget(struct site_words *words);

#endif
