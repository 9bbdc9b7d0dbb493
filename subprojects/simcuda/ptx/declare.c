/* Declarations: variables, parameters, registers. */
#include "allocate.h"
#include "parser.h"

#include <stdlib.h>
#include <string.h>

static const size_t most_bytes = (size_t)1 << 40;     /* of a variable */
static const size_t most_own_bytes = (size_t)1 << 20; /* outside of global memory */
enum { MOST_DIMENSIONS = 8 };

void *vector_room(void *items, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return items;
    *room = *room == 0 ? 16 : *room * 2;
    return allocate_again(items, *room * size);
}

/* --- names --- */

static bool is_named(const char *name, size_t length, const struct token *token) {
    return length == token->length && memcmp(name, token->text, length) == 0;
}

/* Whether the token is the range's name with one of its numbers behind it. */
static bool is_in_range(const struct local_name *name, const struct token *token) {
    uint64_t number = 0;

    if (!name->ranged || token->length <= name->length || token->length > name->length + 9 ||
        memcmp(name->text, token->text, name->length) != 0)
        return false;
    for (size_t i = name->length; i < token->length; i++) {
        if (token->text[i] < '0' || token->text[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(token->text[i] - '0');
    }
    return number < name->range &&
           (token->text[name->length] != '0' || token->length == name->length + 1);
}

struct local_name *find_local(struct parser *parser, const struct token *token) {
    for (size_t i = parser->names.count; i-- != 0;) {
        struct local_name *name = &parser->names.items[i];

        if ((!name->ranged && is_named(name->text, name->length, token)) ||
            is_in_range(name, token))
            return name;
    }
    return NULL;
}

struct module_name *find_in_module(struct parser *parser, const struct token *token) {
    struct module_name *found;

    HASH_FIND(hh, parser->module_names, token->text, token->length, found);
    return found;
}

void add_to_module(struct parser *parser, const char *text, struct function *function,
                   struct variable *variable) {
    struct token token = {.text = text, .length = strlen(text)};
    struct module_name *name = find_in_module(parser, &token);

    if (name == NULL) {
        name = allocate_zeroed(sizeof *name);
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it is in the table
        HASH_ADD_KEYPTR(hh, parser->module_names, text, token.length, name);
    }
    name->function = function;
    name->variable = variable;
}

void add_local_variable(struct parser *parser, struct variable *variable) {
    const struct local_name name = {.text = variable->name,
                                    .length = strlen(variable->name),
                                    .kind = NAME_VARIABLE,
                                    .type = variable->type,
                                    .lanes = 1,
                                    .variable = variable};

    VECTOR_ADD(&parser->names, name);
}

/* --- registers --- */

int32_t new_row(struct parser *parser) {
    return (int32_t)parser->function->rows++;
}

int32_t new_predicate(struct parser *parser) {
    return (int32_t)parser->function->predicates++;
}

enum { MOST_ROWS = 1 << 22, MOST_NUMBERED = 4096 };

/* %r<8>, %r1, %r2: those of one type. */
static bool take_registers(struct parser *parser, enum type type, unsigned int lanes) {
    struct lexer *lexer = &parser->lexer;
    struct function *function = parser->function;
    struct local_name name = {.text = lexer->token.text,
                              .length = lexer->token.length,
                              .kind = type == TYPE_PRED ? NAME_PREDICATES : NAME_REGISTERS,
                              .type = type,
                              .lanes = lanes,
                              .range = 1};
    unsigned int each = type == TYPE_B128 ? 2 : lanes;

    if (lexer->token.kind != TOKEN_WORD)
        return lexer_fail(lexer, "a register's name is expected");
    lexer_next(lexer);
    if (lexer_take_mark(lexer, '<')) {
        name.ranged = true;
        name.range = lexer->token.number;
        if (lexer->token.kind != TOKEN_NUMBER)
            return lexer_fail(lexer, "a number of registers is expected");
        lexer_next(lexer);
        if (!lexer_expect_mark(lexer, '>'))
            return false;
    }
    if (name.range > MOST_ROWS || function->rows + name.range * each > MOST_ROWS ||
        function->predicates + name.range > MOST_ROWS)
        return lexer_fail(lexer, "there are too many registers");
    if (type == TYPE_PRED) {
        name.first = (int32_t)function->predicates;
        function->predicates += (unsigned int)name.range;
    } else {
        name.first = (int32_t)function->rows;
        function->rows += (unsigned int)name.range * each;
    }
    VECTOR_ADD(&parser->names, name);
    return true;
}

static bool take_lanes(struct lexer *lexer, unsigned int *lanes) {
    *lanes = lexer_at_dot(lexer, "v2") ? 2 : lexer_at_dot(lexer, "v4") ? 4 : 1;
    if (*lanes != 1)
        lexer_next(lexer);
    return true;
}

static bool take_type(struct lexer *lexer, enum type *type) {
    *type = lexer->token.kind == TOKEN_DOT ? type_named(lexer->token.text, lexer->token.length)
                                           : TYPE_NONE;
    if (*type == TYPE_NONE)
        return lexer_fail(lexer, "a type is expected before '%.*s'", (int)lexer->token.length,
                          lexer->token.text);
    lexer_next(lexer);
    return true;
}

bool declare_registers(struct parser *parser) {
    unsigned int lanes;
    enum type type;

    if (!take_lanes(&parser->lexer, &lanes) || !take_type(&parser->lexer, &type))
        return false;
    do
        if (!take_registers(parser, type, lanes))
            return false;
    while (lexer_take_mark(&parser->lexer, ','));
    return lexer_expect_mark(&parser->lexer, ';');
}

/* --- initial values --- */

/* Where the next value goes. Invariant: at <= the variable's size. */
struct initial {
    struct variable *variable;
    size_t at;
    size_t element;
};

static bool take_float(struct parser *parser, struct initial *initial, bool negative) {
    const struct token *token = &parser->lexer.token;
    double value;
    float single;

    memcpy(&value, &token->number, sizeof value);
    value = negative ? -value : value;
    single = (float)value;
    if (token->is_single && !negative)
        memcpy(&single, &token->single, sizeof single);
    if (initial->element == sizeof value)
        memcpy(initial->variable->initial + initial->at, &value, sizeof value);
    else if (initial->element == sizeof single)
        memcpy(initial->variable->initial + initial->at, &single, sizeof single);
    else
        return lexer_fail(&parser->lexer, "a number in floating point does not fit its type");
    lexer_next(&parser->lexer);
    return true;
}

/* What is added to it, which begins with its sign. */
static bool take_addend(struct lexer *lexer, uint64_t *addend) {
    return (!lexer_at_mark(lexer, '+') && !lexer_at_mark(lexer, '-')) ||
           lexer_expect_number(lexer, addend);
}

/* A variable's or function's address: name, name+8, generic(name)+8. `mask`: its bits that count.
 */
static bool take_address(struct parser *parser, struct initial *initial, uint64_t mask) {
    struct lexer *lexer = &parser->lexer;
    struct relocation *relocation = arena_take(&parser->program->arena, sizeof *relocation);

    relocation->offset = initial->at;
    relocation->size = (unsigned int)initial->element;
    relocation->mask = mask;
    if (token_is(&lexer->token, "generic")) {
        lexer_next(lexer);
        relocation->generic = true;
        if (!lexer_expect_mark(lexer, '('))
            return false;
    }
    relocation->name = arena_text(&parser->program->arena, lexer->token.text, lexer->token.length);
    if (lexer->token.kind != TOKEN_WORD || (initial->element < 4 && mask == UINT64_MAX))
        return lexer_fail(lexer, "an initial value is expected before '%.*s'",
                          (int)lexer->token.length, lexer->token.text);
    lexer_next(lexer);
    if (!take_addend(lexer, &relocation->addend) ||
        (relocation->generic && !lexer_expect_mark(lexer, ')')) ||
        !take_addend(lexer, &relocation->addend))
        return false;
    relocation->next = initial->variable->relocations;
    initial->variable->relocations = relocation;
    return true;
}

/* 0xff00(name): a byte of an address. PTX ISA, "Initializers", "mask() operator". */
static bool take_part_of_address(struct parser *parser, struct initial *initial) {
    uint64_t mask = parser->lexer.token.number;

    lexer_next(&parser->lexer);
    if (mask == 0 || (mask >> __builtin_ctzll(mask)) != 0xff || initial->element != 1)
        return lexer_fail(&parser->lexer, "a mask is to select 8 bits for one byte");
    return lexer_expect_mark(&parser->lexer, '(') && take_address(parser, initial, mask) &&
           lexer_expect_mark(&parser->lexer, ')');
}

/* Behind a minus that stands before a number in floating point. */
static bool take_negative_float(struct parser *parser, struct initial *initial, bool *taken) {
    struct lexer ahead = parser->lexer;
    struct failure ignored = {0};

    *taken = true;
    if (!lexer_at_mark(&parser->lexer, '-'))
        return false;
    ahead.failure = &ignored;
    lexer_next(&ahead);
    if (ahead.token.kind != TOKEN_FLOAT)
        return false;
    lexer_next(&parser->lexer);
    *taken = take_float(parser, initial, true);
    return true;
}

static bool take_value(struct parser *parser, struct initial *initial) {
    struct lexer *lexer = &parser->lexer;
    struct variable *variable = initial->variable;
    uint64_t number;
    bool taken;

    if (initial->at + initial->element > variable->size)
        return lexer_fail(lexer, "'%s' has more initial values than elements", variable->name);
    if (lexer->token.kind == TOKEN_FLOAT)
        return take_float(parser, initial, false);
    if (take_negative_float(parser, initial, &taken))
        return taken;
    if (lexer->token.kind == TOKEN_WORD && !token_is(&lexer->token, "WARP_SZ"))
        return take_address(parser, initial, UINT64_MAX);
    if (lexer->token.kind == TOKEN_NUMBER && lexer->at[strspn(lexer->at, " \t")] == '(')
        return take_part_of_address(parser, initial);
    if (!lexer_expect_number(lexer, &number))
        return false;
    memcpy(variable->initial + initial->at, &number, initial->element < 8 ? initial->element : 8);
    return true;
}

/* {1, 2, {3, 4}}: with braces inside, each group fills a row of the array; the rest stays zero. */
static bool take_values(struct parser *parser, struct initial *initial, const size_t *extents,
                        unsigned int depth, unsigned int dimensions) {
    struct lexer *lexer = &parser->lexer;
    size_t row = initial->element, begin = initial->at, count = 0;

    if (!lexer_take_mark(lexer, '{'))
        return take_value(parser, initial);
    if (depth > MOST_DIMENSIONS)
        return lexer_fail(lexer, "there are too many braces in one another");
    for (unsigned int i = depth + 1; i < dimensions; i++)
        row *= extents[i];
    while (!lexer_at_mark(lexer, '}')) {
        bool inner = lexer_at_mark(lexer, '{');

        initial->at = begin + count * (inner ? row : initial->element);
        if (!take_values(parser, initial, extents, depth + 1, dimensions))
            return false;
        count++;
        if (!lexer_take_mark(lexer, ','))
            break;
    }
    return lexer_expect_mark(lexer, '}');
}

/* --- variables --- */

/* .align 8, .attribute(.managed), .ptr .global .align 4, .v2, .u32: what stands before the name. */
static bool take_properties(struct parser *parser, struct variable *variable, unsigned int *lanes) {
    struct lexer *lexer = &parser->lexer;
    bool is_pointer = false;
    uint64_t number;

    *lanes = 1;
    while (lexer->token.kind == TOKEN_DOT) {
        if (lexer_take_dot(lexer, "align")) {
            if (!lexer_expect_number(lexer, &number))
                return false;
            if (number == 0 || (number & (number - 1)) != 0 || number > MOST_ALIGNMENT)
                return lexer_fail(lexer, "an alignment is to be a power of two up to %d",
                                  MOST_ALIGNMENT);
            variable->alignment = is_pointer ? variable->alignment : number;
        } else if (lexer_take_dot(lexer, "attribute")) {
            for (; !lexer_at_mark(lexer, ')') && lexer->token.kind != TOKEN_END; lexer_next(lexer))
                variable->managed = variable->managed || lexer_at_dot(lexer, "managed");
            if (!lexer_expect_mark(lexer, ')'))
                return false;
        } else if (lexer_take_dot(lexer, "ptr")) {
            is_pointer = true;
        } else if (is_pointer &&
                   (lexer_take_dot(lexer, "global") || lexer_take_dot(lexer, "shared") ||
                    lexer_take_dot(lexer, "const") || lexer_take_dot(lexer, "local"))) {
            continue;
        } else if (lexer_at_dot(lexer, "v2") || lexer_at_dot(lexer, "v4")) {
            take_lanes(lexer, lanes);
        } else if (!take_type(lexer, &variable->type)) {
            return false;
        }
    }
    if (variable->type == TYPE_NONE || variable->type == TYPE_PRED)
        return lexer_fail(lexer, "a type is expected before '%.*s'", (int)lexer->token.length,
                          lexer->token.text);
    return true;
}

/* [3][4]. Of [] the first extent is 0. */
static bool take_extents(struct parser *parser, size_t extents[MOST_DIMENSIONS],
                         unsigned int *dimensions) {
    struct lexer *lexer = &parser->lexer;

    for (*dimensions = 0; lexer_take_mark(lexer, '['); ++*dimensions) {
        uint64_t extent = 0;

        if (*dimensions == MOST_DIMENSIONS)
            return lexer_fail(lexer, "there are too many dimensions");
        if (!lexer_at_mark(lexer, ']') && (!lexer_expect_number(lexer, &extent)))
            return false;
        if (extent > most_bytes)
            return lexer_fail(lexer, "an array is too large");
        extents[*dimensions] = extent;
        if (!lexer_expect_mark(lexer, ']'))
            return false;
    }
    return true;
}

/* How many values stand between the braces that come next. */
static size_t count_values(const struct lexer *lexer) {
    struct lexer ahead = *lexer;
    struct failure ignored = {0};
    size_t count = 1;

    for (ahead.failure = &ignored; ahead.token.kind != TOKEN_END && !lexer_at_mark(&ahead, ';');
         lexer_next(&ahead))
        count += lexer_at_mark(&ahead, ',');
    return count;
}

static bool take_initial(struct parser *parser, struct variable *variable, const size_t *extents,
                         unsigned int dimensions) {
    struct initial initial = {.variable = variable, .element = type_facts[variable->type].size};

    if (type_is_opaque(variable->type)) { /* { filter_mode = nearest } */
        lexer_skip_braces(&parser->lexer);
        return true;
    }
    if (variable->size > MOST_INITIAL_BYTES)
        return lexer_fail(&parser->lexer, "'%s' is too large to have initial values",
                          variable->name);
    variable->initial = arena_take(&parser->program->arena, variable->size);
    return take_values(parser, &initial, extents, 0, dimensions);
}

static bool take_size(struct parser *parser, struct variable *variable, unsigned int lanes,
                      size_t *extents, unsigned int *dimensions) {
    struct lexer *lexer = &parser->lexer;
    size_t size = (size_t)type_facts[variable->type].size * lanes;
    bool is_own = variable->space != SPACE_GLOBAL && variable->space != SPACE_CONST;
    size_t most = is_own ? most_own_bytes : most_bytes;
    struct lexer behind;

    if (!take_extents(parser, extents, dimensions))
        return false;
    behind = *lexer;
    if (*dimensions != 0 && extents[0] == 0 && lexer_at_mark(lexer, '=')) {
        extents[0] = count_values(lexer);
        *lexer = behind;
    }
    if (variable->alignment == 0)
        variable->alignment = size;
    for (unsigned int i = 0; i < *dimensions; i++)
        if (__builtin_mul_overflow(size, extents[i], &size) || size > most)
            return lexer_fail(lexer, "'%s' is too large", variable->name);
    variable->size = size;
    return true;
}

/* <2> behind the name: only arguments that a function puts together for a call have it. */
static bool take_range(struct parser *parser, struct variable *variable) {
    struct lexer *lexer = &parser->lexer;

    if (!lexer_take_mark(lexer, '<'))
        return true;
    if (variable->space != SPACE_PARAM || parser->depth == 0)
        return lexer_fail(lexer, "'%s' cannot have a range of names", variable->name);
    if (lexer->token.kind != TOKEN_NUMBER || lexer->token.number == 0 ||
        lexer->token.number > MOST_NUMBERED)
        return lexer_fail(lexer, "a number of variables from 1 to %d is expected", MOST_NUMBERED);
    variable->range = (unsigned int)lexer->token.number;
    lexer_next(lexer);
    return lexer_expect_mark(lexer, '>');
}

struct variable *declare_variable(struct parser *parser, enum space space, enum linkage linkage,
                                  const struct variable *like) {
    struct lexer *lexer = &parser->lexer;
    struct variable *variable = arena_take(&parser->program->arena, sizeof *variable);
    size_t extents[MOST_DIMENSIONS] = {0};
    unsigned int lanes = 1, dimensions;

    variable->space = space;
    variable->linkage = linkage;
    variable->type = TYPE_NONE;
    variable->unit = parser->program->units;
    variable->row = NO_ROW;
    if (like != NULL && lexer->token.kind == TOKEN_WORD) {
        variable->type = like->type;
        variable->managed = like->managed;
    } else if (!take_properties(parser, variable, &lanes)) {
        return NULL;
    }
    if (lexer->token.kind != TOKEN_WORD) {
        lexer_fail(lexer, "a variable's name is expected before '%.*s'", (int)lexer->token.length,
                   lexer->token.text);
        return NULL;
    }
    variable->name = arena_text(&parser->program->arena, lexer->token.text, lexer->token.length);
    lexer_next(lexer);
    if (!take_range(parser, variable))
        return NULL;
    if (!take_size(parser, variable, lanes, extents, &dimensions))
        return NULL;
    if (lexer_take_mark(lexer, '=') && !take_initial(parser, variable, extents, dimensions))
        return NULL;
    return variable;
}

static size_t place(size_t *bytes, const struct variable *variable) {
    size_t offset = (*bytes + variable->alignment - 1) & ~(variable->alignment - 1);

    *bytes = offset + variable->size;
    return offset;
}

void place_in_frame(struct parser *parser, struct variable *variable) {
    variable->offset = place(&parser->function->local_bytes, variable);
}

bool declare_parameters(struct parser *parser, bool in_kernel, struct variable **list,
                        size_t *bytes) {
    struct lexer *lexer = &parser->lexer;
    struct variable **last = list;

    if (!lexer_expect_mark(lexer, '('))
        return false;
    while (!lexer_at_mark(lexer, ')')) {
        bool is_register = lexer_take_dot(lexer, "reg");
        struct variable *variable;

        if (!is_register && !lexer_take_dot(lexer, "param"))
            return lexer_fail(lexer, "'.param' is expected before '%.*s'", (int)lexer->token.length,
                              lexer->token.text);
        variable =
            declare_variable(parser, is_register ? SPACE_REG : SPACE_PARAM, LINKAGE_STATIC, NULL);
        if (variable == NULL)
            return false;
        if (variable->range != 0)
            return lexer_fail(lexer, "'%s' cannot have a range of names", variable->name);
        variable->in_kernel = in_kernel;
        if (!is_register)
            variable->offset = place(bytes, variable);
        *last = variable;
        last = &variable->next;
        if (!lexer_take_mark(lexer, ','))
            break;
    }
    return lexer_expect_mark(lexer, ')');
}
