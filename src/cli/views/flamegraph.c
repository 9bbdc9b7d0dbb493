/* Collapsed stacks, as flamegraph.pl reads them: a line for each site, "program;outer;inner
 * weight". */
#include "cli/views/stack.h"

#include <stdlib.h>

/* A semicolon separates frames, and the end of the line stacks. */
static void write_frame(FILE *file, const char *name) {
    for (; *name; name++)
        fputc(*name == ';'                                    ? ':'
              : (unsigned char)*name < ' ' || *name == '\x7f' ? '?'
                                                              : *name,
              file);
}

bool view_flamegraph(FILE *file, const struct view_input *input) {
    const struct stats_page *page = input->merged;
    size_t count;
    const struct stats_site **sites = stack_sites(page, &count);
    struct stack *stack = malloc(sizeof *stack);
    for (size_t i = 0; stack && sites && i < count; i++) {
        uint64_t weight = stack_weight(sites[i], input->weight);
        char label[STACK_LABEL];
        if (!weight)
            continue;
        stack_of_site(stack, input, page, sites[i]);
        write_frame(file, stack_program(page));
        for (size_t f = 0; f < stack->count; f++) {
            stack_label(label, &stack->frames[f]);
            fputc(';', file);
            write_frame(file, label);
        }
        fprintf(file, " %llu\n", (unsigned long long)weight);
    }
    bool done = stack && sites;
    free(stack);
    free(sites);
    return done;
}
