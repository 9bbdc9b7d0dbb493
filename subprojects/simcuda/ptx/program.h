/* The compact form of PTX: what a module's text becomes once, and what runs. */
#ifndef SIMCUDA_PTX_PROGRAM_H
#define SIMCUDA_PTX_PROGRAM_H

#include "lexer.h"
#include "types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct warp;
struct instruction;
struct function;

/* Memory that goes as a whole. */
struct arena {
    struct arena_part *parts;
};

void *arena_take(struct arena *arena, size_t size); /* zeroed, aligned to 16 */
char *arena_text(struct arena *arena, const char *text, size_t length);
void arena_release(struct arena *arena);

enum linkage { LINKAGE_STATIC, LINKAGE_VISIBLE, LINKAGE_WEAK, LINKAGE_EXTERN };

/* An address within initial data, which a module's loading fills in. */
struct relocation {
    size_t offset;             /* in the variable */
    unsigned int size;         /* bytes */
    uint64_t mask;             /* which bits of the address, from the lowest of these on */
    const char *name;          /* of what it points to */
    struct variable *variable; /* or */
    struct function *function;
    uint64_t addend;
    bool generic;
    struct relocation *next;
};

/* A declared variable or parameter. Of .global and .const ones the module's loading knows the
 * address, of .shared ones each kernel has an offset, of .local and .param ones the frame. */
struct variable {
    const char *name;
    unsigned int range; /* name<2> stands for as many variables, name0, name1; 0: for this one */
    enum space space;
    enum linkage linkage;
    enum type type; /* of an element */
    size_t alignment;
    size_t size;        /* bytes; 0: a kernel's dynamic shared memory */
    size_t offset;      /* of a parameter or a local variable, in its area */
    unsigned int index; /* of the program's global or shared ones */
    unsigned int unit;  /* of the program's texts */
    bool in_kernel;     /* a kernel's parameter */
    bool managed;
    unsigned char *initial; /* NULL: zero */
    struct relocation *relocations;
    struct variable *resolved; /* of an extern one: what it is */
    int32_t row;               /* of a .reg parameter */
    struct variable *next;
};

/* A value that rows of constants have: of all threads the same. */
struct constant {
    enum { CONSTANT_NUMBER, CONSTANT_VARIABLE, CONSTANT_FUNCTION } kind;
    uint64_t number; /* or what is added to the address */
    struct variable *variable;
    struct function *function;
    bool generic; /* of a shared variable */
};

/* What a handler leaves to the loop: go on, or look again at who is to run. */
enum step { STEP_ON, STEP_AGAIN };

typedef enum step handler(struct warp *warp, const struct instruction *instruction);

/* An operand is a row of a frame's registers (>= 0) or of its function's constants (~row); one that
 * is a predicate is twice its number, plus one where it is negated. */
typedef int32_t operand_row;

enum { PREDICATE_FALSE, PREDICATE_TRUE, FIRST_PREDICATE };
enum { NO_ROW = INT32_MAX }; /* an operand that is not there; `_` */

/* What only some instructions have. */
struct extra {
    operand_row rows[8]; /* a vector's, or further operands */
    unsigned int count;
    operand_row more[8]; /* a second vector */
    unsigned int more_count;
    uint32_t *targets; /* of a branch by index */
    unsigned int target_count;
    struct function *callee;              /* NULL: by address */
    struct variable *results, *arguments; /* in the callee's or the prototype's order: formal */
    struct argument *given, *received;
    unsigned int given_count, received_count;
};

/* An actual parameter. */
struct argument {
    struct variable *variable; /* in the caller's frame; NULL: it is a row */
    operand_row row;
};

/* Invariant: run != NULL; the operands are what `run` expects. */
struct instruction {
    handler *run;
    operand_row d, a, b, c;
    int32_t guard; /* a predicate operand; PREDICATE_TRUE * 2: always */
    uint32_t line;
    union {
        int64_t offset;  /* of an address */
        uint32_t target; /* of a branch */
        uint64_t number;
        const void *settings; /* in the program's arena */
    };
    enum space space;
    uint8_t size;  /* bytes of an element */
    uint8_t count; /* of elements */
    uint8_t type, type2;
    uint8_t mode, mode2; /* as `run` reads them */
    bool flag, flag2, flag3;
    bool in_frame; /* the address is one of the frame's local memory */
    struct extra *extra;
};

/* A function or a kernel. Invariant: count instructions, of which the last one ends it. */
struct function {
    const char *name;
    bool kernel;
    enum linkage linkage;
    unsigned int unit, index;
    bool defined;
    bool noreturn;
    struct instruction *code;
    unsigned int count;
    unsigned int rows, predicates;
    struct constant *constants;
    unsigned int constant_count;
    struct variable *results, *parameters; /* in order */
    size_t parameter_bytes;                /* of a kernel */
    size_t local_bytes;                    /* of a frame: variables and parameters */
    struct function **callees;
    unsigned int callee_count;
    struct variable **shared; /* that it names */
    unsigned int shared_count;
    bool calls_by_address;
    bool lets_dependents_begin; /* griddepcontrol.launch_dependents */
    handler *system;            /* of a function that every device has */
    struct function *resolved;  /* of an extern one: what it is */
    struct function *next;
};

/* All texts that were linked. Invariant: once finished, nothing changes. */
struct simt_program {
    unsigned int references;
    struct arena arena;
    struct function *functions, *last_function; /* kernels, too, in order */
    unsigned int function_count;
    struct variable *variables, *last_variable; /* of modules: .global, .const, .shared, opaque */
    unsigned int global_count, shared_count;
    unsigned int units;
    unsigned int target; /* the highest of the texts', times 10 */
    bool uses_heap;
};

#endif
