#include "cli/doctor/shell_parser.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 24 };

static void read_list(struct parser *parser, char closer);

static void finish(struct parser *parser, bool apart) {
    struct shell_command *now = parser->now;
    bool perhaps = parser->perhaps || parser->chained;
    for (size_t i = 0; i < parser->open_count; i++)
        perhaps = perhaps || parser->open[i] == BRANCH || parser->open[i] == LOOP ||
                  parser->open[i] == CASE;
    now->perhaps = perhaps;
    now->apart = apart || parser->piped;
    if (now->count && !parser->silent && parser->reader->command)
        parser->reader->command(parser->reader->context, now);
    for (size_t i = 0; i < now->count; i++)
        free(now->words[i]);
    free(now->input);
    memset(now, 0, sizeof *now);
}

/* A list in brackets: what stands at `at` is behind the bracket. */
void shell_read_inside(struct parser *parser, char closer) {
    struct shell_command *outer = parser->now;
    struct shell_command *inner = calloc(1, sizeof *inner);
    if (!inner || parser->depth >= DEEPEST) {
        free(inner);
        parser->at = parser->end;
        return;
    }
    struct parser saved = *parser;
    parser->now = inner;
    parser->depth++;
    parser->perhaps = parser->perhaps || parser->chained;
    for (size_t i = 0; i < parser->open_count; i++)
        parser->perhaps = parser->perhaps || parser->open[i] > CONDITION;
    parser->open_count = 0;
    parser->chained = parser->piped = parser->in_pattern = false;
    parser->here_count = 0;
    if (parser->reader->scope && !parser->silent)
        parser->reader->scope(parser->reader->context, true);
    read_list(parser, closer);
    if (parser->reader->scope && !parser->silent)
        parser->reader->scope(parser->reader->context, false);
    const char *at = parser->at;
    *parser = saved;
    parser->at = at;
    parser->now = outer;
    free(inner);
}

/* The bodies of here-documents, at the beginning of the line behind their commands. */
static void read_here(struct parser *parser) {
    for (size_t i = 0; i < parser->here_count; i++) {
        struct here *here = &parser->here[i];
        const char *start = parser->at, *stop = parser->end;
        while (parser->at < parser->end) {
            const char *line = parser->at;
            const char *newline = memchr(line, '\n', (size_t)(parser->end - line));
            const char *line_end = newline ? newline : parser->end;
            parser->at = newline ? newline + 1 : parser->end;
            while (here->strips && line < line_end && *line == '\t')
                line++;
            if ((size_t)(line_end - line) == strlen(here->end) &&
                memcmp(line, here->end, strlen(here->end)) == 0) {
                stop = line;
                break;
            }
        }
        if (here->command && !here->command->input)
            here->command->input = strndup(start, (size_t)(stop > start ? stop - start : 0));
        free(here->end);
    }
    parser->here_count = 0;
}

static void read_redirection(struct parser *parser, struct word *word) {
    bool is_here = peek(parser, 0) == '<' && peek(parser, 1) == '<' && peek(parser, 2) != '<';
    if (peek(parser, 1) == '(') { /* a command in a file's place */
        parser->at += 2;
        shell_read_inside(parser, ')');
        shell_add(word, SHELL_UNKNOWN);
        shell_add_word(parser, word, true);
        return;
    }
    bool strips = is_here && peek(parser, 2) == '-';
    while (parser->at < parser->end && strchr("<>|&-", *parser->at))
        parser->at++;
    while (peek(parser, 0) == ' ' || peek(parser, 0) == '\t')
        parser->at++;
    struct shell_command *now = parser->now;
    struct shell_command *aside = calloc(1, sizeof *aside);
    if (!aside)
        return;
    parser->now = aside; /* whatever "$@" would add */
    shell_read_word(parser, word, false);
    parser->now = now;
    word->text[word->length] = '\0';
    if (is_here && parser->here_count < HERE) {
        struct here *here = &parser->here[parser->here_count];
        *here = (struct here){strdup(word->text), strips, now};
        parser->here_count += here->end != NULL;
    }
    for (size_t i = 0; i < aside->count; i++)
        free(aside->words[i]);
    free(aside);
    shell_clear_word(word);
}

static void push(struct parser *parser, enum construct construct) {
    if (parser->open_count < OPEN)
        parser->open[parser->open_count++] = construct;
}

static void pop(struct parser *parser) {
    if (parser->open_count)
        parser->open_count--;
}

/* Past blanks and ends of lines. */
static void pass_lines(struct parser *parser) {
    while (parser->at < parser->end && isspace((unsigned char)*parser->at))
        parser->at++;
}

/* A function's body, from its { or ( on. */
static void read_function(struct parser *parser, const char *name) {
    pass_lines(parser);
    char opener = peek(parser, 0);
    if (opener != '{' && opener != '(')
        return;
    /* The brackets of a body in ( ) stay: what it changes does not outlast it. */
    const char *start = parser->at + (opener == '{');
    parser->at++;
    bool silent = parser->silent;
    parser->silent = true;
    shell_read_inside(parser, opener == '{' ? '}' : ')');
    parser->silent = silent;
    size_t length = (size_t)(parser->at - start);
    if (!silent && parser->reader->function)
        parser->reader->function(parser->reader->context, name, start,
                                 length && opener == '{' ? length - 1 : length);
}

/* "for NAME in WORDS": to where its commands begin. */
static void read_loop_head(struct parser *parser, struct word *word) {
    struct shell_command *now = parser->now;
    struct shell_command *aside = calloc(1, sizeof *aside);
    if (!aside)
        return;
    parser->now = aside;
    while (parser->at < parser->end && *parser->at != '\n' && *parser->at != ';') {
        if (peek(parser, 0) == '(' && peek(parser, 1) == '(') {
            parser->at += 2;
            shell_pass_arithmetic(parser);
        } else if (strchr(" \t\r|&<>()", *parser->at)) {
            parser->at++;
        } else {
            shell_read_word(parser, word, true);
            shell_add_word(parser, word, false);
        }
    }
    if (aside->count && !parser->silent && parser->reader->loop)
        parser->reader->loop(parser->reader->context, aside->words[0]);
    for (size_t i = 0; i < aside->count; i++)
        free(aside->words[i]);
    free(aside);
    parser->now = now;
}

/* "case WORD in", or [[ ... ]]: past `last`. */
static void pass_to(struct parser *parser, struct word *word, const char *last) {
    struct shell_command *now = parser->now;
    struct shell_command *aside = calloc(1, sizeof *aside);
    bool found = false;
    if (!aside)
        return;
    parser->now = aside;
    while (parser->at < parser->end && !found) {
        const char *start = parser->at;
        if (strchr(" \t\r\n;|&<>()", *parser->at)) {
            parser->at++;
            continue;
        }
        shell_read_word(parser, word, false);
        found =
            (size_t)(parser->at - start) == strlen(last) && memcmp(start, last, strlen(last)) == 0;
        shell_clear_word(word);
    }
    for (size_t i = 0; i < aside->count; i++)
        free(aside->words[i]);
    free(aside);
    parser->now = now;
}

/* A word that the shell itself takes, where a command begins; false if it is none. */
static bool take_reserved(struct parser *parser, struct word *word, const char *start) {
    size_t length = (size_t)(parser->at - start);
    char text[16] = "";
    if (length >= sizeof text)
        return false;
    memcpy(text, start, length);
    text[length] = '\0';
    if (strcmp(text, "if") == 0 || strcmp(text, "while") == 0 || strcmp(text, "until") == 0)
        push(parser, CONDITION);
    else if (strcmp(text, "then") == 0 || strcmp(text, "elif") == 0 || strcmp(text, "else") == 0 ||
             strcmp(text, "do") == 0) {
        pop(parser);
        push(parser, *text == 'd' ? LOOP : BRANCH);
    } else if (strcmp(text, "fi") == 0 || strcmp(text, "done") == 0 || strcmp(text, "esac") == 0) {
        pop(parser);
        parser->in_pattern = false;
    } else if (strcmp(text, "for") == 0 || strcmp(text, "select") == 0) {
        shell_clear_word(word);
        read_loop_head(parser, word);
        push(parser, CONDITION);
    } else if (strcmp(text, "case") == 0) {
        shell_clear_word(word);
        pass_to(parser, word, "in");
        push(parser, CASE);
        parser->in_pattern = true;
    } else if (strcmp(text, "[[") == 0) {
        word->length = 0;
        pass_to(parser, word, "]]");
    } else if (strcmp(text, "function") == 0) {
        char name[64] = "";
        while (peek(parser, 0) == ' ')
            parser->at++;
        size_t room = 0;
        while (parser->at < parser->end && !strchr(" \t\n({", *parser->at) &&
               room + 1 < sizeof name)
            name[room++] = *parser->at++;
        name[room] = '\0';
        pass_lines(parser);
        if (peek(parser, 0) == '(' && peek(parser, 1) == ')')
            parser->at += 2;
        read_function(parser, name);
    } else if (strcmp(text, "{") == 0)
        push(parser, GROUP);
    else if (strcmp(text, "}") == 0)
        pop(parser);
    else if (strcmp(text, "!") != 0 && strcmp(text, "time") != 0)
        return false;
    shell_clear_word(word);
    return true;
}

static void read_one(struct parser *parser, struct word *word) {
    struct shell_command *now = parser->now;
    const char *start = parser->at;
    size_t before = now->count;
    shell_read_word(parser, word, true);
    if (parser->at == start) { /* nothing that a word can begin with */
        parser->at++;
        return;
    }
    bool begins = before == 0 && now->count == 0;
    if (begins && !word->quoted && take_reserved(parser, word, start))
        return;
    /* NAME=(...): a list of words. */
    if (word->assigns && word->length && word->text[word->length - 1] == '=' &&
        peek(parser, 0) == '(') {
        bool silent = parser->silent;
        parser->at++;
        parser->silent = true; /* its words are no commands */
        shell_read_inside(parser, ')');
        parser->silent = silent;
        shell_add(word, SHELL_UNKNOWN);
    }
    /* A number before < or >. */
    word->text[word->length] = '\0';
    if (peek(parser, 0) && strchr("<>", *parser->at) && word->length &&
        strspn(word->text, "0123456789") == word->length && !word->quoted) {
        word->length = 0;
        return;
    }
    shell_add_word(parser, word, false);
    if (now->count == 1 && peek(parser, 0) == '(') {
        const char *at = parser->at + 1;
        while (at < parser->end && (*at == ' ' || *at == '\t'))
            at++;
        if (at < parser->end && *at == ')') {
            char name[64];
            snprintf(name, sizeof name, "%s", now->words[0]);
            free(now->words[0]);
            now->words[0] = NULL;
            now->count = 0;
            parser->at = at + 1;
            read_function(parser, name);
        }
    }
}

static void read_list(struct parser *parser, char closer) {
    struct word word = {malloc(WORD_ROOM), 0, false, false};
    while (word.text && parser->at < parser->end) {
        char c = *parser->at;
        if (parser->in_pattern) {
            /* Up to the ")" behind a pattern; esac may stand there as well. */
            pass_lines(parser);
            if ((size_t)(parser->end - parser->at) >= 4 && memcmp(parser->at, "esac", 4) == 0) {
                parser->in_pattern = false;
                continue;
            }
            while (parser->at < parser->end && *parser->at != ')')
                parser->at++;
            parser->at += parser->at < parser->end;
            parser->in_pattern = false;
        } else if (c == ' ' || c == '\t' || c == '\r' || (c == '&' && peek(parser, 1) == '>')) {
            parser->at++;
        } else if (c == '\\' && peek(parser, 1) == '\n') {
            parser->at += 2;
        } else if (c == '#') {
            while (parser->at < parser->end && *parser->at != '\n')
                parser->at++;
        } else if (c == '\n') {
            parser->at++;
            read_here(parser);
            finish(parser, false);
            parser->chained = parser->piped = false;
        } else if (c == ';') {
            bool ends_case = peek(parser, 1) == ';' || peek(parser, 1) == '&';
            finish(parser, false);
            parser->chained = parser->piped = false;
            parser->at += ends_case ? 2 : 1;
            parser->at += ends_case && peek(parser, 0) == '&';
            parser->in_pattern = ends_case;
        } else if (c == '&' || c == '|') {
            bool twice = peek(parser, 1) == c;
            parser->at += twice ? 2 : 1;
            parser->at += !twice && c == '|' && peek(parser, 0) == '&';
            /* A command's here-document begins at the end of this line. */
            if (parser->here_count && memchr(parser->at, '\n', (size_t)(parser->end - parser->at)))
                for (size_t i = 0; i < parser->here_count; i++)
                    parser->here[i].command = NULL;
            finish(parser, !twice);
            parser->chained = twice || (c == '|' && parser->chained);
            parser->piped = !twice && c == '|';
        } else if (c == '<' || c == '>') {
            read_redirection(parser, &word);
        } else if (c == '(') {
            parser->at++;
            if (peek(parser, 0) == '(') {
                parser->at++;
                shell_pass_arithmetic(parser);
            } else {
                shell_read_inside(parser, ')');
            }
        } else if (c == ')' ||
                   (closer == '}' && c == '}' && !parser->now->count && !parser->open_count)) {
            parser->at++;
            if (c == closer)
                break;
        } else {
            read_one(parser, &word);
        }
    }
    for (size_t i = 0; i < parser->here_count; i++)
        free(parser->here[i].end);
    parser->here_count = 0;
    finish(parser, false);
    free(word.text);
}

void shell_text_read(const struct shell_reader *reader, const char *text, size_t length,
                     bool perhaps) {
    struct parser parser = {.reader = reader, .at = text, .end = text + length, .perhaps = perhaps};
    parser.now = calloc(1, sizeof *parser.now);
    if (parser.now)
        read_list(&parser, '\0');
    free(parser.now);
}
