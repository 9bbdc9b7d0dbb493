#include "interpose/site_words.h"

#include "base/lock.h"
#include "interpose/stack_walk.h"

uintptr_t site_words_read(const struct site_words *words, uintptr_t frame) {
    for (int i = 0; i < SITE_PLACES; i++) {
        uint32_t place = atomic_load_explicit(&words->place[i], memory_order_relaxed);
        if (!place)
            break;
        if (!stack_walk_reaches(frame, frame + place))
            continue;
        uintptr_t wanted = *(const uintptr_t *)(frame + place - sizeof(uintptr_t)), word;
        if (!wanted)
            continue;
        for (size_t at = site_words_slot(wanted, place);; at++) { /* some slots stay empty */
            word = atomic_load_explicit(&words->slots[at % SITE_WORDS].word, memory_order_acquire);
            if (!word)
                break;
            if (word == wanted && atomic_load_explicit(&words->slots[at % SITE_WORDS].place,
                                                       memory_order_relaxed) == place)
                return atomic_load_explicit(&words->slots[at % SITE_WORDS].site,
                                            memory_order_relaxed);
        }
    }
    return atomic_load_explicit(&words->otherwise, memory_order_relaxed);
}

static bool add_place(struct site_words *words, uint32_t place) {
    for (int i = 0; i < SITE_PLACES; i++) {
        uint32_t known = atomic_load_explicit(&words->place[i], memory_order_relaxed);
        if (!known)
            atomic_store_explicit(&words->place[i], place, memory_order_release);
        if (!known || known == place)
            return true;
    }
    return false;
}

bool site_words_learn(struct site_words *words, uint32_t place, uintptr_t word, uintptr_t site) {
    lock_check_held(LOCK_LOADER);
    size_t at = site_words_slot(word, place);
    uintptr_t known;
    for (; (known = atomic_load(&words->slots[at % SITE_WORDS].word)); at++)
        if (known == word && atomic_load(&words->slots[at % SITE_WORDS].place) == place) {
            atomic_store(&words->slots[at % SITE_WORDS].site, site);
            return true;
        }
    if (!word || words->count >= SITE_WORDS * 3 / 4 || !add_place(words, place))
        return false;
    words->count++;
    atomic_store(&words->slots[at % SITE_WORDS].place, place);
    atomic_store(&words->slots[at % SITE_WORDS].site, site);
    atomic_store_explicit(&words->slots[at % SITE_WORDS].word, word, memory_order_release);
    return true;
}

void site_words_end(struct site_words *words, uintptr_t site) {
    lock_check_held(LOCK_LOADER);
    atomic_store_explicit(&words->otherwise, site, memory_order_relaxed);
}

void site_words_forget(struct site_words *words) {
    lock_check_held(LOCK_LOADER);
    site_words_end(words, 0);
    for (size_t i = 0; i < SITE_WORDS; i++)
        atomic_store_explicit(&words->slots[i].word, 0, memory_order_relaxed);
    words->count = 0;
}
