/* Programs: texts that are linked by their names. */
#include "allocate.h"
#include "parser.h"
#include "simt.h"
#include "system.h"

#include <stdlib.h>
#include <string.h>

static void release_parser(struct parser *parser) {
    struct module_name *name, *next;

    HASH_ITER (hh, parser->module_names, name, next) {
        // NOLINTNEXTLINE(clang-analyzer-*): it is in the table
        HASH_DEL(parser->module_names, name);
        free(name);
    }
    free(parser->bodies.items);
    free(parser->names.items);
    free(parser->labels.items);
    free(parser->uses.items);
    free(parser->code.items);
    free(parser->constants.items);
    free((void *)parser->callees.items);
    free((void *)parser->shared.items);
}

static bool parse_text(struct simt_program *program, const char *text, struct failure *failure) {
    struct parser parser = {.program = program, .failure = failure};
    bool parsed;

    lexer_begin(&parser.lexer, text, failure);
    parsed = parse_module(&parser);
    release_parser(&parser);
    program->units++;
    return parsed && failure->line == 0;
}

/* --- linking --- */

/* A name that texts share. */
struct shared_name {
    struct function *function;
    struct variable *variable;
    bool weak;
    UT_hash_handle hh;
};

static void offer(struct shared_name **table, const char *text, bool weak,
                  struct function *function, struct variable *variable) {
    struct shared_name *name;

    HASH_FIND_STR(*table, text, name);
    if (name == NULL) {
        name = allocate_zeroed(sizeof *name);
        name->weak = true;
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it is in the table
        HASH_ADD_KEYPTR(hh, *table, text, strlen(text), name);
    }
    if ((name->function == NULL && name->variable == NULL) || (name->weak && !weak)) {
        name->function = function;
        name->variable = variable;
        name->weak = weak;
    }
}

static struct shared_name *offer_all(const struct simt_program *program) {
    struct shared_name *table = NULL;

    for (struct function *function = program->functions; function != NULL;
         function = function->next)
        if (function->defined && function->linkage != LINKAGE_STATIC)
            offer(&table, function->name, function->linkage == LINKAGE_WEAK, function, NULL);
    for (struct variable *variable = program->variables; variable != NULL;
         variable = variable->next)
        if (variable->linkage == LINKAGE_VISIBLE || variable->linkage == LINKAGE_WEAK)
            offer(&table, variable->name, variable->linkage == LINKAGE_WEAK, NULL, variable);
    return table;
}

static void drop_names(struct shared_name *table) {
    struct shared_name *name, *next;

    HASH_ITER (hh, table, name, next) {
        // NOLINTNEXTLINE(clang-analyzer-*): it is in the table
        HASH_DEL(table, name);
        free(name);
    }
}

static bool is_shared(const struct variable *variable) {
    return variable->space == SPACE_SHARED;
}

/* What is only declared becomes what another text defines, or the device. What nobody defines stays
 * as it is: only who calls it fails. */
static void link_texts(struct simt_program *program) {
    struct shared_name *table = offer_all(program), *name;

    for (struct function *function = program->functions; function != NULL;
         function = function->next) {
        HASH_FIND_STR(table, function->name, name);
        if (name != NULL && function->linkage != LINKAGE_STATIC && name->function != function &&
            name->function != NULL)
            function->resolved = name->function;
        else if (!function->defined && function->resolved == NULL)
            function->system = system_function(function->name);
        program->uses_heap = program->uses_heap ||
                             (function->system != NULL && strcmp(function->name, "malloc") == 0);
    }
    for (struct variable *variable = program->variables; variable != NULL;
         variable = variable->next) {
        HASH_FIND_STR(table, variable->name, name);
        if (name != NULL && variable->linkage != LINKAGE_STATIC && name->variable != variable &&
            name->variable != NULL && is_shared(name->variable) == is_shared(variable))
            variable->resolved = name->variable;
    }
    drop_names(table);
}

struct simt_program *simt_parse(const char *const *texts, unsigned int count,
                                struct simt_failure *out, unsigned int *which) {
    struct simt_program *program = allocate_zeroed(sizeof *program);
    struct failure failure = {0};

    program->references = 1;
    for (*which = 0; *which < count; ++*which) {
        if (parse_text(program, texts[*which], &failure))
            continue;
        out->line = failure.line;
        memcpy(out->text, failure.text, sizeof out->text);
        simt_drop(program);
        return NULL;
    }
    link_texts(program);
    return program;
}

struct simt_program *simt_keep(struct simt_program *program) {
    if (program != NULL)
        __atomic_add_fetch(&program->references, 1, __ATOMIC_RELAXED);
    return program;
}

void simt_drop(struct simt_program *program) {
    if (program == NULL || __atomic_sub_fetch(&program->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    arena_release(&program->arena);
    free(program);
}

bool simt_next_variable(const struct simt_program *program, struct simt_variable *out) {
    const struct variable *variable =
        out->state == NULL ? program->variables : ((const struct variable *)out->state)->next;

    while (variable != NULL && (variable->space == SPACE_SHARED || variable->resolved != NULL))
        variable = variable->next;
    if (variable == NULL)
        return false;
    *out = (struct simt_variable){.name = variable->name,
                                  .unit = variable->unit,
                                  .index = variable->index,
                                  .size = variable->size,
                                  .alignment = variable->alignment,
                                  .constant = variable->space == SPACE_CONST,
                                  .managed = variable->managed,
                                  .is_static = variable->linkage == LINKAGE_STATIC,
                                  .is_reference = type_is_opaque(variable->type),
                                  .initial = variable->initial,
                                  .state = variable};
    return true;
}
