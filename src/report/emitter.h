/* One report in two forms: lines for people, or JSON. The code that makes a report tells both in
 * one pass; each of these functions writes in its own form alone and nothing in the other. */
#ifndef POOLCUDA_REPORT_EMITTER_H
#define POOLCUDA_REPORT_EMITTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Invariant: depth objects and arrays are open; comma tells whether the innermost one has a member
 * yet. */
struct emitter {
    bool json;
    void (*write)(const char *text, size_t length, void *state);
    void *state;
    unsigned depth;
    bool comma;
};

/* Prints text, as printf. What comes from outside goes through emitter_clean first. */
__attribute__((format(printf, 2, 3))) void emitter_print(struct emitter *emitter,
                                                         const char *pattern, ...);
/* Copies text for a terminal: what that might obey and what is no UTF-8 becomes '?'. `to` may be
 * `text`, which then keeps its length or gets shorter. Returns `to`. */
const char *emitter_clean(char *to, size_t size, const char *text);

/* The length of the character that `text` begins with; 0 if it is no UTF-8, or a terminal might
 * obey it. */
size_t emitter_harmless(const char *text);

/* These write JSON. key: NULL for the members of an array. */
void emitter_open(struct emitter *emitter, const char *key, char bracket); /* '{' or '[' */
void emitter_close(struct emitter *emitter, char bracket);                 /* '}' or ']' */
/* No more than 2^63 - 1, the greatest that common readers of JSON take. */
void emitter_number(struct emitter *emitter, const char *key, uint64_t number);
void emitter_signed(struct emitter *emitter, const char *key, int64_t number);
/* A finite number, with three digits behind the point. */
void emitter_decimal(struct emitter *emitter, const char *key, double number);
void emitter_bool(struct emitter *emitter, const char *key, bool value);
/* Bytes that are no UTF-8 become U+FFFD. NULL: null. */
void emitter_string(struct emitter *emitter, const char *key, const char *text);
/* Writes bytes without loss: what is no UTF-8 becomes {"hex": "..."}. */
void emitter_bytes(struct emitter *emitter, const char *key, const char *text);

#endif
