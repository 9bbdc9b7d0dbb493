/* What a function is taken for that the table of entry points does not have: of a newer driver, all
 * that there is to go by is its name. This is the only place that asks for one. */
#ifndef POOLCUDA_INTERPOSE_UNKNOWN_H
#define POOLCUDA_INTERPOSE_UNKNOWN_H

#include "interpose/entry_points.h"

/* name: as an exported symbol or as cuGetProcAddress has it. per_thread: a null stream is the
 * calling thread's.
 *
 * It is work of unknown kind, and a newer form of a function that the table has is so as well: that
 * its arguments mean the same is for a header to say, and here is none. So `stream` is never a
 * position, and `effect` says only of which kind are the things that it may make or end. Captures
 * are the exception, since a wait of ours would invalidate one: what begins, ends and asks about
 * them is told from its name and does nothing else. */
struct entry unknown_entry(const char *name, bool per_thread);

/* Whether the symbol's name says that a null stream is the calling thread's. */
bool unknown_is_per_thread(const char *symbol);

static inline bool entry_is_unknown(const struct entry *entry) {
    return !entry->since;
}

#endif
