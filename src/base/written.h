/* Numbers, sizes and words as people write them, in options and on the command line. */
#ifndef POOLCUDA_BASE_WRITTEN_H
#define POOLCUDA_BASE_WRITTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Reads a number that may have a decimal point; *text is then what follows it. By hand and not by
 * strtod: the program may have set a locale with a decimal comma. */
static inline bool written_number(const char **text, double *value) {
    const char *p = *text;
    double whole = 0, unit = 1;
    int digits = 0;
    for (; *p >= '0' && *p <= '9'; p++, digits++)
        whole = whole * 10 + (*p - '0');
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++, digits++)
            whole = whole * 10 + (*p - '0'), unit *= 10;
    *text = p;
    *value = whole / unit; /* rounded once */
    return digits > 0 && digits <= 24;
}

static inline char written_lower(char letter) {
    return (char)(letter >= 'A' && letter <= 'Z' ? letter + 32 : letter);
}

/* Whether the first `length` letters are the word, in whatever case; the word is in lower case. */
static inline bool written_same(const char *text, const char *word, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!text[i] || written_lower(text[i]) != word[i])
            return false;
    return !text[length];
}

/* A size: behind its number `text`, which is empty, B, or one of K, M, G and T, which B or iB may
 * follow: powers of 1024, in whatever case. */
static inline bool written_size(const char *text, double number, uint64_t *bytes) {
    static const char units[] = "kmgt";
    double scale = 1;
    const char *unit = *text ? strchr(units, written_lower(*text)) : NULL;
    if (unit) {
        for (const char *u = units; u <= unit; u++)
            scale *= 1024;
        text++;
        if (written_lower(text[0]) == 'i' && written_lower(text[1]) == 'b')
            text++;
    }
    if (written_lower(*text) == 'b')
        text++;
    if (*text || number * scale >= 18446744073709551616.0)
        return false;
    *bytes = (uint64_t)(number * scale);
    return true;
}

#endif
