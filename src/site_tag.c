#include "site_tag.h"

#include "base/text_hash.h"

#include <stdatomic.h>
#include <string.h>

enum { SLOTS = 2 * SITE_TAGS }; /* a power of two */

/* Invariant: slots hold the numbers, from 1, of texts that are complete and never change again,
 * found by linear probing from their hash; each text is there once. Two threads that meet at one
 * new text may use up two of `texts`. */
static char texts[SITE_TAGS][SITE_TAG_SIZE];
static _Atomic uint16_t slots[SLOTS];
static atomic_uint used;

/* Invariant: thread_marks.tag is the number of stack[depth - 1], 0 if depth is 0 or beyond the
 * stack. */
static _Thread_local struct {
    uint32_t depth;
    uint16_t tags[SITE_TAG_DEPTH];
} stack __attribute__((tls_model("initial-exec")));

/* The bytes of the control character at `at`, also of one in UTF-8; 0: there is none. */
static size_t control(const unsigned char *at) {
    if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
        return 2;
    return *at < ' ' || *at == 0x7f;
}

/* Returns the length. Sequences of UTF-8 stay whole. */
static size_t clean(char *to, const char *from) {
    size_t length = 0;
    const unsigned char *at = (const unsigned char *)from;
    while (*at && length < SITE_TAG_SIZE) {
        size_t skipped = control(at);
        to[length++] = skipped ? '?' : (char)*at;
        at += skipped ? skipped : 1;
    }
    if (length == SITE_TAG_SIZE)
        do
            length--;
        while (length && ((unsigned char)to[length] & 0xc0) == 0x80);
    memset(to + length, 0, SITE_TAG_SIZE - length);
    return length;
}

/* Makes a new copy, which is in no slot yet, and returns its number; 0 if the table is full. */
static uint16_t copy(const char *text) {
    unsigned index = atomic_load(&used);
    while (index < SITE_TAGS && !atomic_compare_exchange_weak(&used, &index, index + 1)) {
    }
    if (index >= SITE_TAGS)
        return 0;
    memcpy(texts[index], text, SITE_TAG_SIZE);
    return (uint16_t)(index + 1);
}

/* Returns the number of the text's one copy, 0 if there is no room for it. */
static uint16_t intern(const char *text) {
    uint16_t made = 0;
    for (uint32_t i = (uint32_t)(text_hash(text) >> 32);; i++) { /* half of the slots stay empty */
        _Atomic uint16_t *slot = &slots[i % SLOTS];
        uint16_t number = atomic_load_explicit(slot, memory_order_acquire);
        if (!number && !made)
            made = copy(text);
        if (!number && (!made || atomic_compare_exchange_strong(slot, &number, made)))
            return made;
        if (memcmp(texts[number - 1], text, SITE_TAG_SIZE) == 0)
            return number;
    }
}

void site_tag_push(const char *tag) {
    char text[SITE_TAG_SIZE];
    uint16_t number = 0;
    if (stack.depth < SITE_TAG_DEPTH) {
        if (tag && clean(text, tag))
            number = intern(text);
        stack.tags[stack.depth] = number;
    }
    stack.depth += stack.depth != UINT32_MAX;
    thread_marks.tag = number;
}

void site_tag_pop(void) {
    stack.depth -= stack.depth != 0;
    bool known = stack.depth > 0 && stack.depth <= SITE_TAG_DEPTH;
    thread_marks.tag = known ? stack.tags[stack.depth - 1] : 0;
}

void site_tag_describe(struct call_site *site, uint16_t number) {
    *site = (struct call_site){.frames = {(uintptr_t)texts[number - 1]}, .depth = 1};
}

uintptr_t site_tag_frame(const char *name) {
    char text[SITE_TAG_SIZE];
    uint16_t number = clean(text, name) ? intern(text) : 0;
    return number ? (uintptr_t)texts[number - 1] : 0;
}

const char *site_tag_name(const struct call_site *site) {
    uintptr_t offset = site->frames[0] - (uintptr_t)texts;
    return site->depth == 1 && offset < sizeof texts ? texts[offset / SITE_TAG_SIZE] : NULL;
}
