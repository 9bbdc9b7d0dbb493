#include "cli/printable.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The length of the UTF-8 character that `text` begins with; 0 if it begins with none, or with one
 * that a terminal might obey. */
static size_t character(const unsigned char *text) {
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t length = 1; length <= 4; length++) {
        if ((text[0] & forms[length - 1].mask) != forms[length - 1].lead)
            continue;
        uint32_t code = text[0] & (unsigned char)~forms[length - 1].mask;
        for (size_t i = 1; i < length; i++) {
            if ((text[i] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (text[i] & 0x3f);
        }
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        /* C1 controls, and the marks that turn the direction of what follows. */
        bool obeyed = code < 0x20 || (code >= 0x7f && code < 0xa0) ||
                      (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
                      (code >= 0x2066 && code <= 0x2069);
        return code < forms[length - 1].least || code > 0x10ffff || surrogate || obeyed ? 0
                                                                                        : length;
    }
    return 0;
}

char *printable(char *text) {
    for (unsigned char *at = (unsigned char *)text; *at;) {
        size_t length = character(at);
        if (!length)
            *at = '?';
        at += length ? length : 1;
    }
    return text;
}

char *printable_copy(const char *text) {
    char *copy = strdup(text);
    return copy ? printable(copy) : NULL;
}

char *printable_word(const char *text) {
    char *word = NULL;
    size_t size;
    FILE *out = open_memstream(&word, &size);
    if (!out)
        return NULL;
    bool plain = *text != '\0';
    for (const char *at = text; *at; at++)
        plain = plain && (isalnum((unsigned char)*at) || strchr("%+,-./:=@_", *at));
    if (!plain)
        putc('\'', out);
    for (const char *at = text; *at; at++)
        if (*at == '\'')
            fputs("'\\''", out);
        else
            putc(*at, out);
    if (!plain)
        putc('\'', out);
    if (fclose(out) != 0) {
        free(word);
        return NULL;
    }
    return printable(word);
}
