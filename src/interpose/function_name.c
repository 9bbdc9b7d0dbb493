#include "interpose/function_name.h"

#include <stddef.h>
#include <string.h>

/* Adds `length` bytes of a part of the name. Returns where the next one goes. */
static size_t add_part(char name[FUNCTION_NAME_SIZE], size_t at, const char *part, size_t length) {
    size_t gap = at ? 2 : 0;
    if (at + gap + 1 >= FUNCTION_NAME_SIZE)
        return at;
    if (gap)
        memcpy(name + at, "::", gap);
    size_t room = FUNCTION_NAME_SIZE - 1 - at - gap;
    length = length < room ? length : room;
    memcpy(name + at + gap, part, length);
    return at + gap + length;
}

/* The Itanium ABI's names: _Z, N with qualifiers if it is nested, parts as their length and text,
 * of which St is the first one for std. _ZZ: what is local to a function has that function's name.
 */
void function_name_read(const char *symbol, char name[FUNCTION_NAME_SIZE]) {
    size_t at = 0;
    const char *p = symbol;
    if (p[0] == '_' && p[1] == 'Z') {
        p += 2;
        while (*p == 'Z')
            p++;
        if (*p == 'N')
            p++;
        while (*p == 'r' || *p == 'V' || *p == 'K' || *p == 'R' || *p == 'O' || *p == 'L')
            p++;
        if (p[0] == 'S' && p[1] == 't') {
            at = add_part(name, at, "std", 3);
            p += 2;
        }
        while (*p >= '1' && *p <= '9') {
            size_t length = 0;
            while (*p >= '0' && *p <= '9' && length < FUNCTION_NAME_SIZE * 8)
                length = length * 10 + (size_t)(*p++ - '0');
            if (strlen(p) < length)
                break;
            at = add_part(name, at, p, length);
            p += length;
        }
    }
    if (!at)
        at = add_part(name, at, symbol, strlen(symbol));
    name[at] = 0;
}
