/* Inside the reader of a shell's text: words and expansions are read in one file, commands in
 * another. */
#ifndef POOLCUDA_CLI_DOCTOR_SHELL_PARSER_H
#define POOLCUDA_CLI_DOCTOR_SHELL_PARSER_H

#include "cli/doctor/shell_text.h"

enum { OPEN = 64, HERE = 8, WORD_ROOM = 1 << 16 };

/* Constructs that are open: what is in them is reached or not. A group of commands always is. */
enum construct { GROUP, CONDITION, BRANCH, LOOP, CASE };

struct parser {
    const struct shell_reader *reader;
    const char *at, *end;
    unsigned depth;
    enum construct open[OPEN];
    size_t open_count;
    bool perhaps;    /* what the whole text is */
    bool chained;    /* behind && or || */
    bool piped;      /* behind | */
    bool silent;     /* the body of a function: it is only passed over */
    bool in_pattern; /* of a case */
    struct here {
        char *end;
        bool strips;
        struct shell_command *command; /* whose input it is; NULL: it has been reported */
    } here[HERE];
    size_t here_count;
    struct shell_command *now;
};

struct word {
    char *text;
    size_t length;
    bool quoted; /* in part */
    bool assigns;
};

static inline char peek(const struct parser *parser, size_t ahead) {
    return (size_t)(parser->end - parser->at) > ahead ? parser->at[ahead] : '\0';
}

/* A list in brackets, as of behind the bracket, with its end. */
void shell_read_inside(struct parser *parser, char closer);

/* Past "))" of arithmetic. */
void shell_pass_arithmetic(struct parser *parser);

/* One word from where the reader stands, of which `word` gets the end: what it gives before that
 * end, as "$@" does, goes into the command. `splits`: blanks in values end words. */
void shell_read_word(struct parser *parser, struct word *word, bool splits);

void shell_add(struct word *word, char c);

/* The word goes into the command, if there is anything in it or `force` says so, and is then empty.
 */
void shell_add_word(struct parser *parser, struct word *word, bool force);

/* What the word begins anew with. */
static inline void shell_clear_word(struct word *word) {
    word->length = 0;
    word->quoted = word->assigns = false;
}

#endif
