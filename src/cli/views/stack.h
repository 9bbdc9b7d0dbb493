/* The sites of a page as call stacks, for the views that are profiles. */
#ifndef POOLCUDA_CLI_VIEWS_STACK_H
#define POOLCUDA_CLI_VIEWS_STACK_H

#include "cli/views/views.h"

enum { STACK_INLINED = 32, STACK_LABEL = 384 };

/* One function of a stack. Invariant: function is never NULL; file is NULL and line 0 if unknown.
 */
struct stack_frame {
    const char *function, *file;
    unsigned line;
    uint64_t into;   /* as of symbols: 0 where the file is known */
    uint32_t module; /* of the page; 0: none, as with a tag */
    uint64_t offset;
    bool caller; /* the next frame of this stack is inlined into this one */
};

/* Invariant: frames are outermost first, and point into `texts` or live as long as the symbols. */
struct stack {
    struct stack_frame frames[CALL_SITE_MAX_DEPTH * STACK_INLINED];
    size_t count;
    char texts[CALL_SITE_MAX_DEPTH][PAGE_MODULE_NAME + 24];
};

/* The sites of a page that allocated, in the page's order. Returns NULL if there is no memory;
 * free. */
const struct stats_site **stack_sites(const struct stats_page *page, size_t *count);

/* Without what the C library calls the program's own code by. */
void stack_of_site(struct stack *stack, const struct view_input *input,
                   const struct stats_page *page, const struct stats_site *site);

/* "function (file.c:12)", "function+0x1f" or "module+0x12". */
void stack_label(char label[STACK_LABEL], const struct stack_frame *frame);

uint64_t stack_weight(const struct stats_site *site, enum view_weight weight);

/* The executable's name without its folders. */
const char *stack_program(const struct stats_page *page);

/* For the emitter: writes to the FILE that state is. */
void stack_write(const char *text, size_t length, void *state);

#endif
