/* Inside the reader of Python texts: what they are made of. */
#ifndef POOLCUDA_CLI_DOCTOR_PYTHON_TOKENS_H
#define POOLCUDA_CLI_DOCTOR_PYTHON_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

enum kind { END, NAME, STRING, MIXED_STRING, SIGN };

struct token {
    enum kind kind;
    char sign;
    bool first;  /* of a statement */
    bool margin; /* of a line, without a blank before it */
    const char *start;
    size_t length;
    size_t column;  /* in its line */
    unsigned depth; /* of brackets, before it */
};

/* Where in the text the reader stands. */
struct reader {
    const char *at, *end, *line;
    unsigned depth; /* of brackets: no statement ends in them */
    bool fresh;     /* a statement begins here */
    bool margin;
    bool outermost; /* the statement is at the margin, not in another */
    bool follows;   /* behind a ";" of a line that began at the margin */
    struct token last, before, now, next;
    size_t call;      /* how deep the inside of a call that starts a program is; 0: in none */
    bool command;     /* the call's first argument is being read, */
    bool in_list;     /* which is a list */
    char *words;      /* of that list, as a shell would be given them; NULL: none yet */
    bool deletes;     /* the statement is "del ..." */
    bool assigns;     /* behind its "=" */
    bool reflects;    /* functions are reached by names, of whichever module that is imported */
    size_t statement; /* the column of the last "if" */
    bool skips;       /* what only checkers of types read, */
    size_t beyond;    /* to the right of this column */
};

/* To the next token. */
void step(struct reader *reader);

bool is_name(const struct token *token, const char *name);
bool is_one_of(const struct token *token, const char *const *names); /* ends with NULL */
bool is_sign(const struct token *token, char sign);

#endif
