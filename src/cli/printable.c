#include "cli/printable.h"

#include "observe/emitter.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *printable(char *text) {
    emitter_clean(text, strlen(text) + 1, text);
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
