/* Operands as they are written, and constants. PTX ISA, "Instruction Operands". */
#include "parser.h"
#include "special.h"

#include <stdlib.h>
#include <string.h>

static struct operand *keep_items(struct parser *parser, const struct operand *items,
                                  unsigned int count) {
    struct operand *kept = arena_take(&parser->program->arena, (count + 1) * sizeof *items);

    return count == 0 ? kept : memcpy(kept, items, count * sizeof *items);
}

enum { MOST_ITEMS = 64 };

/* Several operands up to `close`. */
static bool parse_items(struct parser *parser, struct operand *operand, char close) {
    VECTOR_OF(struct operand) items = {0};
    bool parsed = true;

    while (parsed && !lexer_at_mark(&parser->lexer, close)) {
        struct operand item = {0};

        parsed = parse_operand(parser, &item);
        if (!parsed)
            break;
        VECTOR_ADD(&items, item);
        if (items.count > 4096)
            parsed = lexer_fail(&parser->lexer, "there are too many operands");
        if (!lexer_take_mark(&parser->lexer, ','))
            break;
    }
    operand->count = (unsigned int)items.count;
    if (parsed)
        operand->items = keep_items(parser, items.items, operand->count);
    free(items.items);
    return parsed && lexer_expect_mark(&parser->lexer, close);
}

/* .x of a register that is a vector. */
static bool take_component(struct parser *parser, const struct local_name *name,
                           struct operand *operand) {
    static const char letters[] = "xyzwrgba";
    const struct token *token = &parser->lexer.token;
    const char *found = token->length == 1 ? strchr(letters, token->text[0]) : NULL;

    if (found == NULL || (unsigned)((found - letters) & 3) >= name->lanes)
        return lexer_fail(&parser->lexer, "'.%.*s' is no part of a vector", (int)token->length,
                          token->text);
    operand->row += (int32_t)((found - letters) & 3);
    lexer_next(&parser->lexer);
    return true;
}

static bool take_local(struct parser *parser, const struct local_name *name,
                       const struct token *token, struct operand *operand) {
    int32_t number = name->ranged ? atoi(token->text + name->length) : 0;

    operand->type = name->type;
    switch (name->kind) {
    case NAME_PREDICATES:
        operand->kind = OPERAND_PREDICATE;
        operand->row = name->first + number;
        return true;
    case NAME_REGISTERS:
        operand->kind = OPERAND_REGISTER;
        operand->row = name->first + number * (int32_t)(name->type == TYPE_B128 ? 2 : name->lanes);
        if (name->lanes > 1 && parser->lexer.token.kind == TOKEN_DOT)
            return take_component(parser, name, operand);
        operand->count = name->lanes;
        return true;
    case NAME_VARIABLE:
        operand->kind = OPERAND_VARIABLE;
        operand->variable = name->variable;
        return true;
    default:
        operand->kind = OPERAND_NAME;
        return true;
    }
}

static bool take_special(struct parser *parser, struct operand *operand) {
    struct lexer *lexer = &parser->lexer;
    const char *begin = operand->name.text;
    size_t length = operand->name.length;
    int which;

    if (lexer->token.kind == TOKEN_DOT && lexer->token.joined) {
        length = (size_t)(lexer->token.text - begin) + lexer->token.length;
        lexer_next(lexer);
    }
    which = special_named(begin, length);
    if (which < 0)
        return lexer_fail(lexer, "'%.*s' is not declared", (int)length, begin);
    operand->kind = OPERAND_SPECIAL;
    operand->special = (unsigned int)which;
    return true;
}

/* What is added to a name: a+8, a[2]. */
static bool take_offset(struct parser *parser, struct operand *operand) {
    struct lexer *lexer = &parser->lexer;
    uint64_t number;

    if (!lexer_at_mark(lexer, '+') && !lexer_at_mark(lexer, '-'))
        return true;
    if (!lexer_expect_number(lexer, &number)) /* with its sign */
        return false;
    operand->number += number;
    return true;
}

static bool take_name(struct parser *parser, struct operand *operand) {
    struct lexer *lexer = &parser->lexer;
    const struct local_name *local = find_local(parser, &lexer->token);
    const struct module_name *name = local == NULL ? find_in_module(parser, &lexer->token) : NULL;

    operand->name = lexer->token;
    lexer_next(lexer);
    if (local != NULL)
        return take_local(parser, local, &operand->name, operand) &&
               (operand->kind != OPERAND_VARIABLE || take_offset(parser, operand));
    if (name != NULL) {
        operand->kind = name->function != NULL ? OPERAND_FUNCTION : OPERAND_VARIABLE;
        operand->function = name->function;
        operand->variable = name->variable;
        return operand->kind == OPERAND_FUNCTION || take_offset(parser, operand);
    }
    if (operand->name.text[0] == '%')
        return take_special(parser, operand);
    operand->kind = token_is(&operand->name, "_") ? OPERAND_SINK : OPERAND_NAME;
    return true;
}

static bool take_float(struct parser *parser, struct operand *operand, bool negative) {
    const struct token *token = &parser->lexer.token;

    operand->kind = OPERAND_FLOAT;
    operand->number = token->number ^ (negative ? UINT64_C(1) << 63 : 0);
    operand->is_single = token->is_single;
    operand->single = token->single ^ (negative ? 1u << 31 : 0);
    lexer_next(&parser->lexer);
    return true;
}

/* Whether a minus stands before a number in floating point. */
static bool is_negative_float(const struct lexer *lexer) {
    struct lexer ahead = *lexer;
    struct failure ignored = {0};

    if (!lexer_at_mark(lexer, '-'))
        return false;
    ahead.failure = &ignored;
    lexer_next(&ahead);
    return ahead.token.kind == TOKEN_FLOAT;
}

/* [a], [a+4], [a, {x, y}] */
static bool take_address(struct parser *parser, struct operand *operand) {
    struct operand items[MOST_ITEMS] = {{0}};

    operand->kind = OPERAND_ADDRESS;
    for (;;) {
        if (operand->count == 8)
            return lexer_fail(&parser->lexer, "an address has too many parts");
        if (!parse_operand(parser, &items[operand->count]) ||
            !take_offset(parser, &items[operand->count]))
            return false;
        operand->count++;
        if (!lexer_take_mark(&parser->lexer, ','))
            break;
    }
    operand->items = keep_items(parser, items, operand->count);
    return lexer_expect_mark(&parser->lexer, ']');
}

static bool parse_simple(struct parser *parser, struct operand *operand) {
    struct lexer *lexer = &parser->lexer;

    if (lexer_take_mark(lexer, '[')) {
        return take_address(parser, operand);
    }
    if (lexer_take_mark(lexer, '{')) {
        operand->kind = OPERAND_VECTOR;
        return parse_items(parser, operand, '}');
    }
    if (lexer->token.kind == TOKEN_FLOAT)
        return take_float(parser, operand, false);
    if (is_negative_float(lexer)) {
        lexer_next(lexer);
        return take_float(parser, operand, true);
    }
    if (lexer->token.kind == TOKEN_WORD && !token_is(&lexer->token, "WARP_SZ"))
        return take_name(parser, operand);
    operand->kind = OPERAND_NUMBER;
    return lexer_expect_number(lexer, &operand->number);
}

static bool parse_any(struct parser *parser, struct operand *operand) {
    struct lexer *lexer = &parser->lexer;
    struct lexer before = *lexer;

    memset(operand, 0, sizeof *operand);
    if (lexer_take_mark(lexer, '!')) {
        if (lexer->token.kind == TOKEN_WORD) {
            if (!take_name(parser, operand))
                return false;
            operand->negated = true;
            return operand->kind == OPERAND_PREDICATE ||
                   lexer_fail(lexer, "only a predicate can be negated");
        }
        *lexer = before;
    }
    if (parser->in_call && lexer_take_mark(lexer, '(')) {
        operand->kind = OPERAND_LIST;
        return parse_items(parser, operand, ')');
    }
    if (!parse_simple(parser, operand))
        return false;
    if (lexer_at_mark(lexer, '|') &&
        (operand->kind == OPERAND_PREDICATE || operand->kind == OPERAND_REGISTER ||
         operand->kind == OPERAND_SINK)) {
        lexer_next(lexer);
        operand->second = arena_take(&parser->program->arena, sizeof *operand->second);
        return parse_simple(parser, operand->second);
    }
    return true;
}

enum { MOST_NESTED = 16 };

bool parse_operand(struct parser *parser, struct operand *operand) {
    bool parsed;

    if (parser->operand_depth == MOST_NESTED)
        return lexer_fail(&parser->lexer, "there are too many operands in one another");
    parser->operand_depth++;
    parsed = parse_any(parser, operand);
    parser->operand_depth--;
    return parsed;
}

/* --- constants --- */

static operand_row add_constant(struct parser *parser, const struct constant *constant) {
    for (size_t i = parser->constants.count; i-- != 0;) {
        const struct constant *known = &parser->constants.items[i];

        if (known->kind == constant->kind && known->number == constant->number &&
            known->variable == constant->variable && known->function == constant->function)
            return ~(operand_row)i;
        if (parser->constants.count - i > 256)
            break; /* far ones are added again */
    }
    VECTOR_ADD(&parser->constants, *constant);
    return ~(operand_row)(parser->constants.count - 1);
}

operand_row constant_number(struct parser *parser, uint64_t number) {
    return add_constant(parser, &(struct constant){.kind = CONSTANT_NUMBER, .number = number});
}

/* A function's body names what it needs: so a kernel finds out its shared memory. */
static void note_shared(struct parser *parser, struct variable *variable) {
    for (size_t i = 0; i < parser->shared.count; i++)
        if (parser->shared.items[i] == variable)
            return;
    VECTOR_ADD(&parser->shared, variable); // NOLINT(bugprone-sizeof-expression): they are pointers
}

operand_row constant_variable(struct parser *parser, struct variable *variable, uint64_t addend) {
    if (variable->space == SPACE_SHARED)
        note_shared(parser, variable);
    return add_constant(
        parser,
        &(struct constant){.kind = CONSTANT_VARIABLE, .number = addend, .variable = variable});
}

operand_row constant_function(struct parser *parser, struct function *function) {
    VECTOR_ADD(&parser->callees, function); // NOLINT(bugprone-sizeof-expression): they are pointers
    return add_constant(parser,
                        &(struct constant){.kind = CONSTANT_FUNCTION, .function = function});
}
