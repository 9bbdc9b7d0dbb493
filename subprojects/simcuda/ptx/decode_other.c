/* Moves, comparisons, and what the lanes of a warp do together. */
#include "decode.h"

#include "bits.h"
#include "handlers.h"

#include <string.h>

/* --- mov --- */

/* mov.b64 d, {a, b} and mov.b64 {a, b}, d */
static bool decode_parts(struct decoding *decoding, enum type type) {
    struct instruction *made = &decoding->made;
    bool packs = decoding->operands[1].kind == OPERAND_VECTOR;
    struct extra *extra = need_extra(decoding);

    if (!take_parts(decoding, &decoding->operands[packs ? 1 : 0], TYPE_B32, !packs, extra->rows,
                    &extra->count))
        return false;
    if (extra->count == 0 || type_facts[type].size % extra->count != 0 || type == TYPE_PRED)
        return decode_fail(decoding, "so many parts do not make up its type");
    made->size = (uint8_t)(type_facts[type].size / extra->count);
    made->run = packs ? run_pack : run_unpack;
    return packs ? take_destination(decoding, &decoding->operands[0], &made->d)
                 : take_source(decoding, &decoding->operands[1], type, &made->a);
}

static bool emit_move(struct decoding *decoding, operand_row to, operand_row from) {
    struct instruction each = decoding->made;

    each.run = run_move;
    each.d = to;
    each.a = from;
    return emit(decoding, &each) != NULL;
}

/* mov.v2.u32 v, {a, b}: all parts are read before the first is written. */
static bool decode_vector_move(struct decoding *decoding, enum type type, unsigned int lanes) {
    operand_row to[8], from[8], between[8];
    unsigned int written, read;

    if (type == TYPE_PRED || type == TYPE_B128)
        return decode_fail(decoding, "it has no vectors of its type");
    if (!take_parts(decoding, &decoding->operands[0], type, true, to, &written) ||
        !take_parts(decoding, &decoding->operands[1], type, false, from, &read))
        return false;
    if (written != lanes || read != lanes)
        return decode_fail(decoding, "vectors of %u parts are expected", lanes);
    for (unsigned int i = 0; i < lanes; i++) {
        between[i] = new_row(decoding->parser);
        if (!emit_move(decoding, between[i], from[i]))
            return false;
    }
    for (unsigned int i = 0; i < lanes; i++)
        if (to[i] != NO_ROW && !emit_move(decoding, to[i], between[i]))
            return false;
    return true;
}

bool decode_move(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    unsigned int lanes = has_modifier(decoding, "v2") ? 2 : has_modifier(decoding, "v4") ? 4 : 1;
    enum type type = take_modifier_type(decoding);

    if (!expect_operands(decoding, 2, 2))
        return false;
    if (type == TYPE_NONE)
        return decode_fail(decoding, "its type is missing");
    if (lanes != 1)
        return decode_vector_move(decoding, type, lanes);
    if (decoding->operands[0].kind == OPERAND_VECTOR ||
        decoding->operands[1].kind == OPERAND_VECTOR) {
        if (!decode_parts(decoding, type))
            return false;
    } else if (type == TYPE_PRED) {
        made->run = run_move_predicate;
        if (!take_predicate_result(decoding, &decoding->operands[0], &made->d) ||
            !take_predicate(decoding, &decoding->operands[1], &made->a))
            return false;
    } else {
        made->run = type == TYPE_B128 ? run_move_wide : run_move;
        if (!take_destination(decoding, &decoding->operands[0], &made->d) ||
            !take_source(decoding, &decoding->operands[1], type, &made->a))
            return false;
    }
    return emit(decoding, made) != NULL;
}

/* --- comparing and selecting --- */

static const char *const compare_words[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",
                                            "equ", "neu", "ltu", "leu", "gtu", "geu",
                                            "num", "nan", "lo",  "ls",  "hi",  "hs"};
enum { FIRST_UNSIGNED = 14 }; /* .lo is .lt, and so on */

static bool take_comparison(struct decoding *decoding) {
    static const char *const combine_words[] = {"and", "or", "xor"};
    int which =
        take_modifier_of(decoding, compare_words, sizeof compare_words / sizeof *compare_words);

    if (which < 0)
        return decode_fail(decoding, "its comparison is missing");
    decoding->made.mode =
        (uint8_t)(which >= FIRST_UNSIGNED ? which - FIRST_UNSIGNED + PTX_LT : which);
    decoding->made.mode2 = (uint8_t)(take_modifier_of(decoding, combine_words, 3) + 1);
    decoding->made.flag = has_modifier(decoding, "ftz");
    return true;
}

static bool is_half(enum type type) {
    return type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_F16X2 || type == TYPE_BF16X2;
}

static bool is_pair(enum type type) {
    return type == TYPE_F16X2 || type == TYPE_BF16X2;
}

static bool can_be_compared(enum type type) {
    return type != TYPE_NONE &&
           (is_half(type) || type == TYPE_F32 || type == TYPE_F64 ||
            (type <= TYPE_S64 && type_facts[type].size >= 2 && type_facts[type].size <= 8));
}

/* The two operands that are compared, from `first` on, and the predicate behind them. */
static bool take_compared(struct decoding *decoding, enum type type) {
    struct instruction *made = &decoding->made;

    made->type = (uint8_t)type;
    if (!can_be_compared(type))
        return decode_fail(decoding, "values of its type are not compared");
    if (!expect_operands(decoding, 3u + (made->mode2 != 0), 3u + (made->mode2 != 0)) ||
        !take_source(decoding, &decoding->operands[1], type, &made->a) ||
        !take_source(decoding, &decoding->operands[2], type, &made->b))
        return false;
    return made->mode2 == 0 || take_predicate(decoding, &decoding->operands[3], &made->c);
}

bool decode_set_predicate(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    enum type type;

    if (!take_comparison(decoding))
        return false;
    type = take_modifier_type(decoding);
    if (!take_compared(decoding, type) ||
        !take_predicate_result(decoding, &decoding->operands[0], &made->d))
        return false;
    if (decoding->operands[0].second != NULL &&
        !take_predicate_result(decoding, decoding->operands[0].second,
                               &need_extra(decoding)->rows[0]))
        return false;
    made->run = is_pair(type) ? run_set_predicates : run_set_predicate;
    return emit(decoding, made) != NULL;
}

bool decode_set(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    enum type to, type;

    if (!take_comparison(decoding))
        return false;
    to = take_modifier_type(decoding);
    type = take_modifier_type(decoding);
    if (!take_compared(decoding, type) ||
        !take_destination(decoding, &decoding->operands[0], &made->d))
        return false;
    switch (to) {
    case TYPE_F32:
        made->number = 0x3f800000;
        break;
    case TYPE_F16:
    case TYPE_F16X2:
        made->number = 0x3c00;
        break;
    case TYPE_BF16:
    case TYPE_BF16X2:
        made->number = 0x3f80;
        break;
    case TYPE_U16:
    case TYPE_S16:
        made->number = 0xffff;
        break;
    default:
        made->number = is_pair(type) ? 0xffff : 0xffffffff;
        break;
    }
    made->run = is_pair(type) ? run_set_halves : run_set;
    return emit(decoding, made) != NULL;
}

bool decode_select(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    enum type type = take_modifier_type(decoding);

    if (type == TYPE_NONE || type == TYPE_PRED)
        return decode_fail(decoding, "its type is missing");
    made->run = run_select;
    return expect_operands(decoding, 4, 4) &&
           take_destination(decoding, &decoding->operands[0], &made->d) &&
           take_source(decoding, &decoding->operands[1], type, &made->a) &&
           take_source(decoding, &decoding->operands[2], type, &made->b) &&
           take_predicate(decoding, &decoding->operands[3], &made->c) &&
           emit(decoding, made) != NULL;
}

bool decode_select_by_sign(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    enum type type = take_modifier_type(decoding), by = take_modifier_type(decoding);

    made->flag = has_modifier(decoding, "ftz");
    made->type2 = (uint8_t)by;
    made->run = run_select_by_sign;
    if (type == TYPE_NONE || (by != TYPE_F32 && by != TYPE_S32))
        return decode_fail(decoding, "its types are missing");
    return expect_operands(decoding, 4, 4) &&
           take_destination(decoding, &decoding->operands[0], &made->d) &&
           take_source(decoding, &decoding->operands[1], type, &made->a) &&
           take_source(decoding, &decoding->operands[2], type, &made->b) &&
           take_source(decoding, &decoding->operands[3], by, &made->c) &&
           emit(decoding, made) != NULL;
}

/* lop3.b32 d, a, b, c, table; lop3.and.b32 d|p, a, b, c, table, q */
bool decode_lop3(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    static const char *const words[] = {"and", "or"};

    made->mode2 = (uint8_t)(take_modifier_of(decoding, words, 2) + 1);
    if (take_modifier_type(decoding) != TYPE_B32)
        return decode_fail(decoding, "its type is .b32");
    if (!expect_operands(decoding, 5u + (made->mode2 != 0), 5u + (made->mode2 != 0)) ||
        !take_destination(decoding, &decoding->operands[0], &made->d) ||
        !take_source(decoding, &decoding->operands[1], TYPE_B32, &made->a) ||
        !take_source(decoding, &decoding->operands[2], TYPE_B32, &made->b) ||
        !take_source(decoding, &decoding->operands[3], TYPE_B32, &made->c))
        return false;
    if (decoding->operands[4].kind != OPERAND_NUMBER || decoding->operands[4].number > 255)
        return decode_fail(decoding, "its table is a number up to 255");
    made->number = decoding->operands[4].number;
    if (made->mode2 != 0) {
        if (decoding->operands[0].second == NULL)
            return decode_fail(decoding, "a second result is missing");
        if (!take_predicate_result(decoding, decoding->operands[0].second,
                                   &need_extra(decoding)->rows[0]) ||
            !take_predicate(decoding, &decoding->operands[5], &made->extra->rows[1]))
            return false;
    }
    made->run = run_lop3;
    return emit(decoding, made) != NULL;
}

/* --- across lanes --- */

/* shfl.sync.mode.b32 d|p, a, b, c, members; shfl.mode.b32 d|p, a, b, c */
bool decode_shuffle(struct decoding *decoding) {
    static const char *const words[] = {"up", "down", "bfly", "idx"};
    struct instruction *made = &decoding->made;
    struct extra *extra = need_extra(decoding);
    bool sync = has_modifier(decoding, "sync");
    int mode = take_modifier_of(decoding, words, 4);

    if (mode < 0 || take_modifier_type(decoding) != TYPE_B32)
        return decode_fail(decoding, "its mode is .up, .down, .bfly or .idx, its type .b32");
    made->mode = (uint8_t)mode;
    extra->rows[0] = NO_ROW;
    extra->rows[1] = constant_number(decoding->parser, UINT32_MAX);
    made->flag = sync;
    made->run = run_shuffle;
    if (!expect_operands(decoding, 4u + sync, 4u + sync) ||
        !take_destination(decoding, &decoding->operands[0], &made->d) ||
        !take_source(decoding, &decoding->operands[1], TYPE_B32, &made->a) ||
        !take_source(decoding, &decoding->operands[2], TYPE_B32, &made->b) ||
        !take_source(decoding, &decoding->operands[3], TYPE_B32, &made->c) ||
        (sync && !take_source(decoding, &decoding->operands[4], TYPE_B32, &extra->rows[1])) ||
        (decoding->operands[0].second != NULL &&
         !take_predicate_result(decoding, decoding->operands[0].second, &extra->rows[0])))
        return false;
    return emit(decoding, made) != NULL;
}

/* vote.sync.all.pred p, q, members; vote.sync.ballot.b32 d, q, members */
bool decode_vote(struct decoding *decoding) {
    static const char *const words[] = {"all", "any", "uni", "ballot"};
    struct instruction *made = &decoding->made;
    bool sync = has_modifier(decoding, "sync");
    int mode = take_modifier_of(decoding, words, 4);
    enum type type = take_modifier_type(decoding);

    if (mode < 0 || type != (mode == 3 ? TYPE_B32 : TYPE_PRED))
        return decode_fail(decoding, "its mode is .all, .any, .uni or .ballot");
    made->mode = (uint8_t)mode;
    made->flag = sync;
    made->run = run_vote;
    made->b = constant_number(decoding->parser, UINT32_MAX);
    if (!expect_operands(decoding, 2u + sync, 2u + sync) ||
        !(mode == 3 ? take_destination(decoding, &decoding->operands[0], &made->d)
                    : take_predicate_result(decoding, &decoding->operands[0], &made->d)) ||
        !take_predicate(decoding, &decoding->operands[1], &made->c) ||
        (sync && !take_source(decoding, &decoding->operands[2], TYPE_B32, &made->b)))
        return false;
    return emit(decoding, made) != NULL;
}

/* match.any.sync.b32 d, a, members; match.all.sync.b64 d|p, a, members */
bool decode_match(struct decoding *decoding) {
    static const char *const words[] = {"any", "all"};
    struct instruction *made = &decoding->made;
    bool sync = has_modifier(decoding, "sync");
    int mode = take_modifier_of(decoding, words, 2);
    enum type type = take_modifier_type(decoding);

    if (!sync || mode < 0 || (type != TYPE_B32 && type != TYPE_B64))
        return decode_fail(decoding, "its mode is .any or .all, its type .b32 or .b64");
    made->mode = (uint8_t)mode;
    made->size = (uint8_t)type_facts[type].size;
    made->run = run_match;
    if (!expect_operands(decoding, 3, 3) ||
        !take_destination(decoding, &decoding->operands[0], &made->d) ||
        !take_source(decoding, &decoding->operands[1], type, &made->a) ||
        !take_source(decoding, &decoding->operands[2], TYPE_B32, &made->b))
        return false;
    if (decoding->operands[0].second != NULL &&
        !take_predicate_result(decoding, decoding->operands[0].second,
                               &need_extra(decoding)->rows[0]))
        return false;
    return emit(decoding, made) != NULL;
}

/* redux.sync.add.u32 d, a, members */
bool decode_reduce_lanes(struct decoding *decoding) {
    static const char *const words[] = {"add", "min", "max", "and", "or", "xor"};
    struct instruction *made = &decoding->made;
    bool sync = has_modifier(decoding, "sync");
    int mode = take_modifier_of(decoding, words, 6);
    enum type type = take_modifier_type(decoding);

    if (!sync || mode < 0 || (type != TYPE_B32 && type != TYPE_U32 && type != TYPE_S32))
        return decode_fail(decoding, "its operation or its type is unknown");
    made->mode = (uint8_t)mode;
    made->type = (uint8_t)type;
    made->run = run_reduce;
    return expect_operands(decoding, 3, 3) &&
           take_destination(decoding, &decoding->operands[0], &made->d) &&
           take_source(decoding, &decoding->operands[1], type, &made->a) &&
           take_source(decoding, &decoding->operands[2], TYPE_B32, &made->b) &&
           emit(decoding, made) != NULL;
}

bool decode_activemask(struct decoding *decoding) {
    if (take_modifier_type(decoding) != TYPE_B32)
        return decode_fail(decoding, "its type is .b32");
    decoding->made.run = run_activemask;
    return expect_operands(decoding, 1, 1) &&
           take_destination(decoding, &decoding->operands[0], &decoding->made.d) &&
           emit(decoding, &decoding->made) != NULL;
}

/* elect.sync d|p, members */
bool decode_elect(struct decoding *decoding) {
    struct instruction *made = &decoding->made;

    if (!has_modifier(decoding, "sync") || decoding->operands[0].second == NULL)
        return decode_fail(decoding, "it is elect.sync with two results");
    made->run = run_elect;
    return expect_operands(decoding, 2, 2) &&
           take_destination(decoding, &decoding->operands[0], &made->d) &&
           take_predicate_result(decoding, decoding->operands[0].second, &made->c) &&
           take_source(decoding, &decoding->operands[1], TYPE_B32, &made->b) &&
           emit(decoding, made) != NULL;
}
