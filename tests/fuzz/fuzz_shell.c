/* The doctor's reader of shell texts, on any text: pieces of the shell's language in any order. */
#include "cli/doctor/shell_text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned scopes;

static void command(void *context, const struct shell_command *told) {
    (void)context;
    if (!told->count || told->words[told->count] || told->assignments > told->count)
        abort();
    for (size_t i = 0; i < told->count; i++)
        if (!told->words[i])
            abort();
}

static void scope(void *context, bool begins) {
    (void)context;
    if (!begins && !scopes)
        abort();
    scopes = begins ? scopes + 1 : scopes - 1;
}

static const char *value(void *context, const char *name, size_t which, bool *known) {
    (void)context;
    *known = *name != 'b';
    if (*name == '@')
        return which < 4 ? "a b" : NULL;
    return *known ? "two words" : NULL;
}

static void function(void *context, const char *name, const char *body, size_t length) {
    (void)context;
    if (strlen(name) > 4096 || (length && memchr(body, '\0', length)))
        abort();
}

static void loop(void *context, const char *name) {
    (void)context;
    if (!name)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const pieces[] = {"a",       "b",         " ",
                                         "\n",      ";",         ";;",
                                         "&",       "&&",        "|",
                                         "||",      "(",         ")",
                                         "{ ",      "}",         "$(",
                                         "`",       "$a",        "$b",
                                         "${a}",    "${",        "$@",
                                         "\"",      "'",         "\\",
                                         "<<E\n",   "\nE\n",     "<<-E",
                                         "<",       ">",         "2>&1",
                                         "if ",     "then ",     "fi",
                                         "for ",    "do ",       "done",
                                         "case ",   " in ",      "esac",
                                         "f()",     "A=",        "A=(",
                                         "[[ ",     "]]",        "((",
                                         "))",      "$((",       "#",
                                         "$'",      "~",         "*",
                                         "while ",  "else ",     "elif ",
                                         "! ",      "function ", "$(dirname \"$0\")",
                                         "${0%/*}", "<(",        "export ",
                                         "$",       "=",         "&>"};
    const struct shell_reader reader = {NULL, command, scope, value, function, loop};
    enum { PIECES = sizeof pieces / sizeof pieces[0], LONGEST = 24 };
    char *text = malloc(size * LONGEST + 1);
    size_t length = 0;
    if (!text)
        return 0;
    for (size_t i = 0; i < size; i++) {
        const char *piece = pieces[data[i] % PIECES];
        for (; *piece; piece++)
            text[length++] = *piece;
    }
    scopes = 0;
    char *exact = malloc(length ? length : 1); /* so that a sanitizer sees what reads beyond */
    if (exact) {
        memcpy(exact, text, length);
        shell_text_read(&reader, exact, length, false);
    }
    free(exact);
    free(text);
    return scopes == 0 ? 0 : (abort(), 0);
}
