/* The state in which PTX is read: what is declared, and the function whose body is being read. */
#ifndef SIMCUDA_PTX_PARSER_H
#define SIMCUDA_PTX_PARSER_H

#include "program.h"

#include <uthash.h>

/* A name that a body declares. */
struct local_name {
    const char *text;
    size_t length;
    enum { NAME_REGISTERS, NAME_PREDICATES, NAME_VARIABLE, NAME_PROTOTYPE, NAME_TABLE } kind;
    enum type type;
    unsigned int lanes; /* of a register that is a vector: 2 or 4; else 1 */
    bool ranged;        /* %r<8>: the name has a number behind it */
    uint64_t range;
    int32_t first; /* the first row or predicate */
    struct variable *variable;
    struct prototype *prototype;
    struct table *table;
};

/* .callprototype; of .calltargets no more is needed than that they have a name. */
struct prototype {
    struct variable *results, *parameters;
};

/* .branchtargets */
struct table {
    struct token *labels;
    unsigned int count;
};

struct label {
    const char *text;
    size_t length;
    uint32_t place;
    unsigned int depth; /* of the braces around it */
};

/* A place in the code that goes to a label. */
struct label_use {
    struct token name;
    uint32_t instruction;
    uint32_t *target; /* NULL: the instruction's own */
    unsigned int depth;
};

#define VECTOR_OF(type)                                                                            \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t count, room;                                                                        \
    }

struct module_name {
    struct function *function;
    struct variable *variable;
    UT_hash_handle hh;
};

/* A body that is read once all declarations of its text are known: they may stand behind it. */
struct waiting_body {
    struct lexer lexer; /* at its opening brace */
    struct function *function;
};

/* Invariant: function != NULL while a body is read; names[0..scopes' last) are of the scopes around
 * the present one. */
struct parser {
    struct lexer lexer;
    struct simt_program *program;
    struct failure *failure;
    struct module_name *module_names;
    struct function *function;
    unsigned int depth;
    unsigned int operand_depth; /* of the operand that is read, within others */
    VECTOR_OF(struct waiting_body) bodies;
    bool in_call; /* whose operands in parentheses are lists */
    VECTOR_OF(struct local_name) names;
    VECTOR_OF(struct label) labels;
    VECTOR_OF(struct label_use) uses;
    VECTOR_OF(struct instruction) code;
    VECTOR_OF(struct constant) constants;
    VECTOR_OF(struct function *) callees;
    VECTOR_OF(struct variable *) shared;
};

void *vector_room(void *items, size_t count, size_t *room, size_t size);
#define VECTOR_ADD(vector, item)                                                                   \
    ((vector)->items =                                                                             \
         vector_room((vector)->items, (vector)->count, &(vector)->room, sizeof *(vector)->items),  \
     (vector)->items[(vector)->count++] = (item))

/* --- declarations: declare.c --- */

/* A variable or parameter behind its state space's directive, without what ends it; behind a comma,
 * where its type is missing, it is of `like`'s, which may be NULL. NULL: failed. */
struct variable *declare_variable(struct parser *parser, enum space space, enum linkage linkage,
                                  const struct variable *like);

/* (.param .b32 a, .reg .u32 b), with the parentheses; in order, with their offsets from *bytes on.
 * False: failed. */
bool declare_parameters(struct parser *parser, bool in_kernel, struct variable **list,
                        size_t *bytes);

/* Behind .reg. */
bool declare_registers(struct parser *parser);

/* Places a variable of the function in its frame's local memory. */
void place_in_frame(struct parser *parser, struct variable *variable);

struct local_name *find_local(struct parser *parser, const struct token *token);
struct module_name *find_in_module(struct parser *parser, const struct token *token);
void add_to_module(struct parser *parser, const char *name, struct function *function,
                   struct variable *variable);
void add_local_variable(struct parser *parser, struct variable *variable);

int32_t new_row(struct parser *parser);
int32_t new_predicate(struct parser *parser);

/* --- bodies: body.c --- */

bool parse_body(struct parser *parser); /* at its opening brace */

/* --- operands: operand.c --- */

enum operand_kind {
    OPERAND_REGISTER,
    OPERAND_PREDICATE,
    OPERAND_NUMBER,
    OPERAND_FLOAT,
    OPERAND_VARIABLE,
    OPERAND_FUNCTION,
    OPERAND_SPECIAL,
    OPERAND_NAME, /* anything else: a label, a prototype */
    OPERAND_SINK, /* _ */
    OPERAND_VECTOR,
    OPERAND_LIST,
    OPERAND_ADDRESS
};

struct operand {
    enum operand_kind kind;
    enum type type; /* of a register */
    bool negated;
    int32_t row;     /* of a register or a predicate */
    uint64_t number; /* also what is added to a variable or a register of an address */
    uint32_t single;
    bool is_single;
    struct variable *variable;
    struct function *function;
    unsigned int special;
    struct token name;
    struct operand *items; /* of a vector, a list, an address */
    unsigned int count;
    struct operand *second; /* p|q */
};

bool parse_operand(struct parser *parser, struct operand *operand);

/* The row of a constant. */
operand_row constant_number(struct parser *parser, uint64_t number);
operand_row constant_variable(struct parser *parser, struct variable *variable, uint64_t addend);
operand_row constant_function(struct parser *parser, struct function *function);

/* --- instructions: decode.c --- */

/* Adds the instruction that ends a body which does not end itself. */
bool decode_end(struct parser *parser);

/* Reads one instruction with its guard, up to its semicolon. */
bool parse_instruction(struct parser *parser);

/* --- the module: module_parser.c --- */

bool parse_module(struct parser *parser);
struct prototype *parse_prototype(struct parser *parser); /* behind .callprototype */

#endif
