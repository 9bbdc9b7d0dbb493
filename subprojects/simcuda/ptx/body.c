/* The statements of a body, and its labels. */
#include "parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- labels: those of a scope are found in it and in the scopes within --- */

static const struct label *find_label(const struct parser *parser, const struct token *name,
                                      unsigned int depth) {
    for (size_t i = parser->labels.count; i-- != 0;) {
        const struct label *label = &parser->labels.items[i];

        if (label->depth == depth && label->length == name->length &&
            memcmp(label->text, name->text, name->length) == 0)
            return label;
    }
    return NULL;
}

/* At the end of a scope: what uses its labels goes to them; other uses are of the scope around. */
static bool resolve(struct parser *parser, unsigned int depth) {
    size_t kept = 0;

    for (size_t i = 0; i < parser->uses.count; i++) {
        struct label_use use = parser->uses.items[i];
        const struct label *label =
            use.depth == depth ? find_label(parser, &use.name, depth) : NULL;

        if (label == NULL) {
            if (use.depth == depth && depth == 1) {
                parser->lexer.token.line = use.name.line;
                return lexer_fail(&parser->lexer, "there is no label '%.*s'", (int)use.name.length,
                                  use.name.text);
            }
            use.depth = use.depth == depth ? depth - 1 : use.depth;
            parser->uses.items[kept++] = use;
        } else if (use.target != NULL) {
            *use.target = label->place;
        } else {
            parser->code.items[use.instruction].target = label->place;
        }
    }
    parser->uses.count = kept;
    kept = 0;
    for (size_t i = 0; i < parser->labels.count; i++)
        if (parser->labels.items[i].depth < depth)
            parser->labels.items[kept++] = parser->labels.items[i];
    parser->labels.count = kept;
    return true;
}

/* --- statements --- */

static bool take_table(struct parser *parser, struct local_name *name) {
    struct lexer *lexer = &parser->lexer;
    VECTOR_OF(struct token) labels = {0};
    struct table *table = arena_take(&parser->program->arena, sizeof *table);

    do {
        VECTOR_ADD(&labels, lexer->token);
        lexer_next(lexer);
    } while (lexer_take_mark(lexer, ','));
    table->count = (unsigned int)labels.count;
    table->labels = memcpy(arena_take(&parser->program->arena, labels.count * sizeof *labels.items),
                           labels.items, labels.count * sizeof *labels.items);
    free(labels.items);
    name->kind = NAME_TABLE;
    name->table = table;
    VECTOR_ADD(&parser->names, *name);
    return lexer_expect_mark(lexer, ';');
}

static bool take_prototype(struct parser *parser, struct local_name *name) {
    name->kind = NAME_PROTOTYPE;
    name->prototype = parse_prototype(parser);
    if (name->prototype == NULL)
        return false;
    VECTOR_ADD(&parser->names, *name);
    return true;
}

/* Behind the colon. */
static bool take_label(struct parser *parser, const struct token *token) {
    struct local_name name = {.text = token->text, .length = token->length, .lanes = 1};
    struct lexer *lexer = &parser->lexer;

    if (lexer_take_dot(lexer, "branchtargets"))
        return take_table(parser, &name);
    if (lexer_take_dot(lexer, "callprototype"))
        return take_prototype(parser, &name);
    if (lexer_take_dot(lexer, "calltargets")) /* any function can be called */
        return take_table(parser, &name);
    if (find_label(parser, token, parser->depth) != NULL)
        return lexer_fail(lexer, "the label '%.*s' is there twice", (int)token->length,
                          token->text);
    VECTOR_ADD(&parser->labels, ((struct label){token->text, token->length,
                                                (uint32_t)parser->code.count, parser->depth}));
    return true;
}

/* A declared .param or .local variable, or all of a range of names. */
static void add_to_frame(struct parser *parser, struct variable *variable) {
    struct arena *arena = &parser->program->arena;
    size_t room = strlen(variable->name) + sizeof "4294967295";

    for (unsigned int i = 0; i < variable->range; i++) {
        struct variable *each = memcpy(arena_take(arena, sizeof *each), variable, sizeof *each);
        char *name = arena_take(arena, room);

        snprintf(name, room, "%s%u", variable->name, i);
        each->name = name;
        each->range = 0;
        add_to_frame(parser, each);
    }
    if (variable->range == 0) {
        place_in_frame(parser, variable);
        add_local_variable(parser, variable);
    }
}

static bool take_variables(struct parser *parser, enum space space) {
    struct variable *variable = NULL;

    do {
        variable = declare_variable(parser, space, LINKAGE_STATIC, variable);
        if (variable == NULL)
            return false;
        if (space == SPACE_GLOBAL || space == SPACE_CONST)
            return lexer_fail(&parser->lexer, "'%s' is to be declared outside of functions",
                              variable->name);
        if (space != SPACE_SHARED) {
            add_to_frame(parser, variable);
            continue;
        }
        variable->index = parser->program->shared_count++;
        add_local_variable(parser, variable);
    } while (lexer_take_mark(&parser->lexer, ','));
    return lexer_expect_mark(&parser->lexer, ';');
}

static bool skip_to_semicolon(struct parser *parser) {
    while (parser->lexer.token.kind != TOKEN_END && !lexer_at_mark(&parser->lexer, ';'))
        lexer_next(&parser->lexer);
    return lexer_expect_mark(&parser->lexer, ';');
}

static bool take_directive(struct parser *parser) {
    struct lexer *lexer = &parser->lexer;

    if (lexer_at_dot(lexer, "loc") || lexer_at_dot(lexer, "file")) {
        lexer_skip_line(lexer);
        return true;
    }
    if (lexer_take_dot(lexer, "reg"))
        return declare_registers(parser);
    if (lexer_take_dot(lexer, "pragma"))
        return skip_to_semicolon(parser);
    if (lexer_take_dot(lexer, "extern")) /* shared memory whose size a launch gives */
        return take_directive(parser);
    if (lexer_take_dot(lexer, "shared"))
        return take_variables(parser, SPACE_SHARED);
    if (lexer_take_dot(lexer, "local"))
        return take_variables(parser, SPACE_LOCAL);
    if (lexer_take_dot(lexer, "param"))
        return take_variables(parser, SPACE_PARAM);
    return lexer_fail(lexer, "the directive '.%.*s' is unknown", (int)lexer->token.length,
                      lexer->token.text);
}

static bool take_scope(struct parser *parser);

static bool take_statement(struct parser *parser) {
    struct lexer *lexer = &parser->lexer;
    struct lexer before = *lexer;

    if (lexer_at_mark(lexer, '{'))
        return take_scope(parser);
    if (lexer_take_mark(lexer, ';'))
        return true;
    if (lexer->token.kind == TOKEN_DOT)
        return take_directive(parser);
    if (lexer->token.kind == TOKEN_MARK && token_is(&lexer->token, "@@")) {
        lexer_skip_line(lexer);
        return true;
    }
    if (lexer->token.kind == TOKEN_WORD) {
        lexer_next(lexer);
        if (lexer_take_mark(lexer, ':'))
            return take_label(parser, &before.token);
        *lexer = before;
    }
    return parse_instruction(parser);
}

enum { MOST_DEPTH = 64 };

static bool take_scope(struct parser *parser) {
    size_t names = parser->names.count;

    if (!lexer_expect_mark(&parser->lexer, '{'))
        return false;
    if (++parser->depth > MOST_DEPTH)
        return lexer_fail(&parser->lexer, "there are too many scopes in one another");
    while (!lexer_at_mark(&parser->lexer, '}')) {
        if (parser->lexer.token.kind == TOKEN_END)
            return lexer_fail(&parser->lexer, "a scope does not end");
        if (!take_statement(parser))
            return false;
    }
    if (parser->depth == 1 && !decode_end(parser)) /* a label may stand at the end */
        return false;
    if (!resolve(parser, parser->depth))
        return false;
    parser->depth--;
    parser->names.count = names;
    lexer_next(&parser->lexer);
    return true;
}

bool parse_body(struct parser *parser) {
    parser->depth = 0;
    return take_scope(parser);
}
