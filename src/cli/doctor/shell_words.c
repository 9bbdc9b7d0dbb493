/* Words of a shell's text: quotes, and expansions as far as their values are known. */
#include "cli/doctor/shell_parser.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void shell_add(struct word *word, char c) {
    if (word->length + 1 < WORD_ROOM)
        word->text[word->length++] = c;
}

void shell_add_word(struct parser *parser, struct word *word, bool force) {
    struct shell_command *now = parser->now;
    word->text[word->length] = '\0';
    if ((word->length || word->quoted || force) && now->count < SHELL_WORDS) {
        char *copy = strdup(word->text);
        if (copy) {
            if (word->assigns && now->assignments == now->count)
                now->assignments++;
            now->words[now->count++] = copy;
        }
    }
    shell_clear_word(word);
}

/* Past "))" of arithmetic. */
void shell_pass_arithmetic(struct parser *parser) {
    unsigned depth = 0;
    for (; parser->at < parser->end; parser->at++) {
        depth += *parser->at == '(';
        if (*parser->at != ')')
            continue;
        if (depth) {
            depth--;
        } else {
            parser->at += peek(parser, 1) == ')' ? 2 : 1;
            return;
        }
    }
}

/* A command in backquotes, as of behind the first. */
static void read_backquoted(struct parser *parser) {
    const char *start = parser->at;
    while (parser->at < parser->end && *parser->at != '`')
        parser->at += *parser->at == '\\' ? 2 : 1;
    if (parser->at > parser->end)
        parser->at = parser->end;
    const char *stop = parser->at, *end = parser->end;
    parser->at = start;
    parser->end = stop;
    shell_read_inside(parser, '\0');
    parser->end = end;
    parser->at = stop < end ? stop + 1 : end;
}

/* What a variable gives, at the word's end; unquoted, blanks end words. */
static void add_value(struct parser *parser, struct word *word, const char *name, bool quoted) {
    bool known = false;
    const struct shell_reader *reader = parser->reader;
    if (strcmp(name, "@") == 0 || strcmp(name, "*") == 0) {
        const char *value = parser->silent ? NULL : reader->value(reader->context, "@", 1, &known);
        for (size_t i = 1; value; i++) {
            for (const char *c = value; *c; c++)
                shell_add(word, *c);
            value = reader->value(reader->context, "@", i + 1, &known);
            if (value)
                shell_add_word(parser, word, true);
        }
        if (!known) {
            shell_add(word, SHELL_UNKNOWN);
            parser->now->all_unknown = true;
        }
        return;
    }
    const char *value = parser->silent ? NULL : reader->value(reader->context, name, 0, &known);
    if (!known)
        shell_add(word, SHELL_UNKNOWN);
    for (; known && value && *value; value++) {
        if (!quoted && !word->assigns && isspace((unsigned char)*value))
            shell_add_word(parser, word, false);
        else
            shell_add(word, *value);
    }
}

/* Past the "}" that ends ${... */
static void pass_braces(struct parser *parser) {
    unsigned depth = 1;
    for (; parser->at < parser->end && depth; parser->at++) {
        if (*parser->at == '\\' && parser->at + 1 < parser->end)
            parser->at++;
        else if (*parser->at == '{')
            depth++;
        else if (*parser->at == '}')
            depth--;
    }
}

/* Whether "$(" and what follows gives the folder of the script, in one of the usual ways:
 * $(dirname "$0"), $(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd). Then stands behind its end. */
static bool pass_script_folder(struct parser *parser) {
    static const char *const parts[] = {"$(",           "${BASH_SOURCE[0]}",
                                        "$BASH_SOURCE", "${BASH_SOURCE}",
                                        "dirname",      "${0}",
                                        "$0",           "readlink",
                                        "realpath",     "-f",
                                        "-P",           "-e",
                                        "pwd",          "cd",
                                        "--",           ">/dev/null",
                                        "> /dev/null",  "2>&1",
                                        "&>/dev/null",  "&&",
                                        "\"",           " "};
    const char *at = parser->at, *start = at;
    unsigned depth = 0;
    bool names_script = false, dirname = false;
    do {
        size_t length = 0;
        for (size_t i = 0; !length && i < sizeof parts / sizeof parts[0]; i++) {
            size_t part = strlen(parts[i]);
            if ((size_t)(parser->end - at) < part || memcmp(at, parts[i], part) != 0)
                continue;
            length = part;
            depth += i == 0;
            names_script = names_script || strchr(parts[i], '0') || strstr(parts[i], "BASH");
            dirname = dirname || strcmp(parts[i], "dirname") == 0;
        }
        if (!length && at < parser->end && *at == ')' && depth) {
            length = 1;
            depth--;
        }
        if (!length)
            return false;
        at += length;
    } while (depth && at < parser->end);
    if (depth || !names_script || !dirname || at == start)
        return false;
    parser->at = at;
    return true;
}

/* Past "poolcuda preload" and `closer`, from where the command's text begins; false, having stayed,
 * if that is another command. */
static bool pass_preload_command(struct parser *parser, size_t ahead, char closer) {
    static const char name[] = "poolcuda", verb[] = "preload";
    const char *at = parser->at + ahead, *end = parser->end;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    const char *start = at;
    while (at < end && !strchr(" \t\n;|&<>()`", *at))
        at++;
    size_t length = at > start ? (size_t)(at - start) : 0, wanted = sizeof name - 1;
    while (length && strchr("\"'", start[length - 1]))
        length--;
    if (length < wanted || memcmp(start + length - wanted, name, wanted) != 0 ||
        (length > wanted && !strchr("/\"'", start[length - wanted - 1])))
        return false;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if ((size_t)(end - at) < sizeof verb || memcmp(at, verb, sizeof verb - 1) != 0)
        return false;
    for (at += sizeof verb - 1; at < end && (*at == ' ' || *at == '\t'); at++)
        ;
    if (at == end || *at != closer)
        return false;
    parser->at = at + 1;
    return true;
}

/* Whether ${LD_PRELOAD, from behind the name on, gives the whole value if there is one: with :- and
 * its like, and with :+ where that names it again. */
static bool gives_whole(const struct parser *parser) {
    static const char name[] = "LD_PRELOAD";
    const char *at = parser->at, *end = parser->end;
    at += peek(parser, 0) == ':';
    if (at < end && strchr("-=?", *at))
        return true;
    unsigned depth = 1;
    for (bool adds = at < end && *at == '+'; adds && at < end && depth; at++) {
        depth += *at == '{';
        depth -= *at == '}';
        const char *inner = at + (*at == '$') + (*at == '$' && end - at > 1 && at[1] == '{');
        if (inner > at && (size_t)(end - inner) >= sizeof name &&
            memcmp(inner, name, sizeof name - 1) == 0 && strchr("}:\" ", inner[sizeof name - 1]))
            return true;
    }
    return false;
}

static void read_expansion(struct parser *parser, struct word *word, bool quoted) {
    char name[128];
    size_t length = 0;
    if (peek(parser, 1) == '(' && pass_preload_command(parser, 2, ')')) {
        add_value(parser, word, SHELL_PRELOAD_COMMAND, true);
        return;
    }
    if (pass_script_folder(parser)) {
        add_value(parser, word, "/", true);
        return;
    }
    parser->at++; /* the $ */
    if (peek(parser, 0) == '(' && peek(parser, 1) == '(') {
        parser->at += 2;
        shell_pass_arithmetic(parser);
        shell_add(word, SHELL_UNKNOWN);
        return;
    }
    if (peek(parser, 0) == '(') {
        parser->at++;
        shell_read_inside(parser, ')');
        shell_add(word, SHELL_UNKNOWN);
        return;
    }
    bool braces = peek(parser, 0) == '{';
    parser->at += braces;
    const char *start = parser->at;
    if (isdigit((unsigned char)peek(parser, 0)) || (peek(parser, 0) && strchr("@*", *parser->at)))
        name[length++] = *parser->at++;
    else
        while (parser->at < parser->end &&
               (isalnum((unsigned char)*parser->at) || *parser->at == '_') &&
               length + 1 < sizeof name)
            name[length++] = *parser->at++;
    name[length] = '\0';
    if (!length && !braces) {
        if (peek(parser, 0) && strchr("#?$!-", *parser->at)) {
            parser->at++;
            shell_add(word, SHELL_UNKNOWN);
        } else {
            shell_add(word, '$');
        }
        return;
    }
    if (!braces || peek(parser, 0) == '}') {
        parser->at += braces;
        add_value(parser, word, name, quoted);
        return;
    }
    if (strcmp(name, "0") == 0 && parser->end - parser->at > 3 &&
        memcmp(parser->at, "%/*}", 4) == 0) {
        parser->at += 4;
        add_value(parser, word, "/", true);
        return;
    }
    /* ${NAME:-...} and its like name what they change; nothing else of them is kept. */
    bool whole = gives_whole(parser);
    parser->at = start;
    pass_braces(parser);
    shell_add(word, SHELL_UNKNOWN);
    if (strcmp(name, "LD_PRELOAD") == 0 && whole)
        add_value(parser, word, name, true);
}

/* From the first backquote on. */
static void read_backquotes(struct parser *parser, struct word *word) {
    if (pass_preload_command(parser, 1, '`')) {
        add_value(parser, word, SHELL_PRELOAD_COMMAND, true);
        return;
    }
    parser->at++;
    read_backquoted(parser);
    shell_add(word, SHELL_UNKNOWN);
}

static void read_double(struct parser *parser, struct word *word) {
    for (parser->at++; parser->at < parser->end && *parser->at != '"';) {
        char c = *parser->at;
        if (c == '\\' && peek(parser, 1) && strchr("$`\"\\\n", peek(parser, 1))) {
            if (peek(parser, 1) != '\n')
                shell_add(word, peek(parser, 1));
            parser->at += 2;
        } else if (c == '$') {
            read_expansion(parser, word, true);
        } else if (c == '`') {
            read_backquotes(parser, word);
        } else {
            shell_add(word, c);
            parser->at++;
        }
    }
    parser->at += parser->at < parser->end;
}

static bool is_name(const char *text, size_t length) {
    bool good = length && !isdigit((unsigned char)*text);
    for (size_t i = 0; i < length; i++)
        good = good && (isalnum((unsigned char)text[i]) || text[i] == '_');
    return good;
}

void shell_read_word(struct parser *parser, struct word *word, bool splits) {
    static const char ends[] = " \t\r\n;|&<>()";
    bool fresh = true;
    while (parser->at < parser->end && !strchr(ends, *parser->at)) {
        char c = *parser->at;
        if (c == '\'') {
            word->quoted = true;
            for (parser->at++; parser->at < parser->end && *parser->at != '\''; parser->at++)
                shell_add(word, *parser->at);
            parser->at += parser->at < parser->end;
        } else if (c == '$' && peek(parser, 1) == '\'') {
            word->quoted = true;
            for (parser->at += 2; parser->at < parser->end && *parser->at != '\''; parser->at++) {
                parser->at += *parser->at == '\\' && parser->at + 1 < parser->end;
                shell_add(word, *parser->at);
            }
            parser->at += parser->at < parser->end;
        } else if (c == '"') {
            word->quoted = true;
            read_double(parser, word);
        } else if (c == '\\' && peek(parser, 1) == '\n') {
            parser->at += 2;
        } else if (c == '\\') {
            word->quoted = true;
            if (peek(parser, 1))
                shell_add(word, peek(parser, 1));
            parser->at += peek(parser, 1) ? 2 : 1;
        } else if (c == '$') {
            read_expansion(parser, word, !splits);
        } else if (c == '`') {
            read_backquotes(parser, word);
        } else {
            size_t name = word->length - (word->length && word->text[word->length - 1] == '+');
            if (c == '=' && !word->quoted && !word->assigns && is_name(word->text, name))
                word->assigns = true;
            if (c == '~' && fresh && !word->length) {
                const char *home = getenv("HOME");
                for (; home && *home; home++)
                    shell_add(word, *home);
            } else {
                shell_add(word, strchr("*?[", c) && !word->assigns ? SHELL_UNKNOWN : c);
            }
            parser->at++;
        }
        fresh = false;
    }
}
