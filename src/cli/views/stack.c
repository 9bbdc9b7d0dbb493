#include "cli/views/stack.h"

#include <stdlib.h>
#include <string.h>

const struct stats_site **stack_sites(const struct stats_page *page, size_t *count) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers
    const struct stats_site **sites = calloc((size_t)page->site_count + 1, sizeof *sites);
    *count = 0;
    for (uint32_t i = 0; sites && i < page->site_count; i++)
        if (page->sites[i].depth && stats_site_allocations(&page->sites[i]))
            sites[(*count)++] = &page->sites[i];
    return sites;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *stack_program(const struct stats_page *page) {
    const char *name = base_name(page->command);
    return *name ? name : "(unknown program)";
}

static void add_frame(struct stack *stack, struct stack_frame frame) {
    if (stack->count < sizeof stack->frames / sizeof stack->frames[0])
        stack->frames[stack->count++] = frame;
}

static void add_place(struct stack *stack, const struct view_input *input,
                      const struct stats_page *page, uint32_t module, uint64_t offset,
                      char text[static PAGE_MODULE_NAME + 24]) {
    struct symbol_place place = symbols_find(input->symbols, page, module, offset);
    for (size_t i = place.count; i > 0; i--)
        add_frame(stack, (struct stack_frame){.function = place.symbols[i - 1].function,
                                              .file = place.symbols[i - 1].file,
                                              .line = place.symbols[i - 1].line,
                                              .into = place.symbols[i - 1].into,
                                              .module = module,
                                              .offset = offset,
                                              .caller = i > 1});
    if (place.count)
        return;
    const char *path = page->modules[module].path;
    snprintf(text, PAGE_MODULE_NAME + 24, "%s+0x%llx", *path ? base_name(path) : "(unknown)",
             (unsigned long long)offset);
    add_frame(stack, (struct stack_frame){.function = text, .module = module, .offset = offset});
}

/* What calls a program's main function, or a thread's. Stacks of a few frames begin now with it and
 * now below it, and would be told apart by that. */
static bool starts_code(const char *function) {
    static const char *const names[] = {"__libc_start_call_main",
                                        "__libc_start_main",
                                        "__libc_start_main_impl",
                                        "_start",
                                        "start_thread",
                                        "clone",
                                        "clone3",
                                        "__clone",
                                        "__clone3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(function, names[i]) == 0)
            return true;
    return false;
}

static void drop_start(struct stack *stack) {
    size_t first = 0;
    while (first + 1 < stack->count && starts_code(stack->frames[first].function))
        first++;
    stack->count -= first;
    memmove(stack->frames, stack->frames + first, stack->count * sizeof stack->frames[0]);
}

void stack_of_site(struct stack *stack, const struct view_input *input,
                   const struct stats_page *page, const struct stats_site *site) {
    stack->count = 0;
    if (site == &page->sites[0]) {
        add_frame(stack, (struct stack_frame){.function = "(further sites)"});
        return;
    }
    if (site->tag) {
        snprintf(stack->texts[0], sizeof stack->texts[0], "[%s]", page->tags[site->tag - 1]);
        add_frame(stack, (struct stack_frame){.function = stack->texts[0]});
        return;
    }
    for (uint32_t d = site->depth; d > 0; d--)
        add_place(stack, input, page, site->module[d - 1], site->offset[d - 1],
                  stack->texts[d - 1]);
    drop_start(stack);
}

void stack_label(char label[STACK_LABEL], const struct stack_frame *frame) {
    char place[96] = "";
    if (frame->file)
        snprintf(place, sizeof place, " (%.70s:%u)", base_name(frame->file), frame->line);
    else if (frame->into)
        snprintf(place, sizeof place, "+0x%llx", (unsigned long long)frame->into);
    snprintf(label, STACK_LABEL, "%.*s%s", (int)(STACK_LABEL - 1 - strlen(place)), frame->function,
             place);
}

uint64_t stack_weight(const struct stats_site *site, enum view_weight weight) {
    switch (weight) {
    case VIEW_WEIGHT_allocations:
        return stats_site_allocations(site);
    case VIEW_WEIGHT_peak:
        return stats_read(&site->peak_live_bytes);
    case VIEW_WEIGHT_live:
        return stats_read(&site->live_bytes);
    default:
        return stats_read(&site->allocated_bytes);
    }
}

void stack_write(const char *text, size_t length, void *state) {
    fwrite(text, 1, length, state);
}
