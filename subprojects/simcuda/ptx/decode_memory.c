/* Loads, stores, atomic operations, addresses. PTX ISA, "Data Movement and Conversion
 * Instructions", "Parallel Synchronization and Communication Instructions". */
#include "decode.h"

#include "atomic.h"
#include "handlers.h"

/* What only says how soon others are to see it, or what caches are to keep. */
static void take_hints(struct decoding *decoding, bool *acquires) {
    static const char *const hints[] = {"weak", "ca", "cg", "cs",   "lu",      "cv",
                                        "wb",   "wt", "nc", "mmio", "unified", "noftz"};
    static const char *const orders[] = {"relaxed", "volatile"};
    static const char *const strong[] = {"acquire", "release", "acq_rel", "sc"};
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys", "gl"};

    for (unsigned int i = 0; i < sizeof hints / sizeof *hints; i++)
        has_modifier(decoding, hints[i]);
    take_modifier_of(decoding, orders, 2);
    *acquires = take_modifier_of(decoding, strong, 4) >= 0;
    take_modifier_of(decoding, scopes, 5);
    has_modifier_prefix(decoding, "L1::");
    has_modifier_prefix(decoding, "L2::");
}

static enum space take_space(struct decoding *decoding) {
    static const char *const words[] = {"global",       "const",       "shared",
                                        "local",        "param",       "shared::cta",
                                        "param::entry", "param::func", "shared::cluster"};
    static const enum space spaces[] = {SPACE_GLOBAL, SPACE_CONST, SPACE_SHARED,
                                        SPACE_LOCAL,  SPACE_PARAM, SPACE_SHARED,
                                        SPACE_PARAM,  SPACE_PARAM, SPACE_SHARED};
    int which = take_modifier_of(decoding, words, sizeof words / sizeof *words);

    return which < 0 ? SPACE_GENERIC : spaces[which];
}

static unsigned int take_count(struct decoding *decoding) {
    static const char *const words[] = {"v2", "v4", "v8"};
    int which = take_modifier_of(decoding, words, 3);

    return which < 0 ? 1 : 2u << which;
}

/* The parts of one memory access. 128 bits are two registers' 64. */
static bool take_accessed(struct decoding *decoding, const struct operand *operand,
                          bool destination) {
    struct instruction *made = &decoding->made;
    enum type type = (enum type)made->type;
    struct extra *extra;

    if (type == TYPE_B128) {
        if (made->count != 1 || operand->kind != OPERAND_REGISTER)
            return decode_fail(decoding, "128 bits are one register");
        extra = need_extra(decoding);
        extra->rows[0] = operand->row;
        extra->rows[1] = operand->row + 1;
        made->size = 8;
        made->count = 2;
        return true;
    }
    if (made->count == 1 && operand->kind != OPERAND_VECTOR)
        return destination ? take_destination(decoding, operand, &made->d)
                           : take_source(decoding, operand, type, &made->b);
    extra = need_extra(decoding);
    return take_parts(decoding, operand, type, destination, extra->rows, &extra->count) &&
           (extra->count == made->count ||
            decode_fail(decoding, "%u parts are given where it has %u", extra->count, made->count));
}

/* A parameter's space is another one where it is a function's. */
static void settle_space(struct decoding *decoding) {
    struct instruction *made = &decoding->made;

    if (made->space == SPACE_PARAM && (made->in_frame || !decoding->parser->function->kernel))
        made->space = SPACE_LOCAL;
    if (made->space == SPACE_CONST)
        made->space = SPACE_GLOBAL;
}

static bool begin_access(struct decoding *decoding, const struct operand *address, bool *acquires) {
    struct instruction *made = &decoding->made;
    enum type type;

    take_hints(decoding, acquires);
    made->space = take_space(decoding);
    made->count = (uint8_t)take_count(decoding);
    type = take_modifier_type(decoding);
    if (type == TYPE_NONE || type == TYPE_PRED)
        return decode_fail(decoding, "its type is missing");
    made->type = (uint8_t)type;
    made->size = (uint8_t)type_facts[type].size;
    return take_address(decoding, address, made->space);
}

/* An address that names its variable needs no space: it is the variable's. */
static void take_variables_space(struct decoding *decoding, const struct operand *address) {
    const struct operand *base =
        address->kind == OPERAND_ADDRESS && address->count == 1 ? &address->items[0] : address;

    if (decoding->made.space == SPACE_GENERIC && base->kind == OPERAND_VARIABLE)
        decoding->made.space = base->variable->space;
}

static handler *load_handler(const struct instruction *made) {
    bool plain = made->extra == NULL && !made->flag;

    if (plain && made->size == 4 && made->type != TYPE_S32)
        return made->space == SPACE_GLOBAL    ? run_load_global_4
               : made->space == SPACE_SHARED  ? run_load_shared_4
               : made->space == SPACE_GENERIC ? run_load_generic_4
                                              : run_load;
    if (plain && made->size == 8 && made->space == SPACE_GLOBAL)
        return run_load_global_8;
    return run_load;
}

bool decode_load(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    const struct operand *address = &decoding->operands[1];

    if (!expect_operands(decoding, 2, 3) || !begin_access(decoding, address, &made->flag))
        return false;
    take_variables_space(decoding, address);
    settle_space(decoding);
    if (!take_accessed(decoding, &decoding->operands[0], true))
        return false;
    made->run = load_handler(made);
    if (made->space == SPACE_PARAM && address->items != NULL &&
        address->items[0].kind == OPERAND_VARIABLE)
        made->run = run_load_parameter;
    return emit(decoding, made) != NULL;
}

bool decode_store(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    bool plain;

    if (!expect_operands(decoding, 2, 3) ||
        !begin_access(decoding, &decoding->operands[0], &made->flag))
        return false;
    take_variables_space(decoding, &decoding->operands[0]);
    settle_space(decoding);
    if (made->space == SPACE_PARAM)
        return decode_fail(decoding, "a kernel's parameters cannot be written");
    if (!take_accessed(decoding, &decoding->operands[1], false))
        return false;
    plain = made->extra == NULL && !made->flag;
    made->run = run_store;
    if (plain && made->size == 4)
        made->run = made->space == SPACE_GLOBAL    ? run_store_global_4
                    : made->space == SPACE_SHARED  ? run_store_shared_4
                    : made->space == SPACE_GENERIC ? run_store_generic_4
                                                   : run_store;
    else if (plain && made->size == 8 && made->space == SPACE_GLOBAL)
        made->run = run_store_global_8;
    return emit(decoding, made) != NULL;
}

/* --- atomic operations --- */

static const char *const atomic_words[] = {"exch", "cas", "add", "inc", "dec",
                                           "min",  "max", "and", "or",  "xor"};

static bool is_atomic_type(enum atomic operation, enum type type) {
    unsigned int size = type == TYPE_NONE ? 0 : type_facts[type].size;
    bool is_float = type == TYPE_F32 || type == TYPE_F64 || type == TYPE_F16 || type == TYPE_BF16 ||
                    type == TYPE_F16X2 || type == TYPE_BF16X2;

    if (size == 2)
        return operation == ATOMIC_ADD ? is_float : type == TYPE_B16 && operation <= ATOMIC_COMPARE;
    if (size != 4 && size != 8)
        return false;
    if (operation == ATOMIC_INCREMENT || operation == ATOMIC_DECREMENT)
        return type == TYPE_U32;
    return !is_float || operation == ATOMIC_ADD;
}

/* Behind the result, if there is one. */
static bool decode_change(struct decoding *decoding, unsigned int first) {
    struct instruction *made = &decoding->made;
    bool acquires, compares;
    int which = take_modifier_of(decoding, atomic_words, 10);

    has_modifier(decoding, "rn"); /* only addition rounds, and to nearest */
    if (which < 0)
        return decode_fail(decoding, "its operation is missing");
    compares = which == ATOMIC_COMPARE;
    if (!expect_operands(decoding, first + 2 + compares, first + 3 + compares) ||
        !begin_access(decoding, &decoding->operands[first], &acquires))
        return false;
    take_variables_space(decoding, &decoding->operands[first]);
    settle_space(decoding);
    made->mode = (uint8_t)which;
    if (!is_atomic_type((enum atomic)which, (enum type)made->type))
        return decode_fail(decoding, "there is no such operation of its type");
    if (decoding->operands[first + 1].kind == OPERAND_VECTOR) {
        struct extra *extra = need_extra(decoding);

        made->run = run_atomic_vector;
        if (!take_parts(decoding, &decoding->operands[first + 1], (enum type)made->type, false,
                        extra->rows, &extra->count) ||
            (first != 0 && !take_parts(decoding, &decoding->operands[0], (enum type)made->type,
                                       true, extra->more, &extra->more_count)))
            return false;
        if (extra->count != made->count || (first != 0 && extra->more_count != made->count))
            return decode_fail(decoding, "vectors of %u parts are expected", made->count);
        return emit(decoding, made) != NULL;
    }
    made->run = run_atomic;
    return take_source(decoding, &decoding->operands[first + 1], (enum type)made->type, &made->b) &&
           (!compares || take_source(decoding, &decoding->operands[first + 2],
                                     (enum type)made->type, &made->c)) &&
           (first == 0 || decoding->operands[0].kind == OPERAND_SINK ||
            take_destination(decoding, &decoding->operands[0], &made->d)) &&
           emit(decoding, made) != NULL;
}

bool decode_atomic(struct decoding *decoding) {
    return decode_change(decoding, 1);
}

bool decode_reduction(struct decoding *decoding) {
    if (has_modifier(decoding, "async"))
        return decode_fail(decoding, "asynchronous reductions are not simulated");
    return decode_change(decoding, 0);
}

/* --- addresses, caches, fences --- */

/* cvta.shared.u64 d, a and cvta.to.shared.u64 d, a */
bool decode_to_address(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    bool from_generic = has_modifier(decoding, "to");

    made->space = take_space(decoding);
    made->run = from_generic ? run_from_generic : run_to_generic;
    if (take_modifier_type(decoding) != TYPE_U64 || made->space == SPACE_GENERIC)
        return decode_fail(decoding, "it has a state space and the type .u64");
    return expect_operands(decoding, 2, 2) &&
           take_destination(decoding, &decoding->operands[0], &made->d) &&
           take_source(decoding, &decoding->operands[1], TYPE_U64, &made->a) &&
           emit(decoding, made) != NULL;
}

bool decode_is_in_space(struct decoding *decoding) {
    struct instruction *made = &decoding->made;

    made->space = take_space(decoding);
    made->run = run_is_in_space;
    if (made->space == SPACE_GENERIC)
        return decode_fail(decoding, "its state space is missing");
    return expect_operands(decoding, 2, 2) &&
           take_predicate_result(decoding, &decoding->operands[0], &made->d) &&
           take_source(decoding, &decoding->operands[1], TYPE_U64, &made->a) &&
           emit(decoding, made) != NULL;
}

/* There are no caches. */
bool decode_prefetch(struct decoding *decoding) {
    static const char *const words[] = {"L1", "L2"};
    bool unused;

    take_hints(decoding, &unused);
    take_space(decoding);
    take_modifier_of(decoding, words, 2);
    return expect_operands(decoding, 1, 2);
}

bool decode_fence(struct decoding *decoding) {
    static const char *const words[] = {"sc", "acq_rel", "acquire", "release"};
    bool unused;

    take_modifier_of(decoding, words, 4);
    take_hints(decoding, &unused);
    has_modifier(decoding, "proxy"); /* there is but one way to memory */
    has_modifier(decoding, "alias");
    decoding->made.run = run_fence;
    return expect_operands(decoding, 0, 0) && emit(decoding, &decoding->made) != NULL;
}
