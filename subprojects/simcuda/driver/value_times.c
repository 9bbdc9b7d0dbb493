/* When work wrote the words that other work waits for, in virtual time: the memory itself only
 * knows what happened first in real time, and a stream may have run far ahead by then. */
#include "allocate.h"
#include "cost.h"
#include "lock.h"
#include "values.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { WRITES_KEPT = 256 };

struct write {
    uint64_t value;
    uint64_t ns;
};

/* The last writes of a word, in the order in which they were made. Invariant: count != 0. */
struct history {
    uintptr_t place;
    uint64_t last; /* the last one's number among all writes */
    struct write writes[WRITES_KEPT];
    size_t count;
    struct history *next;
};

static struct history *histories;
static uint64_t writes_made;

/* Host and device addresses never are the same. */
static uintptr_t place_of(const struct word *word) {
    return word->outside != NULL ? (uintptr_t)word->outside->memory : (uintptr_t)word->address;
}

static struct history *find(const struct word *word) {
    uintptr_t place = place_of(word);
    struct history *history;

    LL_FOREACH(histories, history)
    if (history->place == place)
        return history;
    return NULL;
}

static struct history *create(const struct word *word) {
    struct history *history = allocate_zeroed(sizeof *history);

    history->place = place_of(word);
    LL_PREPEND(histories, history);
    return history;
}

void value_time_written(const struct word *word, uint64_t value) {
    sim_check_held();
    struct history *history;

    if (!time_is_virtual())
        return;
    history = find(word);
    if (history == NULL)
        history = create(word);
    if (history->count == WRITES_KEPT)
        memmove(history->writes, history->writes + 1, --history->count * sizeof *history->writes);
    history->writes[history->count++] = (struct write){value, time_work_now()};
    history->last = ++writes_made;
}

uint64_t value_time_writes(void) {
    sim_check_held();
    return writes_made;
}

void value_time_read(uintptr_t begin, size_t size, uint64_t before) {
    sim_check_held();
    const struct history *history;

    LL_FOREACH(histories, history)
    if (history->place - begin < size && history->last <= before)
        time_work_reach(history->writes[history->count - 1].ns);
}

void value_time_forget(uintptr_t begin, size_t size) {
    sim_check_held();
    struct history **link = &histories, *history;

    while ((history = *link) != NULL) {
        if (history->place - begin >= size) {
            link = &history->next;
            continue;
        }
        *link = history->next;
        free(history);
    }
}

/* From when on, not before `ns`, the word had a value that ends the wait. */
static uint64_t first_end(const struct history *history, const struct awaited *awaited,
                          uint64_t ns) {
    for (size_t i = 0; i < history->count; i++) {
        bool is_past = i + 1 < history->count && history->writes[i + 1].ns <= ns;

        if (!is_past && value_ends(awaited, history->writes[i].value))
            return history->writes[i].ns;
    }
    return ns;
}

/* A word that has another value than work wrote to it last, or came to have it without work, was
 * written to by the host. */
static bool is_of_work(const struct history *history, uint64_t there,
                       const uint64_t *waited_since) {
    return history != NULL && history->writes[history->count - 1].value == there &&
           (waited_since == NULL || history->last > *waited_since);
}

void value_time_awaited(const struct awaited *awaited, uint64_t there,
                        const uint64_t *waited_since) {
    sim_check_held();
    const struct history *history;

    if (!time_is_virtual())
        return;
    history = find(&awaited->word);
    if (is_of_work(history, there, waited_since))
        time_work_reach(first_end(history, awaited, time_work_now()));
    else if (waited_since != NULL)
        time_work_reach(time_latest());
}
