#include "lexer.h"

#include <ctype.h>
#include <locale.h>
#include <pthread.h>
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

static locale_t plain;
static pthread_once_t plain_once = PTHREAD_ONCE_INIT;

static void make_plain(void) {
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* as long as the process */
}

/* With a point, whatever the program's own locale has for it. */
static void take_decimal(struct lexer *lexer, struct token *token) {
    char *end;
    double value;

    pthread_once(&plain_once, make_plain);
    value = plain != (locale_t)0 ? strtod_l(lexer->at, &end, plain) : strtod(lexer->at, &end);
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
    token->is_unsigned = *end == 'U' || token->number > INT64_MAX;
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
    } else if (is_word_character(c) || (c == '%' && is_word_character(lexer->at[1]))) {
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

/* PTX ISA, "Integer Constant Expression Evaluation". */
struct lexer_value {
    uint64_t bits;
    bool is_unsigned; /* .u64, else .s64 */
};

enum { MOST_NESTED = 256 }; /* expressions in one another */

static bool take_expression(struct lexer *lexer, unsigned int lowest, struct lexer_value *value);
static bool take_unary(struct lexer *lexer, struct lexer_value *value);

static bool take_cast(const struct lexer *lexer) {
    const char *at = lexer->at; /* behind the parenthesis */

    at += strspn(at, " \t");
    return lexer_at_mark(lexer, '(') &&
           (strncmp(at, ".s64", 4) == 0 || strncmp(at, ".u64", 4) == 0);
}

/* Behind the sign, which stands before a value. */
static bool apply_sign(struct lexer *lexer, char sign, struct lexer_value *value) {
    if (!take_unary(lexer, value))
        return false;
    switch (sign) {
    case '-':
        value->bits = -value->bits;
        return true;
    case '!':
        *value = (struct lexer_value){value->bits == 0, false};
        return true;
    case '~':
        *value = (struct lexer_value){~value->bits, true};
        return true;
    default:
        return true;
    }
}

static bool take_signed(struct lexer *lexer, struct lexer_value *value) {
    const struct token token = lexer->token;
    bool is_cast = take_cast(lexer);

    lexer_next(lexer);
    if (is_cast) {
        bool is_unsigned = lexer_at_dot(lexer, "u64");

        lexer_next(lexer);
        if (!lexer_expect_mark(lexer, ')') || !take_unary(lexer, value))
            return false;
        value->is_unsigned = is_unsigned;
        return true;
    }
    if (token.text[0] == '(')
        return take_expression(lexer, 0, value) && lexer_expect_mark(lexer, ')');
    return apply_sign(lexer, token.text[0], value);
}

static bool take_unary(struct lexer *lexer, struct lexer_value *value) {
    const struct token token = lexer->token;
    bool taken;

    if (token.kind == TOKEN_NUMBER) {
        *value = (struct lexer_value){token.number, token.is_unsigned};
        lexer_next(lexer);
        return true;
    }
    if (token.kind == TOKEN_WORD && token_is(&token, "WARP_SZ")) {
        *value = (struct lexer_value){32, false};
        lexer_next(lexer);
        return true;
    }
    if (token.kind != TOKEN_MARK || token.length != 1 || strchr("-+!~(", token.text[0]) == NULL)
        return lexer_fail(lexer, "a number is expected before '%.*s'", (int)token.length,
                          token.text);
    if (lexer->depth == MOST_NESTED)
        return lexer_fail(lexer, "an expression has too many parts in one another");
    lexer->depth++;
    taken = take_signed(lexer, value);
    lexer->depth--;
    return taken;
}

static const struct {
    const char *text;
    unsigned int precedence; /* 0, the last one, is that of ?: */
} operators[] = {{"||", 1}, {"&&", 2}, {"|", 3},  {"^", 4},  {"&", 5},  {"==", 6},
                 {"!=", 6}, {"<=", 7}, {">=", 7}, {"<", 7},  {">", 7},  {"<<", 8},
                 {">>", 8}, {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};

static int operator_at(const struct lexer *lexer) {
    for (int i = 0; i < (int)(sizeof operators / sizeof *operators); i++)
        if (lexer->token.kind == TOKEN_MARK && token_is(&lexer->token, operators[i].text))
            return i;
    return -1;
}

static uint64_t divide(char which, struct lexer_value a, struct lexer_value b, bool is_unsigned) {
    int64_t x = (int64_t)a.bits, y = (int64_t)b.bits;

    if (b.bits == 0 || (!is_unsigned && y == -1 && x == INT64_MIN))
        return 0;
    if (is_unsigned)
        return which == '/' ? a.bits / b.bits : a.bits % b.bits;
    return (uint64_t)(which == '/' ? x / y : x % y);
}

static bool is_less(struct lexer_value a, struct lexer_value b) {
    return a.is_unsigned || b.is_unsigned ? a.bits < b.bits : (int64_t)a.bits < (int64_t)b.bits;
}

/* What compares gives a .s64. */
static struct lexer_value compare(const char *text, struct lexer_value a, struct lexer_value b) {
    switch (text[0]) {
    case '=':
        return (struct lexer_value){a.bits == b.bits, false};
    case '!':
        return (struct lexer_value){a.bits != b.bits, false};
    case '|':
        return (struct lexer_value){a.bits != 0 || b.bits != 0, false};
    case '&':
        return (struct lexer_value){a.bits != 0 && b.bits != 0, false};
    case '<':
        return (struct lexer_value){text[1] == '=' ? !is_less(b, a) : is_less(a, b), false};
    default:
        return (struct lexer_value){text[1] == '=' ? !is_less(a, b) : is_less(b, a), false};
    }
}

/* A shift's type is that of what is shifted. */
static struct lexer_value shift(const char *text, struct lexer_value a, struct lexer_value b) {
    unsigned int by = b.bits & 63;

    if (text[0] == '<')
        a.bits <<= by;
    else
        a.bits = a.is_unsigned ? a.bits >> by : (uint64_t)((int64_t)a.bits >> by);
    return a;
}

static struct lexer_value apply(const char *text, struct lexer_value a, struct lexer_value b) {
    bool is_unsigned = a.is_unsigned || b.is_unsigned;

    if (text[1] != '\0' && text[0] == text[1] && strchr("<>", text[0]) != NULL)
        return shift(text, a, b);
    if (text[1] != '\0' || strchr("<>", text[0]) != NULL)
        return compare(text, a, b);
    switch (text[0]) {
    case '|':
        return (struct lexer_value){a.bits | b.bits, is_unsigned};
    case '&':
        return (struct lexer_value){a.bits & b.bits, is_unsigned};
    case '^':
        return (struct lexer_value){a.bits ^ b.bits, is_unsigned};
    case '+':
        return (struct lexer_value){a.bits + b.bits, is_unsigned};
    case '-':
        return (struct lexer_value){a.bits - b.bits, is_unsigned};
    case '*':
        return (struct lexer_value){a.bits * b.bits, is_unsigned};
    default:
        return (struct lexer_value){divide(text[0], a, b, is_unsigned), is_unsigned};
    }
}

/* condition ? a : b, of which the condition is in *value. */
static bool take_choice(struct lexer *lexer, struct lexer_value *value) {
    struct lexer_value first = {0}, second = {0};

    if (lexer->depth == MOST_NESTED)
        return lexer_fail(lexer, "an expression has too many parts in one another");
    lexer->depth++;
    lexer_next(lexer);
    if (!take_expression(lexer, 0, &first) || !lexer_expect_mark(lexer, ':') ||
        !take_expression(lexer, 0, &second))
        return false;
    lexer->depth--;
    *value = value->bits != 0 ? first : second;
    return true;
}

static bool take_expression(struct lexer *lexer, unsigned int lowest, struct lexer_value *value) {
    int which;

    if (!take_unary(lexer, value))
        return false;
    while ((which = operator_at(lexer)) >= 0 && operators[which].precedence >= lowest) {
        struct lexer_value right = {0};

        lexer_next(lexer);
        if (!take_expression(lexer, operators[which].precedence + 1, &right))
            return false;
        *value = apply(operators[which].text, *value, right);
    }
    return lowest != 0 || !lexer_at_mark(lexer, '?') || take_choice(lexer, value);
}

bool lexer_expect_number(struct lexer *lexer, uint64_t *number) {
    struct lexer_value value = {0};
    bool taken = take_expression(lexer, 0, &value);

    *number = value.bits;
    return taken;
}
