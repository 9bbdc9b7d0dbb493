#include "cli/printable.h"

#include "report/emitter.h"

#include <ctype.h>
#include <stdbool.h>
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

/* Whether a shell takes it as it is: zsh would look for what follows a '=' at a word's beginning.
 */
static bool is_plain(const char *text) {
    if (*text == '\0' || *text == '=')
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("%+,-./:=@_", *text))
            return false;
    return true;
}

static void put_quoted(FILE *out, const char *text) {
    putc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            putc(*text, out);
    }
    putc('\'', out);
}

/* As $'...', which bash, zsh, ksh and POSIX of 2024 know: what is not to be printed, by octal
 * digits.
 */
static void put_escaped(FILE *out, const char *text) {
    fputs("$'", out);
    while (*text) {
        int length = (int)emitter_harmless(text);
        if (length)
            fprintf(out, "%s%.*s", *text == '\'' || *text == '\\' ? "\\" : "", length, text);
        else if (*text == '\n')
            fputs("\\n", out);
        else
            fprintf(out, "\\%03o", (unsigned char)*text);
        text += length ? length : 1;
    }
    putc('\'', out);
}

static bool is_harmless(const char *text) {
    size_t length = 1;
    for (; *text && length; text += length)
        length = emitter_harmless(text);
    return length;
}

char *printable_word(const char *text) {
    char *word = NULL;
    size_t size;
    FILE *out = open_memstream(&word, &size);
    if (!out)
        return NULL;
    if (is_plain(text))
        fputs(text, out);
    else if (is_harmless(text))
        put_quoted(out, text);
    else
        put_escaped(out, text);
    if (fclose(out) != 0) {
        free(word);
        return NULL;
    }
    return word;
}
