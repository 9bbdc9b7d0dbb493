/* Tags: names that a program gives to what a thread allocates within a scope. While one is pushed
 * it is the thread's allocation site, in place of the code that allocates.
 *
 * A tag's site has depth 1 and, as its only frame, the address of a copy of the text that is never
 * freed; equal texts have one copy. Text beyond SITE_TAG_SIZE - 1 bytes is cut, a control character
 * becomes a question mark. Nothing here takes a lock, allocates or fails: a tag beyond the table, a
 * tag beyond the depth, NULL and "" mean no tag. */
#ifndef POOLCUDA_SITE_TAG_H
#define POOLCUDA_SITE_TAG_H

#include "base/call_site.h"
#include "thread_marks.h"

#include <stdbool.h>
#include <stddef.h>

enum { SITE_TAG_SIZE = 64, SITE_TAGS = 512, SITE_TAG_DEPTH = 16 };

void site_tag_push(const char *tag);
void site_tag_pop(void); /* does nothing without a push */

/* Makes *site the site of tag `number`. */
void site_tag_describe(struct call_site *site, uint16_t number);

/* The only frame of the site of that name, which nobody has to push; 0: the table is full. */
uintptr_t site_tag_frame(const char *name);

/* Whether the thread's allocations have a tag now, which *site then is. */
static inline bool site_tag_find(struct call_site *site) {
    uint16_t number = thread_marks.tag;
    if (number)
        site_tag_describe(site, number);
    return number != 0;
}

/* The text of a tag's site, never freed; NULL if the site is no tag's. */
const char *site_tag_name(const struct call_site *site);

#endif
