/* Sites by words on the stack: behind one return address that says nothing of who called, such as
 * libffi's, a few places above the hook's frame hold words that do, such as the return address of
 * the frame beyond. What has been learnt of them is kept here.
 *
 * Learning is done under LOCK_LOADER; reading takes no lock, calls nothing, and looks at nothing
 * but the stack, as far as that can be read. */
#ifndef POOLCUDA_INTERPOSE_SITE_WORDS_H
#define POOLCUDA_INTERPOSE_SITE_WORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SITE_PLACES = 4, SITE_WORDS = 512 };

/* Invariant: places fill up from the first one, and are never changed. Of a word that is there, the
 * site is the one that was learnt with it last; a reader who comes between may take the one before:
 * a wrong site can cost hit rate and nothing else. */
struct site_words {
    _Atomic uint32_t place[SITE_PLACES]; /* bytes from the hook's frame to behind a word; 0: none */
    uint32_t count;                      /* of words. LOCK_LOADER held */
    struct {
        _Atomic uintptr_t word; /* 0: none */
        _Atomic uint32_t place;
        _Atomic uintptr_t site;
    } slots[SITE_WORDS];
};

/* The site_id() of the site that a word above `frame` is known to mean; 0: none is. */
uintptr_t site_words_read(const struct site_words *words, uintptr_t frame)
    __attribute__((visibility("hidden")));

/* From now on this word, at that place, means the site. False: there is no room. LOCK_LOADER held.
 */
bool site_words_learn(struct site_words *words, uint32_t place, uintptr_t word, uintptr_t site);

/* The words may mean something else from now on; the places stay. LOCK_LOADER held. */
void site_words_forget(struct site_words *words);

#endif
