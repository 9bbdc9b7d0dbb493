#include "cli/doctor/python_text.h"

#include "cli/doctor/script.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TEXT_MAX = 4 << 20, LIST_MAX = 1 << 16, NAME_MAX_KEPT = 255 };

enum kind { END, NAME, STRING, MIXED_STRING, SIGN };

struct token {
    enum kind kind;
    char sign;
    bool first;  /* of a statement */
    bool margin; /* of a line, without a blank before it */
    const char *start;
    size_t length;
    size_t column; /* in its line */
};

/* Where in the text the reader stands. */
struct reader {
    const char *at, *end, *line;
    unsigned depth; /* of brackets: no statement ends in them */
    bool fresh;     /* a statement begins here */
    bool margin;
    bool outermost; /* the statement is at the margin, not in another */
    bool follows;   /* behind a ";" of a line that began at the margin */
    struct token before, now, next;
    size_t statement; /* the column of the last "if" */
    bool skips;       /* what only checkers of types read, */
    size_t beyond;    /* to the right of this column */
};

static bool is_letter(char c) {
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* Past blanks, comments and ends of lines. */
static void pass_blanks(struct reader *reader) {
    while (reader->at < reader->end) {
        char c = *reader->at;
        if (c == '#') {
            while (reader->at < reader->end && *reader->at != '\n')
                reader->at++;
        } else if (c == '\n') {
            reader->fresh = reader->fresh || !reader->depth;
            reader->margin = true;
            reader->at++;
            reader->line = reader->at;
        } else if (c == '\\' && reader->end - reader->at > 1 && reader->at[1] == '\n') {
            reader->at += 2;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\\') {
            reader->margin = reader->margin && c == '\f';
            reader->at++;
        } else {
            return;
        }
    }
}

/* A string from its quote on: its inside is the token's text. */
static void read_string(struct reader *reader, struct token *token) {
    char quote = *reader->at;
    bool triple = reader->end - reader->at > 2 && reader->at[1] == quote && reader->at[2] == quote;
    reader->at += triple ? 3 : 1;
    token->start = reader->at;
    while (reader->at < reader->end) {
        char c = *reader->at;
        if (c == '\\' && reader->end - reader->at > 1) {
            reader->at += 2;
            continue;
        }
        if (!triple && c == '\n')
            break;
        if (c == quote && (!triple || (reader->end - reader->at > 2 && reader->at[1] == quote &&
                                       reader->at[2] == quote)))
            break;
        reader->at++;
    }
    token->length = (size_t)(reader->at - token->start);
    if (reader->at < reader->end && *reader->at == quote)
        reader->at += triple ? 3 : 1;
    if (reader->at > reader->end)
        reader->at = reader->end;
}

static void read_word(struct reader *reader, struct token *token) {
    while (reader->at < reader->end && is_letter(*reader->at))
        reader->at++;
    token->length = (size_t)(reader->at - token->start);
    bool prefix = token->length <= 2 && reader->at < reader->end &&
                  (*reader->at == '"' || *reader->at == '\'');
    for (size_t i = 0; prefix && i < token->length; i++)
        prefix = strchr("rRbBuUfFtT", token->start[i]) != NULL;
    token->kind = NAME;
    if (!prefix)
        return;
    token->kind = STRING;
    for (size_t i = 0; i < token->length; i++)
        if (strchr("fFtT", token->start[i]))
            token->kind = MIXED_STRING;
    read_string(reader, token);
}

static struct token read_token(struct reader *reader) {
    pass_blanks(reader);
    struct token token = {.kind = END,
                          .first = reader->fresh,
                          .margin = reader->fresh && (reader->margin || reader->follows),
                          .start = reader->at,
                          .column = (size_t)(reader->at - reader->line)};
    if (reader->at >= reader->end)
        return token;
    char c = *reader->at;
    if (token.first)
        reader->outermost = token.margin;
    reader->fresh = reader->margin = reader->follows = false;
    if (is_letter(c)) {
        read_word(reader, &token);
    } else if (c == '"' || c == '\'') {
        token.kind = STRING;
        read_string(reader, &token);
    } else {
        token.kind = SIGN;
        token.sign = c;
        token.length = 1;
        reader->at++;
        if (strchr("([{", c))
            reader->depth++;
        if (strchr(")]}", c) && reader->depth)
            reader->depth--;
        reader->fresh = !reader->depth && (c == ';' || c == ':');
        reader->outermost = reader->outermost && (c != ':' || reader->depth);
        reader->follows = c == ';' && reader->outermost;
    }
    return token;
}

static void step(struct reader *reader) {
    reader->before = reader->now;
    reader->now = reader->next;
    reader->next = read_token(reader);
}

static bool is_name(const struct token *token, const char *name) {
    return token->kind == NAME && strlen(name) == token->length &&
           memcmp(token->start, name, token->length) == 0;
}

static bool is_one_of(const struct token *token, const char *const *names) {
    for (; *names; names++)
        if (is_name(token, *names))
            return true;
    return false;
}

static bool is_sign(const struct token *token, char sign) {
    return token->kind == SIGN && token->sign == sign;
}

static void *grow(void *list, size_t count, size_t size) {
    if (count >= LIST_MAX)
        return NULL;
    return count & (count - 1) ? list : reallocarray(list, count ? 2 * count : 1, size);
}

static void add_string(char ***list, size_t *count, const char *start, size_t length) {
    char **grown = length <= 4096 ? grow(*list, *count, sizeof **list) : NULL;
    if (!grown)
        return;
    *list = grown;
    char *copy = strndup(start, length);
    if (copy)
        grown[(*count)++] = copy;
}

static bool contains(const char *start, size_t length, const char *word) {
    size_t wanted = strlen(word);
    for (size_t i = 0; i + wanted <= length; i++)
        if (strncasecmp(start + i, word, wanted) == 0)
            return true;
    return false;
}

static void add_import(struct python_text *text, const char *name, unsigned level, bool always,
                       bool perhaps) {
    struct python_import *grown = grow(text->imports, text->import_count, sizeof *grown);
    if (!grown)
        return;
    text->imports = grown;
    text->names_cuda = text->names_cuda || contains(name, strlen(name), "cuda");
    char *copy = strdup(name);
    if (copy)
        grown[text->import_count++] = (struct python_import){copy, level, always, perhaps};
}

/* "a.b.c" from the token that is now on, which is left behind it. */
static void read_dotted(struct reader *reader, char *name) {
    size_t length = strlen(name);
    while (reader->now.kind == NAME && !is_name(&reader->now, "import") &&
           length + reader->now.length + 1 < NAME_MAX_KEPT) {
        memcpy(name + length, reader->now.start, reader->now.length);
        length += reader->now.length;
        name[length] = '\0';
        step(reader);
        if (!is_sign(&reader->now, '.'))
            return;
        name[length++] = '.';
        name[length] = '\0';
        step(reader);
    }
}

/* "import a.b as c, d" */
static void read_import(struct reader *reader, struct python_text *text, bool always) {
    do {
        char name[NAME_MAX_KEPT + 1] = "";
        step(reader);
        read_dotted(reader, name);
        if (*name)
            add_import(text, name, 0, always, false);
        if (is_name(&reader->now, "as")) {
            step(reader);
            step(reader);
        }
    } while (is_sign(&reader->now, ','));
}

/* "from ..a.b import (c as d, e)": a.b.c may be a module, or a name in a.b. */
static void read_from(struct reader *reader, struct python_text *text, bool always) {
    char name[NAME_MAX_KEPT + 1] = "";
    unsigned level = 0;
    for (step(reader); is_sign(&reader->now, '.'); step(reader))
        level++;
    read_dotted(reader, name);
    if (!is_name(&reader->now, "import"))
        return;
    add_import(text, name, level, always, false);
    size_t length = strlen(name);
    step(reader);
    bool bracket = is_sign(&reader->now, '(');
    if (bracket)
        step(reader);
    while (reader->now.kind == NAME && length + reader->now.length + 1 < NAME_MAX_KEPT) {
        char inner[2 * NAME_MAX_KEPT]; /* more than the loop lets in, which gcc does not see */
        snprintf(inner, sizeof inner, "%s%s%.*s", name, length ? "." : "", (int)reader->now.length,
                 reader->now.start);
        add_import(text, inner, level, always, true);
        step(reader);
        if (is_name(&reader->now, "as")) {
            step(reader);
            step(reader);
        }
        if (!is_sign(&reader->now, ','))
            return;
        step(reader);
    }
}

/* The argument of a call: true if it is one constant string, which is then the token that is now.
 */
static bool read_constant(struct reader *reader) {
    step(reader);
    return reader->now.kind == STRING &&
           (is_sign(&reader->next, ')') || is_sign(&reader->next, ','));
}

/* ctypes.CDLL("libm.so.6"), CDLL(find_library("m")), ffi.dlopen("libm.so.6") */
static void read_opening(struct reader *reader, struct python_text *text) {
    static const char *const finders[] = {"ctypes", "util", "find_library", ".", NULL};
    if (is_name(&reader->before, "def") || is_name(&reader->before, "class"))
        return;
    if (!is_sign(&reader->next, '(')) {
        text->opens_others = true;
        return;
    }
    step(reader);
    if (read_constant(reader)) {
        add_string(&text->libraries, &text->library_count, reader->now.start, reader->now.length);
        return;
    }
    while (is_one_of(&reader->now, finders) && !is_name(&reader->now, "find_library"))
        do
            step(reader);
        while (is_sign(&reader->now, '.'));
    if (is_name(&reader->now, "find_library"))
        return; /* whose own argument is read next */
    bool itself = is_name(&reader->now, "None") || is_sign(&reader->now, ')');
    text->opens_others = text->opens_others || !itself;
}

static void read_finding(struct reader *reader, struct python_text *text) {
    char name[NAME_MAX_KEPT + 16];
    if (is_name(&reader->before, "def") || !is_sign(&reader->next, '('))
        return;
    step(reader);
    if (!read_constant(reader)) {
        text->opens_others = true;
    } else if (reader->now.length < NAME_MAX_KEPT) {
        snprintf(name, sizeof name, "lib%.*s.so", (int)reader->now.length, reader->now.start);
        add_string(&text->libraries, &text->library_count, name, strlen(name));
    }
}

static void read_importing(struct reader *reader, struct python_text *text) {
    if (is_name(&reader->before, "def") || !is_sign(&reader->next, '('))
        return;
    step(reader);
    char name[NAME_MAX_KEPT + 1] = "";
    if (read_constant(reader) && reader->now.length < sizeof name) {
        memcpy(name, reader->now.start, reader->now.length);
        name[reader->now.length] = '\0';
        add_import(text, name, 0, false, false);
    } else {
        text->imports_others = true;
    }
}

/* os.system, os.execv, subprocess.run and what is imported from there. */
static bool starts_program(const struct reader *reader) {
    static const char *const calls[] = {"system",
                                        "popen",
                                        "Popen",
                                        "check_call",
                                        "check_output",
                                        "getoutput",
                                        "getstatusoutput",
                                        "create_subprocess_exec",
                                        "create_subprocess_shell",
                                        NULL};
    if (reader->now.kind != NAME || !is_sign(&reader->next, '(') ||
        is_name(&reader->before, "def") || is_name(&reader->before, "class"))
        return false;
    return is_one_of(&reader->now, calls) ||
           (reader->now.length >= 5 && (strncmp(reader->now.start, "execv", 5) == 0 ||
                                        strncmp(reader->now.start, "execl", 5) == 0 ||
                                        strncmp(reader->now.start, "spawn", 5) == 0));
}

static void look(struct reader *reader, struct python_text *text) {
    static const char *const openers[] = {"CDLL",   "PyDLL",        "LoadLibrary",
                                          "dlopen", "load_library", NULL};
    static const char *const importers[] = {"import_module", "__import__", NULL};
    static const char *const runners[] = {
        "exec", "execfile", "run_path", "run_module", "spec_from_file_location", NULL};
    const struct token *now = &reader->now;
    if (now->kind == NAME || now->kind == STRING || now->kind == MIXED_STRING)
        text->names_cuda = text->names_cuda || contains(now->start, now->length, "cuda") ||
                           contains(now->start, now->length, "gpu");
    if (now->first && reader->skips && now->column <= reader->beyond)
        reader->skips = false;
    if (reader->skips)
        return;
    if (is_name(now, "if") && now->first)
        reader->statement = now->column;
    if (is_name(now, "TYPE_CHECKING") && is_sign(&reader->next, ':')) {
        reader->skips = true;
        reader->beyond = reader->statement;
    } else if (is_name(now, "import") && now->first)
        read_import(reader, text, now->margin);
    else if (is_name(now, "from") && now->first)
        read_from(reader, text, now->margin);
    else if (is_one_of(now, openers))
        read_opening(reader, text);
    else if (is_name(now, "find_library"))
        read_finding(reader, text);
    else if (is_one_of(now, importers))
        read_importing(reader, text);
    else if (is_one_of(now, runners) && is_sign(&reader->next, '('))
        text->imports_others = true;
    else if (is_name(now, "RTLD_DEEPBIND"))
        text->names_deepbind = true;
    else if (starts_program(reader) || is_name(now, "subprocess"))
        text->starts_others =
            text->starts_others || !is_name(now, "subprocess") || is_sign(&reader->next, '.');
    else if (now->kind == STRING && !(now->first && reader->next.first))
        add_string(&text->strings, &text->string_count, now->start, now->length);
}

struct python_text python_text_read(const char *bytes, size_t length) {
    struct python_text text = {.imports = NULL};
    if (length >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        bytes += 3; /* the mark of UTF-8 */
        length -= 3;
    }
    struct reader reader = {.at = bytes,
                            .line = bytes,
                            .end = bytes + (length < TEXT_MAX ? length : TEXT_MAX),
                            .fresh = true,
                            .margin = true};
    step(&reader);
    for (step(&reader); reader.now.kind != END;) {
        const char *start = reader.now.start;
        look(&reader, &text);
        /* What reads ahead leaves the token behind its own, or a string that it has read. */
        if (reader.now.start == start || reader.now.kind == STRING)
            step(&reader);
    }
    return text;
}

struct python_text python_text_read_file(const char *path) {
    size_t length = 0;
    char *bytes = script_read_bytes(path, TEXT_MAX, &length);
    struct python_text text = python_text_read(bytes ? bytes : "", bytes ? length : 0);
    free(bytes);
    return text;
}

static void free_strings(char **list, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(list[i]);
    free(list);
}

void python_text_free(struct python_text *text) {
    for (size_t i = 0; i < text->import_count; i++)
        free(text->imports[i].name);
    free(text->imports);
    free_strings(text->libraries, text->library_count);
    free_strings(text->strings, text->string_count);
    *text = (struct python_text){.imports = NULL};
}
