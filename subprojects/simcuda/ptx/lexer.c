#include "lexer.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool lexer_fail(struct lexer *lexer, const char *format, ...) {
    va_list arguments;

    if (lexer->failure->line == 0) {
        lexer->failure->line = lexer->token.line != 0 ? lexer->token.line : 1;
        va_start(arguments, format);
        vsnprintf(lexer->failure->text, sizeof lexer->failure->text, format, arguments);
        va_end(arguments);
    }
    lexer->token.kind = TOKEN_END;
    lexer->token.length = 0;
    lexer->at = "";
    return false;
}

/* Behind white space and comments. */
static void skip_space(struct lexer *lexer) {
    for (;;) {
        const char *at = lexer->at;

        if (*at == '\n') {
            lexer->line++;
            lexer->at++;
        } else if (isspace((unsigned char)*at)) {
            lexer->at++;
        } else if (at[0] == '/' && at[1] == '/') {
            lexer->at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");

            for (; *lexer->at != '\0' && lexer->at != end; lexer->at++)
                lexer->line += *lexer->at == '\n';
            lexer->at += end != NULL ? 2 : 0;
        } else {
            return;
        }
    }
}

static bool is_word_character(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static size_t word_length(const char *at) {
    size_t length = 0;

    while (is_word_character(at[length]))
        length++;
    return length;
}

/* Also of modifiers like L1::evict_last. */
static size_t modifier_length(const char *at) {
    size_t length = word_length(at);

    while (at[length] == ':' && at[length + 1] == ':' && is_word_character(at[length + 2]))
        length += 2 + word_length(at + length + 2);
    return length;
}

/* 0f and eight digits are a float's bits, 0d and sixteen a double's. */
static bool take_bits(struct lexer *lexer, struct token *token) {
    const char *at = lexer->at;
    char which = (char)tolower((unsigned char)at[1]);
    size_t digits = which == 'f' ? 8 : 16;
    char text[17] = {0};
    float single;
    double value;

    if (at[0] != '0' || (which != 'f' && which != 'd') ||
        strspn(at + 2, "0123456789abcdefABCDEF") < digits)
        return false;
    memcpy(text, at + 2, digits);
    token->kind = TOKEN_FLOAT;
    token->number = strtoull(text, NULL, 16);
    token->is_single = which == 'f';
    if (token->is_single) {
        token->single = (uint32_t)token->number;
        memcpy(&single, &token->single, sizeof single);
        value = (double)single;
        memcpy(&token->number, &value, sizeof value);
    }
    token->length = digits + 2;
    return true;
}

static void take_decimal(struct lexer *lexer, struct token *token) {
    char *end;
    double value = strtod(lexer->at, &end);

    token->kind = TOKEN_FLOAT;
    memcpy(&token->number, &value, sizeof value);
    token->length = (size_t)(end - lexer->at);
}

static void take_integer(struct lexer *lexer, struct token *token) {
    const char *at = lexer->at;
    char *end;

    token->kind = TOKEN_NUMBER;
    if (at[0] == '0' && (at[1] == 'b' || at[1] == 'B'))
        token->number = strtoull(at + 2, &end, 2);
    else
        token->number = strtoull(at, &end, 0);
    if (*end == 'U')
        end++;
    token->length = (size_t)(end - at);
}

static void take_number(struct lexer *lexer, struct token *token) {
    size_t digits = strspn(lexer->at, "0123456789");
    char behind = lexer->at[digits];

    if (take_bits(lexer, token))
        return;
    if (behind == '.' || behind == 'e' || behind == 'E')
        take_decimal(lexer, token);
    else
        take_integer(lexer, token);
}

static void take_string(struct lexer *lexer, struct token *token) {
    size_t length = strcspn(lexer->at + 1, "\"\n");

    token->kind = TOKEN_STRING;
    token->text = lexer->at + 1;
    token->length = length;
    lexer->at += length + 1;
    if (*lexer->at == '"')
        lexer->at++;
}

static bool is_pair(const char *at) {
    static const char pairs[][3] = {"<<", ">>", "==", "!=", "<=", ">=", "&&", "||", "@@"};

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (at[0] == pairs[i][0] && at[1] == pairs[i][1])
            return true;
    return false;
}

void lexer_next(struct lexer *lexer) {
    struct token *token = &lexer->token;
    const char *before = lexer->at;
    char c;

    skip_space(lexer);
    memset(token, 0, sizeof *token);
    c = *lexer->at;
    token->joined = before == lexer->at;
    token->text = lexer->at;
    token->line = lexer->line;
    if (c == '\0')
        return;
    if (c == '"') {
        take_string(lexer, token);
        return;
    }
    if (c == '.' && modifier_length(lexer->at + 1) != 0) {
        token->kind = TOKEN_DOT;
        token->text++;
        token->length = modifier_length(token->text);
        lexer->at++;
    } else if (isdigit((unsigned char)c)) {
        take_number(lexer, token);
    } else if (is_word_character(c) || c == '%') {
        token->kind = TOKEN_WORD;
        token->length = 1 + word_length(lexer->at + 1);
    } else {
        token->kind = TOKEN_MARK;
        token->length = is_pair(lexer->at) ? 2 : 1;
    }
    lexer->at += token->length;
}

void lexer_begin(struct lexer *lexer, const char *text, struct failure *failure) {
    *lexer = (struct lexer){.at = text, .line = 1, .failure = failure};
    lexer_next(lexer);
}

bool token_is(const struct token *token, const char *text) {
    return strlen(text) == token->length && memcmp(token->text, text, token->length) == 0;
}

bool lexer_at_mark(const struct lexer *lexer, char mark) {
    return lexer->token.kind == TOKEN_MARK && lexer->token.length == 1 &&
           lexer->token.text[0] == mark;
}

bool lexer_at_dot(const struct lexer *lexer, const char *word) {
    return lexer->token.kind == TOKEN_DOT && token_is(&lexer->token, word);
}

bool lexer_take_mark(struct lexer *lexer, char mark) {
    if (!lexer_at_mark(lexer, mark))
        return false;
    lexer_next(lexer);
    return true;
}

bool lexer_take_dot(struct lexer *lexer, const char *word) {
    if (!lexer_at_dot(lexer, word))
        return false;
    lexer_next(lexer);
    return true;
}

bool lexer_expect_mark(struct lexer *lexer, char mark) {
    return lexer_take_mark(lexer, mark) || lexer_fail(lexer, "'%c' is expected before '%.*s'", mark,
                                                      (int)lexer->token.length, lexer->token.text);
}

void lexer_skip_line(struct lexer *lexer) {
    lexer->at = lexer->token.text; /* it may be on the next line already */
    lexer->line = lexer->token.line;
    lexer->at += strcspn(lexer->at, "\n");
    lexer_next(lexer);
}

void lexer_skip_braces(struct lexer *lexer) {
    unsigned int depth = 0;

    for (; lexer->token.kind != TOKEN_END; lexer_next(lexer)) {
        depth += lexer_at_mark(lexer, '{');
        if (lexer_at_mark(lexer, '}') && --depth == 0)
            break;
    }
    lexer_expect_mark(lexer, '}');
}

/* --- constant expressions: PTX ISA, "Constant Expressions" --- */

static bool take_expression(struct lexer *lexer, unsigned int lowest, uint64_t *value);

static bool take_cast(struct lexer *lexer) {
    const char *at = lexer->at; /* behind the parenthesis */

    at += strspn(at, " \t");
    return lexer_at_mark(lexer, '(') &&
           (strncmp(at, ".s64", 4) == 0 || strncmp(at, ".u64", 4) == 0);
}

static bool take_unary(struct lexer *lexer, uint64_t *value) {
    const struct token token = lexer->token;
    bool cast = take_cast(lexer);

    if (token.kind == TOKEN_NUMBER) {
        *value = token.number;
        lexer_next(lexer);
        return true;
    }
    if (token.kind == TOKEN_WORD && token_is(&token, "WARP_SZ")) {
        *value = 32;
        lexer_next(lexer);
        return true;
    }
    if (token.kind != TOKEN_MARK || token.length != 1 || strchr("-+!~(", token.text[0]) == NULL)
        return lexer_fail(lexer, "a number is expected before '%.*s'", (int)token.length,
                          token.text);
    lexer_next(lexer);
    if (cast) {
        lexer_next(lexer);
        return lexer_expect_mark(lexer, ')') && take_unary(lexer, value);
    }
    if (token.text[0] == '(')
        return take_expression(lexer, 1, value) && lexer_expect_mark(lexer, ')');
    if (!take_unary(lexer, value))
        return false;
    switch (token.text[0]) {
    case '-':
        *value = -*value;
        return true;
    case '!':
        *value = *value == 0;
        return true;
    case '~':
        *value = ~*value;
        return true;
    default:
        return true;
    }
}

static const struct {
    const char *text;
    unsigned int precedence; /* 1: the last one */
} operators[] = {{"||", 1}, {"&&", 2}, {"|", 3},  {"^", 4},  {"&", 5},  {"==", 6},
                 {"!=", 6}, {"<=", 7}, {">=", 7}, {"<", 7},  {">", 7},  {"<<", 8},
                 {">>", 8}, {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};

static int operator_at(const struct lexer *lexer) {
    for (int i = 0; i < (int)(sizeof operators / sizeof *operators); i++)
        if (lexer->token.kind == TOKEN_MARK && token_is(&lexer->token, operators[i].text))
            return i;
    return -1;
}

static uint64_t apply(const char *text, uint64_t a, uint64_t b) {
    int64_t x = (int64_t)a, y = (int64_t)b;

    switch (text[0]) {
    case '|':
        return text[1] == '|' ? a != 0 || b != 0 : (a | b);
    case '&':
        return text[1] == '&' ? a != 0 && b != 0 : (a & b);
    case '^':
        return a ^ b;
    case '=':
        return a == b;
    case '!':
        return a != b;
    case '<':
        return text[1] == '<' ? a << (b & 63) : text[1] == '=' ? x <= y : x < y;
    case '>':
        return text[1] == '>' ? (uint64_t)(x >> (b & 63)) : text[1] == '=' ? x >= y : x > y;
    case '+':
        return a + b;
    case '-':
        return a - b;
    case '*':
        return a * b;
    default:
        if (y == 0 || (y == -1 && x == INT64_MIN))
            return 0;
        return (uint64_t)(text[0] == '/' ? x / y : x % y);
    }
}

static bool take_expression(struct lexer *lexer, unsigned int lowest, uint64_t *value) {
    int which;

    if (!take_unary(lexer, value))
        return false;
    while ((which = operator_at(lexer)) >= 0 && operators[which].precedence >= lowest) {
        uint64_t right = 0;

        lexer_next(lexer);
        if (!take_expression(lexer, operators[which].precedence + 1, &right))
            return false;
        *value = apply(operators[which].text, *value, right);
    }
    return true;
}

bool lexer_expect_number(struct lexer *lexer, uint64_t *number) {
    *number = 0;
    return take_expression(lexer, 1, number);
}
