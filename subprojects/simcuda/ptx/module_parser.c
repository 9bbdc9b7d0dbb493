/* What stands outside of bodies: the head, functions, variables. PTX ISA, "Directives". */
#include "allocate.h"
#include "parser.h"
#include "system.h"

#include <stdlib.h>
#include <string.h>

static void add_function(struct simt_program *program, struct function *function) {
    function->index = program->function_count++;
    if (program->last_function == NULL)
        program->functions = function;
    else
        program->last_function->next = function;
    program->last_function = function;
}

static void add_variable(struct simt_program *program, struct variable *variable) {
    variable->index =
        variable->space == SPACE_SHARED ? program->shared_count++ : program->global_count++;
    if (program->last_variable == NULL)
        program->variables = variable;
    else
        program->last_variable->next = variable;
    program->last_variable = variable;
}

/* .version 9.0: above what is known instructions fail, not the number. */
static bool take_version(struct parser *parser) {
    struct lexer *lexer = &parser->lexer;
    bool old = lexer->token.kind == TOKEN_FLOAT && lexer->token.text[1] == '.' &&
               lexer->token.text[0] < '3';

    if (lexer->token.kind != TOKEN_FLOAT)
        return lexer_fail(lexer, "a version is expected before '%.*s'", (int)lexer->token.length,
                          lexer->token.text);
    if (old)
        return lexer_fail(lexer, "version %.*s of PTX is too old", (int)lexer->token.length,
                          lexer->token.text);
    lexer_next(lexer);
    return true;
}

/* .target sm_90a, debug */
static bool take_target(struct parser *parser) {
    struct lexer *lexer = &parser->lexer;

    do {
        const struct token *token = &lexer->token;
        unsigned int target;

        if (token->kind != TOKEN_WORD)
            return lexer_fail(lexer, "a target is expected before '%.*s'", (int)token->length,
                              token->text);
        if (token->length > 3 && memcmp(token->text, "sm_", 3) == 0) {
            target = (unsigned int)strtoul(token->text + 3, NULL, 10);
            if (target > parser->program->target)
                parser->program->target = target;
        }
        lexer_next(lexer);
    } while (lexer_take_mark(lexer, ','));
    return true;
}

static bool take_address_size(struct parser *parser) {
    uint64_t bits;

    if (!lexer_expect_number(&parser->lexer, &bits))
        return false;
    return bits == 64 || lexer_fail(&parser->lexer, "addresses of %llu bits are not simulated",
                                    (unsigned long long)bits);
}

/* .section .debug_str { ... } */
static bool take_section(struct parser *parser) {
    while (!lexer_at_mark(&parser->lexer, '{') && parser->lexer.token.kind != TOKEN_END)
        lexer_next(&parser->lexer);
    lexer_skip_braces(&parser->lexer);
    return parser->failure->line == 0;
}

static bool take_pragma(struct parser *parser) {
    while (!lexer_at_mark(&parser->lexer, ';') && parser->lexer.token.kind != TOKEN_END)
        lexer_next(&parser->lexer);
    return lexer_expect_mark(&parser->lexer, ';');
}

static enum linkage take_linkage(struct parser *parser) {
    struct lexer *lexer = &parser->lexer;
    enum linkage linkage = LINKAGE_STATIC;

    for (;;) {
        if (lexer_take_dot(lexer, "visible"))
            linkage = LINKAGE_VISIBLE;
        else if (lexer_take_dot(lexer, "extern"))
            linkage = LINKAGE_EXTERN;
        else if (lexer_take_dot(lexer, "weak") || lexer_take_dot(lexer, "common"))
            linkage = LINKAGE_WEAK;
        else
            return linkage;
    }
}

/* --- functions --- */

/* .maxntid 32, 4 .noreturn .pragma "x": what stands between parameters and body. */
static void take_directives(struct parser *parser, struct function *function) {
    struct lexer *lexer = &parser->lexer;

    while (lexer->token.kind != TOKEN_END && !lexer_at_mark(lexer, '{') &&
           !lexer_at_mark(lexer, ';')) {
        function->noreturn = function->noreturn || lexer_at_dot(lexer, "noreturn");
        if (lexer->token.kind == TOKEN_MARK && !lexer_at_mark(lexer, ',')) {
            lexer_fail(lexer, "'{' or ';' is expected before '%.*s'", (int)lexer->token.length,
                       lexer->token.text);
            return;
        }
        lexer_next(lexer);
    }
    if (lexer_at_mark(lexer, ';') && lexer->token.text[0] == ';' && !function->kernel)
        return;
}

/* The function of that name, which may have been declared before. NULL: failed. */
static struct function *take_name(struct parser *parser, enum linkage linkage, bool kernel) {
    struct lexer *lexer = &parser->lexer;
    struct module_name *known = find_in_module(parser, &lexer->token);
    struct function *function;

    if (lexer->token.kind != TOKEN_WORD || (known != NULL && known->function == NULL)) {
        lexer_fail(lexer, "a function's name is expected before '%.*s'", (int)lexer->token.length,
                   lexer->token.text);
        return NULL;
    }
    if (known != NULL) {
        function = known->function;
    } else {
        function = arena_take(&parser->program->arena, sizeof *function);
        function->name =
            arena_text(&parser->program->arena, lexer->token.text, lexer->token.length);
        function->unit = parser->program->units;
        function->linkage = linkage;
        add_function(parser->program, function);
        add_to_module(parser, function->name, function, NULL);
    }
    function->kernel = kernel;
    lexer_next(lexer);
    return function;
}

static void name_parameters(struct parser *parser, struct variable *list) {
    for (struct variable *variable = list; variable != NULL; variable = variable->next) {
        if (variable->space != SPACE_REG) {
            add_local_variable(parser, variable);
            continue;
        }
        variable->row = new_row(parser);
        VECTOR_ADD(&parser->names, ((struct local_name){.text = variable->name,
                                                        .length = strlen(variable->name),
                                                        .kind = NAME_REGISTERS,
                                                        .type = variable->type,
                                                        .lanes = 1,
                                                        .first = variable->row}));
    }
}

static void *keep(struct parser *parser, const void *items, size_t bytes) {
    return bytes == 0 ? NULL : memcpy(arena_take(&parser->program->arena, bytes), items, bytes);
}

/* What the body became is the function's. */
static void finish_function(struct parser *parser, struct function *function) {
    function->code =
        keep(parser, parser->code.items, parser->code.count * sizeof *parser->code.items);
    function->count = (unsigned int)parser->code.count;
    function->constants = keep(parser, parser->constants.items,
                               parser->constants.count * sizeof *parser->constants.items);
    function->constant_count = (unsigned int)parser->constants.count;
    function->callees =
        keep(parser, (void *)parser->callees.items, parser->callees.count * sizeof(void *));
    function->callee_count = (unsigned int)parser->callees.count;
    function->shared =
        keep(parser, (void *)parser->shared.items, parser->shared.count * sizeof(void *));
    function->shared_count = (unsigned int)parser->shared.count;
}

static bool take_body(struct parser *parser, struct function *function) {
    bool taken;

    parser->function = function;
    function->predicates = FIRST_PREDICATE;
    parser->names.count = parser->labels.count = parser->uses.count = 0;
    parser->code.count = parser->constants.count = 0;
    parser->callees.count = parser->shared.count = 0;
    name_parameters(parser, function->results);
    name_parameters(parser, function->parameters);
    taken = parse_body(parser);
    if (taken)
        finish_function(parser, function);
    parser->function = NULL;
    return taken;
}

static bool take_function(struct parser *parser, enum linkage linkage, bool kernel) {
    struct lexer *lexer = &parser->lexer;
    struct variable *results = NULL, *parameters = NULL;
    struct function *function;
    size_t bytes = 0;

    if (lexer_at_mark(lexer, '(') && !declare_parameters(parser, false, &results, &bytes))
        return false;
    function = take_name(parser, linkage, kernel);
    if (function == NULL)
        return false;
    if (lexer_at_mark(lexer, '(') && !declare_parameters(parser, kernel, &parameters, &bytes))
        return false;
    take_directives(parser, function);
    if (function->defined) {
        if (lexer_at_mark(lexer, '{'))
            return lexer_fail(lexer, "'%s' is defined twice", function->name);
        return lexer_expect_mark(lexer, ';');
    }
    function->results = results;
    function->parameters = parameters;
    if (kernel)
        function->parameter_bytes = bytes;
    else
        function->local_bytes = bytes;
    if (linkage != LINKAGE_STATIC)
        function->linkage = linkage;
    if (!lexer_at_mark(lexer, '{')) {
        lexer_take_mark(lexer, ';');
        return parser->failure->line == 0;
    }
    if (function->resolved != NULL)
        return lexer_fail(lexer, "'%s' is an alias already", function->name);
    if (function->linkage == LINKAGE_EXTERN)
        function->linkage = LINKAGE_VISIBLE;
    function->defined = true;
    VECTOR_ADD(&parser->bodies, ((struct waiting_body){*lexer, function}));
    lexer_skip_braces(lexer);
    return parser->failure->line == 0;
}

struct prototype *parse_prototype(struct parser *parser) {
    struct prototype *prototype = arena_take(&parser->program->arena, sizeof *prototype);
    struct lexer *lexer = &parser->lexer;
    size_t bytes = 0;

    if (lexer_at_mark(lexer, '(') &&
        !declare_parameters(parser, false, &prototype->results, &bytes))
        return NULL;
    if (lexer->token.kind != TOKEN_WORD) {
        lexer_fail(lexer, "'_' is expected before '%.*s'", (int)lexer->token.length,
                   lexer->token.text);
        return NULL;
    }
    lexer_next(lexer);
    if (lexer_at_mark(lexer, '(') &&
        !declare_parameters(parser, false, &prototype->parameters, &bytes))
        return NULL;
    while (lexer->token.kind == TOKEN_DOT || lexer->token.kind == TOKEN_NUMBER) /* .noreturn */
        lexer_next(lexer);
    return lexer_expect_mark(lexer, ';') ? prototype : NULL;
}

/* Whether the function is `other`, or an alias of it. Aliases end at what is none. */
static bool means(const struct function *function, const struct function *other) {
    while (function != other && function->resolved != NULL)
        function = function->resolved;
    return function == other;
}

/* .alias a, b; */
static bool take_alias(struct parser *parser) {
    struct lexer *lexer = &parser->lexer;
    struct module_name *alias = find_in_module(parser, &lexer->token), *meant;

    lexer_next(lexer);
    if (!lexer_expect_mark(lexer, ','))
        return false;
    meant = find_in_module(parser, &lexer->token);
    if (alias == NULL || alias->function == NULL || meant == NULL || meant->function == NULL)
        return lexer_fail(lexer, "an alias is to name two functions");
    if (alias->function->defined || means(meant->function, alias->function))
        return lexer_fail(lexer, "'%s' is a function, or an alias of its own, already",
                          alias->function->name);
    alias->function->resolved = meant->function;
    lexer_next(lexer);
    return lexer_expect_mark(lexer, ';');
}

/* --- variables --- */

static const struct {
    const char *word;
    enum space space;
} spaces[] = {{"global", SPACE_GLOBAL},
              {"const", SPACE_CONST},
              {"shared", SPACE_SHARED},
              {"tex", SPACE_GLOBAL}};

/* .const[2] selects a bank. */
static bool skip_bank(struct lexer *lexer) {
    uint64_t bank;

    return !lexer_take_mark(lexer, '[') ||
           (lexer_expect_number(lexer, &bank) && lexer_expect_mark(lexer, ']'));
}

/* A declaration of an extern variable that was defined before, or the other way round. A name means
 * one variable. */
static bool is_known(struct parser *parser, const struct variable *variable) {
    struct token token = {.text = variable->name, .length = strlen(variable->name)};
    struct module_name *known = find_in_module(parser, &token);

    if (known == NULL || known->variable == NULL)
        return false;
    if (variable->space != known->variable->space)
        return lexer_fail(&parser->lexer, "'%s' is declared in two state spaces", variable->name);
    if (variable->linkage == LINKAGE_EXTERN)
        return true;
    if (known->variable->linkage == LINKAGE_EXTERN) {
        struct variable *next = known->variable->next;
        unsigned int index = known->variable->index;

        *known->variable = *variable;
        known->variable->next = next;
        known->variable->index = index;
        return true;
    }
    if (variable->linkage != LINKAGE_WEAK && known->variable->linkage != LINKAGE_WEAK)
        return lexer_fail(&parser->lexer, "'%s' is defined twice", variable->name);
    return false;
}

static bool take_variables(struct parser *parser, enum space space, enum linkage linkage) {
    struct variable *variable = NULL;

    do {
        variable = declare_variable(parser, space, linkage, variable);
        if (variable == NULL)
            return false;
        if (is_known(parser, variable))
            continue;
        if (parser->failure->line != 0)
            return false;
        add_variable(parser->program, variable);
        add_to_module(parser, variable->name, NULL, variable);
    } while (lexer_take_mark(&parser->lexer, ','));
    return lexer_expect_mark(&parser->lexer, ';');
}

static bool take_declaration(struct parser *parser) {
    struct lexer *lexer = &parser->lexer;
    enum linkage linkage = take_linkage(parser);

    if (lexer_take_dot(lexer, "entry"))
        return take_function(parser, linkage, true);
    if (lexer_take_dot(lexer, "func"))
        return take_function(parser, linkage, false);
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (lexer_take_dot(lexer, spaces[i].word))
            return skip_bank(lexer) && take_variables(parser, spaces[i].space, linkage);
    return lexer_fail(lexer, "a directive is expected before '%.*s'", (int)lexer->token.length,
                      lexer->token.text);
}

static bool take_statement(struct parser *parser) {
    struct lexer *lexer = &parser->lexer;

    if (lexer_take_dot(lexer, "version"))
        return take_version(parser);
    if (lexer_take_dot(lexer, "target"))
        return take_target(parser);
    if (lexer_take_dot(lexer, "address_size"))
        return take_address_size(parser);
    if (lexer_take_dot(lexer, "section"))
        return take_section(parser);
    if (lexer_take_dot(lexer, "pragma"))
        return take_pragma(parser);
    if (lexer_take_dot(lexer, "alias"))
        return take_alias(parser);
    if (lexer_at_dot(lexer, "file") || lexer_at_dot(lexer, "loc") ||
        (lexer->token.kind == TOKEN_MARK && token_is(&lexer->token, "@@"))) {
        lexer_skip_line(lexer);
        return true;
    }
    return lexer_take_mark(lexer, ';') || take_declaration(parser);
}

/* Within a text all names are known at its end. */
static bool resolve_relocations(struct parser *parser) {
    for (struct variable *variable = parser->program->variables; variable != NULL;
         variable = variable->next) {
        for (struct relocation *at = variable->relocations; at != NULL; at = at->next) {
            struct token token = {.text = at->name, .length = strlen(at->name)};
            struct module_name *name =
                variable->unit == parser->program->units ? find_in_module(parser, &token) : NULL;

            if (variable->unit != parser->program->units)
                continue;
            if (name == NULL)
                return lexer_fail(&parser->lexer, "'%s', an initial value of '%s', is not declared",
                                  at->name, variable->name);
            if (name->variable != NULL && name->variable->space == SPACE_SHARED)
                return lexer_fail(&parser->lexer,
                                  "'%s', an initial value of '%s', is in shared memory", at->name,
                                  variable->name);
            at->variable = name->variable;
            at->function = name->function;
        }
    }
    return true;
}

bool parse_module(struct parser *parser) {
    while (parser->lexer.token.kind != TOKEN_END)
        if (!take_statement(parser))
            return false;
    if (parser->failure->line != 0)
        return false;
    for (size_t i = 0; i < parser->bodies.count; i++) {
        parser->lexer = parser->bodies.items[i].lexer;
        if (!take_body(parser, parser->bodies.items[i].function))
            return false;
    }
    return resolve_relocations(parser);
}
