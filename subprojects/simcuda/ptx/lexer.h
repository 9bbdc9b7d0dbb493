/* PTX text as tokens. PTX ISA, "Syntax". */
#ifndef SIMCUDA_PTX_LEXER_H
#define SIMCUDA_PTX_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token_kind {
    TOKEN_END,    /* of the text, and after a failure for ever */
    TOKEN_WORD,   /* a name, with %, $ and _ */
    TOKEN_DOT,    /* a directive or a modifier, without its dot */
    TOKEN_NUMBER, /* an integer */
    TOKEN_FLOAT,  /* as a double's bits; of an 0f literal also as a float's */
    TOKEN_STRING, /* without its quotation marks */
    TOKEN_MARK    /* one character, or two as << */
};

struct token {
    enum token_kind kind;
    const char *text;
    size_t length;
    uint64_t number; /* of TOKEN_NUMBER, and the bits of TOKEN_FLOAT */
    uint32_t single; /* the bits of an 0f literal */
    bool is_single;
    bool is_unsigned; /* an integer with a U behind it, or beyond .s64 */
    unsigned int line;
    bool joined; /* nothing stands between it and the token before it */
};

enum { FAILURE_ROOM = 200 };

/* What is wrong with a text. line == 0: nothing. */
struct failure {
    unsigned int line;
    char text[FAILURE_ROOM];
};

/* Invariant: `token` is the next one that nobody has taken. */
struct lexer {
    const char *at;
    unsigned int line;
    unsigned int depth; /* of the expression that is read, in parentheses and behind signs */
    struct token token;
    struct failure *failure;
};

void lexer_begin(struct lexer *lexer, const char *text, struct failure *failure);
void lexer_next(struct lexer *lexer);

/* Says what is wrong at the token; from then on there are no more. Only the first call counts.
 * Returns false. */
__attribute__((format(printf, 2, 3))) bool lexer_fail(struct lexer *lexer, const char *format, ...);

bool token_is(const struct token *token, const char *text); /* a mark, word or dot word */
bool lexer_at_mark(const struct lexer *lexer, char mark);
bool lexer_at_dot(const struct lexer *lexer, const char *word);
bool lexer_take_mark(struct lexer *lexer, char mark);            /* if it is there */
bool lexer_take_dot(struct lexer *lexer, const char *word);      /* if it is there */
bool lexer_expect_mark(struct lexer *lexer, char mark);          /* fails otherwise */
bool lexer_expect_number(struct lexer *lexer, uint64_t *number); /* a constant expression */

/* Behind the end of the line, or behind the brace that closes the one that comes next. */
void lexer_skip_line(struct lexer *lexer);
void lexer_skip_braces(struct lexer *lexer);

#endif
