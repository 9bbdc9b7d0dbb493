#include "cli/doctor/python_tokens.h"

#include <ctype.h>
#include <string.h>

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
                          .depth = reader->depth,
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

void step(struct reader *reader) {
    reader->last = reader->before;
    reader->before = reader->now;
    reader->now = reader->next;
    reader->next = read_token(reader);
}

bool is_name(const struct token *token, const char *name) {
    return token->kind == NAME && strlen(name) == token->length &&
           memcmp(token->start, name, token->length) == 0;
}

bool is_one_of(const struct token *token, const char *const *names) {
    for (; *names; names++)
        if (is_name(token, *names))
            return true;
    return false;
}

bool is_sign(const struct token *token, char sign) {
    return token->kind == SIGN && token->sign == sign;
}
