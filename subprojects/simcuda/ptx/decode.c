#include "decode.h"

#include "allocate.h"
#include "bits.h"
#include "handlers.h"
#include "special.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool decode_fail(struct decoding *decoding, const char *format, ...) {
    char text[FAILURE_ROOM];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    decoding->parser->lexer.token.line = decoding->opcode.line;
    return lexer_fail(&decoding->parser->lexer, "%.*s: %s", (int)decoding->opcode.length,
                      decoding->opcode.text, text);
}

/* --- modifiers --- */

bool has_modifier(struct decoding *decoding, const char *word) {
    for (unsigned int i = 0; i < decoding->modifier_count; i++)
        if (!decoding->taken[i] && token_is(&decoding->modifiers[i], word))
            return decoding->taken[i] = true;
    return false;
}

bool has_modifier_prefix(struct decoding *decoding, const char *word) {
    bool has = false;

    for (unsigned int i = 0; i < decoding->modifier_count; i++)
        if (!decoding->taken[i] && decoding->modifiers[i].length >= strlen(word) &&
            memcmp(decoding->modifiers[i].text, word, strlen(word)) == 0)
            has = decoding->taken[i] = true;
    return has;
}

enum type take_modifier_type(struct decoding *decoding) {
    for (unsigned int i = 0; i < decoding->modifier_count; i++) {
        enum type type = type_named(decoding->modifiers[i].text, decoding->modifiers[i].length);

        if (decoding->taken[i] || type == TYPE_NONE)
            continue;
        decoding->taken[i] = true;
        return type;
    }
    return TYPE_NONE;
}

int take_modifier_of(struct decoding *decoding, const char *const *words, unsigned int count) {
    for (unsigned int i = 0; i < count; i++)
        if (has_modifier(decoding, words[i]))
            return (int)i;
    return -1;
}

static bool check_modifiers(struct decoding *decoding) {
    for (unsigned int i = 0; i < decoding->modifier_count; i++)
        if (!decoding->taken[i])
            return decode_fail(decoding, "the modifier '.%.*s' is unknown",
                               (int)decoding->modifiers[i].length, decoding->modifiers[i].text);
    return true;
}

/* --- operands --- */

struct instruction *emit(struct decoding *decoding, const struct instruction *instruction) {
    struct parser *parser = decoding->parser;

    VECTOR_ADD(&parser->code, *instruction);
    parser->code.items[parser->code.count - 1].line = decoding->opcode.line;
    return &parser->code.items[parser->code.count - 1];
}

struct extra *need_extra(struct decoding *decoding) {
    if (decoding->made.extra == NULL)
        decoding->made.extra =
            arena_take(&decoding->parser->program->arena, sizeof *decoding->made.extra);
    return decoding->made.extra;
}

/* A register that an instruction in front of this one fills. */
static operand_row fill_before(struct decoding *decoding, handler *run, uint64_t number) {
    operand_row row = new_row(decoding->parser);

    emit(decoding, &(struct instruction){.run = run,
                                         .d = row,
                                         .a = NO_ROW,
                                         .b = NO_ROW,
                                         .c = NO_ROW,
                                         .guard = PREDICATE_TRUE << 1,
                                         .number = number});
    return row;
}

static bool is_frames(const struct variable *variable) {
    return variable->space == SPACE_LOCAL ||
           (variable->space == SPACE_PARAM && !variable->in_kernel);
}

static operand_row variable_row(struct decoding *decoding, const struct operand *operand) {
    struct variable *variable = operand->variable;

    if (is_frames(variable))
        return fill_before(decoding, run_local_address, variable->offset + operand->number);
    if (variable->space == SPACE_PARAM)
        return constant_number(decoding->parser, variable->offset + operand->number);
    return constant_variable(decoding->parser, variable, operand->number);
}

static uint64_t float_bits(const struct operand *operand, enum type type) {
    double value;
    float single;

    if (type_facts[type].size != 4)
        return operand->number;
    memcpy(&value, &operand->number, sizeof value);
    single = (float)value;
    return operand->is_single ? operand->single : ptx_float_bits(single);
}

bool take_source(struct decoding *decoding, const struct operand *operand, enum type type,
                 operand_row *row) {
    struct parser *parser = decoding->parser;

    switch (operand->kind) {
    case OPERAND_REGISTER:
        *row = operand->row;
        return true;
    case OPERAND_NUMBER:
        if (type_is_float(type) && type_facts[type].size != 2)
            return decode_fail(decoding, "a number in floating point is expected");
        *row = constant_number(parser, operand->number);
        return true;
    case OPERAND_FLOAT:
        if (type_facts[type].size < 4)
            return decode_fail(decoding, "a number in floating point does not fit its type");
        *row = constant_number(parser, float_bits(operand, type));
        return true;
    case OPERAND_VARIABLE:
        *row = variable_row(decoding, operand);
        return true;
    case OPERAND_FUNCTION:
        *row = constant_function(parser, operand->function);
        return true;
    case OPERAND_SPECIAL:
        *row = fill_before(decoding, run_special, operand->special);
        return true;
    case OPERAND_NAME:
        return decode_fail(decoding, "'%.*s' is not declared", (int)operand->name.length,
                           operand->name.text);
    default:
        return decode_fail(decoding, "a register or a number is expected");
    }
}

bool take_destination(struct decoding *decoding, const struct operand *operand, operand_row *row) {
    if (operand->kind == OPERAND_SINK) {
        *row = new_row(decoding->parser);
        return true;
    }
    if (operand->kind == OPERAND_NAME)
        return decode_fail(decoding, "'%.*s' is not declared", (int)operand->name.length,
                           operand->name.text);
    *row = operand->row;
    return operand->kind == OPERAND_REGISTER ||
           decode_fail(decoding, "a register is expected for the result");
}

bool take_predicate(struct decoding *decoding, const struct operand *operand, operand_row *row) {
    switch (operand->kind) {
    case OPERAND_PREDICATE:
        *row = (operand->row << 1) + operand->negated;
        return true;
    case OPERAND_NUMBER:
        *row = (operand->number != 0 ? PREDICATE_TRUE : PREDICATE_FALSE) << 1;
        return true;
    case OPERAND_SINK:
        *row = new_predicate(decoding->parser) << 1;
        return true;
    default:
        return decode_fail(decoding, "a predicate is expected");
    }
}

/* One that is written: none that is negated or a constant, which all instructions share. */
bool take_predicate_result(struct decoding *decoding, const struct operand *operand,
                           operand_row *row) {
    if (operand->kind == OPERAND_NUMBER || operand->negated)
        return decode_fail(decoding, "a predicate is expected for the result");
    return take_predicate(decoding, operand, row);
}

bool take_parts(struct decoding *decoding, const struct operand *operand, enum type type,
                bool destination, operand_row *rows, unsigned int *count) {
    if (operand->kind == OPERAND_REGISTER && operand->count > 1) { /* declared as a vector */
        *count = operand->count;
        for (unsigned int i = 0; i < *count; i++)
            rows[i] = operand->row + (operand_row)i;
        return true;
    }
    *count = operand->kind == OPERAND_VECTOR ? operand->count : 1;
    if (*count == 0 || *count > 8)
        return decode_fail(decoding, "a vector has 2, 4 or 8 parts");
    for (unsigned int i = 0; i < *count; i++) {
        const struct operand *part = operand->kind == OPERAND_VECTOR ? &operand->items[i] : operand;

        if (destination && part->kind == OPERAND_SINK)
            rows[i] = NO_ROW;
        else if (destination ? !take_destination(decoding, part, &rows[i])
                             : !take_source(decoding, part, type, &rows[i]))
            return false;
    }
    return true;
}

bool take_address(struct decoding *decoding, const struct operand *operand, enum space space) {
    const struct operand *base = operand;
    struct instruction *made = &decoding->made;

    if (operand->kind == OPERAND_ADDRESS) {
        if (operand->count != 1)
            return decode_fail(decoding, "an address has one part");
        base = &operand->items[0];
    }
    made->offset = (int64_t)base->number;
    if (base->kind == OPERAND_REGISTER) {
        made->a = base->row;
        return true;
    }
    if (base->kind == OPERAND_NUMBER) {
        made->a = constant_number(decoding->parser, 0);
        return true;
    }
    if (base->kind != OPERAND_VARIABLE)
        return base->kind == OPERAND_NAME ? decode_fail(decoding, "'%.*s' is not declared",
                                                        (int)base->name.length, base->name.text)
                                          : decode_fail(decoding, "an address is expected");
    if (is_frames(base->variable)) {
        made->in_frame = true;
        made->offset += (int64_t)base->variable->offset;
        made->a = constant_number(decoding->parser, 0);
        return true;
    }
    if (base->variable->space == SPACE_PARAM) {
        made->offset += (int64_t)base->variable->offset;
        made->a = constant_number(decoding->parser, 0);
        return space == SPACE_PARAM || decode_fail(decoding, "a parameter is in .param");
    }
    made->a = constant_variable(decoding->parser, base->variable, 0);
    return true;
}

bool expect_operands(struct decoding *decoding, unsigned int least, unsigned int most) {
    return (decoding->operand_count >= least && decoding->operand_count <= most) ||
           decode_fail(decoding, "%u operands are given where it has %s%u", decoding->operand_count,
                       least != most ? "at most " : "", most);
}

/* --- forms --- */

struct known_form {
    const struct form *form;
    UT_hash_handle hh;
};

static struct known_form *known_forms;
static pthread_once_t forms_once = PTHREAD_ONCE_INIT;

static void add_forms(const struct form *forms) {
    size_t count = 0;
    struct known_form *known;

    while (forms[count].text != NULL)
        count++;
    known = allocate_zeroed((count + 1) * sizeof *known); /* as long as the process */
    for (size_t i = 0; i < count; i++) {
        known[i].form = &forms[i];
        HASH_ADD_KEYPTR(hh, known_forms, forms[i].text, strlen(forms[i].text), &known[i]);
    }
}

static void know_forms(void) {
    add_forms(integer_forms);
    add_forms(float_forms);
    add_forms(half_forms);
    add_forms(convert_forms);
    add_forms(other_forms);
}

static const char mode_letters[] = "rrrrriiiifsunxxF";
static const char *const mode_words[] = {"rn",  "rz",      "rm",  "rp",       "rna", "rni",
                                         "rzi", "rmi",     "rpi", "ftz",      "sat", "relu",
                                         "NaN", "xorsign", "abs", "satfinite"};
enum { FIRST_INTEGRAL = 5 };

static int mode_of(const struct token *modifier) {
    for (int i = 0; i < (int)(sizeof mode_words / sizeof *mode_words); i++)
        if (token_is(modifier, mode_words[i]))
            return i;
    return -1;
}

/* The form that has all of the modifiers in its text, or all that are no modes. */
static const struct form *find_form(const struct decoding *decoding, bool with_modes) {
    char text[128];
    size_t length = decoding->opcode.length;
    struct known_form *known;

    if (length >= sizeof text)
        return NULL;
    memcpy(text, decoding->opcode.text, length);
    for (unsigned int i = 0; i < decoding->modifier_count; i++) {
        const struct token *modifier = &decoding->modifiers[i];

        if (!with_modes && mode_of(modifier) >= 0)
            continue;
        if (length + 1 + modifier->length >= sizeof text)
            return NULL;
        text[length++] = '.';
        memcpy(text + length, modifier->text, modifier->length);
        length += modifier->length;
    }
    HASH_FIND(hh, known_forms, text, length, known);
    return known == NULL ? NULL : known->form;
}

static void set_mode(struct instruction *made, int mode) {
    switch (mode_letters[mode]) {
    case 'r':
        made->mode = (uint8_t)mode; /* PTX_RN and so on, in this order */
        break;
    case 'i':
        made->mode = (uint8_t)(mode - FIRST_INTEGRAL);
        made->mode2 |= 8;
        break;
    case 'f':
        made->flag = true;
        break;
    case 's':
        made->flag2 = true;
        break;
    case 'u':
        made->flag3 = true;
        break;
    case 'n':
        made->mode2 |= 1;
        break;
    case 'x':
        made->mode2 |= 2;
        break;
    default:
        made->mode2 |= 4;
        break;
    }
}

static bool take_modes(struct decoding *decoding, const struct form *form) {
    for (unsigned int i = 0; i < decoding->modifier_count; i++) {
        int mode = mode_of(&decoding->modifiers[i]);

        if (mode < 0)
            continue;
        if (strchr(form->modes, mode_letters[mode]) == NULL)
            return decode_fail(decoding, "the modifier '.%s' is not one of %s", mode_words[mode],
                               form->text);
        set_mode(&decoding->made, mode);
    }
    return true;
}

static enum type letter_type(char letter) {
    switch (letter) {
    case 'h':
        return TYPE_B16;
    case 'l':
        return TYPE_B64;
    case 'q':
        return TYPE_B128;
    case 'f':
        return TYPE_F32;
    case 'g':
        return TYPE_F64;
    default:
        return TYPE_B32;
    }
}

static bool take_form_operands(struct decoding *decoding, const char *letters) {
    struct instruction *made = &decoding->made;
    operand_row *places[] = {&made->d, &made->a, &made->b, &made->c};
    unsigned int taken = 0;
    bool optional = false;

    for (; *letters != '\0'; letters++) {
        const struct operand *operand = &decoding->operands[taken];
        operand_row *place;
        bool right;

        if (*letters == '?') {
            optional = true;
            continue;
        }
        if (taken == decoding->operand_count)
            return optional || decode_fail(decoding, "operands are missing");
        place = taken < 4 ? places[taken] : &need_extra(decoding)->rows[taken - 4];
        right = *letters == 'D'   ? take_destination(decoding, operand, place)
                : *letters == 'P' ? take_predicate_result(decoding, operand, place)
                : *letters == 'p' ? take_predicate(decoding, operand, place)
                                  : take_source(decoding, operand, letter_type(*letters), place);
        if (!right)
            return false;
        taken++;
    }
    return taken == decoding->operand_count || decode_fail(decoding, "there are too many operands");
}

static bool decode_by_form(struct decoding *decoding) {
    const struct form *form;

    pthread_once(&forms_once, know_forms);
    form = find_form(decoding, true);
    if (form == NULL) {
        form = find_form(decoding, false);
        if (form == NULL) {
            const struct token *last = decoding->modifier_count != 0
                                           ? &decoding->modifiers[decoding->modifier_count - 1]
                                           : &decoding->opcode;

            return decode_fail(decoding, "the instruction '%.*s' is unknown",
                               (int)(last->text + last->length - decoding->opcode.text),
                               decoding->opcode.text);
        }
        if (!take_modes(decoding, form))
            return false;
    }
    decoding->made.run = form->run;
    memset(decoding->taken, true, sizeof decoding->taken);
    return take_form_operands(decoding, form->operands) && emit(decoding, &decoding->made) != NULL;
}

/* --- instructions --- */

static const struct {
    const char *opcode;
    decoder *decode;
} decoders[] = {
    {"mov", decode_move},
    {"ld", decode_load},
    {"ldu", decode_load},
    {"st", decode_store},
    {"bra", decode_branch},
    {"setp", decode_set_predicate},
    {"cvta", decode_to_address},
    {"selp", decode_select},
    {"set", decode_set},
    {"slct", decode_select_by_sign},
    {"call", decode_call},
    {"ret", decode_return},
    {"exit", decode_exit},
    {"brx", decode_branch_by_index},
    {"bar", decode_barrier},
    {"barrier", decode_barrier},
    {"shfl", decode_shuffle},
    {"vote", decode_vote},
    {"match", decode_match},
    {"redux", decode_reduce_lanes},
    {"activemask", decode_activemask},
    {"elect", decode_elect},
    {"atom", decode_atomic},
    {"red", decode_reduction},
    {"membar", decode_fence},
    {"fence", decode_fence},
    {"prefetch", decode_prefetch},
    {"prefetchu", decode_prefetch},
    {"applypriority", decode_prefetch},
    {"discard", decode_prefetch},
    {"isspacep", decode_is_in_space},
    {"trap", decode_trap},
    {"brkpt", decode_breakpoint},
    {"nanosleep", decode_nanosleep},
    {"lop3", decode_lop3},
    {"tex", decode_texture},
    {"tld4", decode_gather},
    {"suld", decode_surface_load},
    {"sust", decode_surface_store},
    {"txq", decode_query},
    {"suq", decode_query},
    {"vmad", decode_video_mad},
};

/* @p or @!p */
static bool take_guard(struct parser *parser, operand_row *guard) {
    struct operand operand = {0};

    *guard = PREDICATE_TRUE << 1;
    if (!lexer_take_mark(&parser->lexer, '@'))
        return true;
    if (!parse_operand(parser, &operand))
        return false;
    if (operand.kind != OPERAND_PREDICATE)
        return lexer_fail(&parser->lexer, "a predicate is expected behind '@'");
    *guard = (operand.row << 1) + operand.negated;
    return true;
}

static bool take_operand(struct decoding *decoding, unsigned int operand) {
    if (is_video(&decoding->opcode) || token_is(&decoding->opcode, "vmad"))
        return take_video_operand(decoding, operand);
    return parse_operand(decoding->parser, &decoding->operands[operand]);
}

static bool take_text(struct decoding *decoding) {
    struct lexer *lexer = &decoding->parser->lexer;

    decoding->opcode = lexer->token;
    if (lexer->token.kind != TOKEN_WORD)
        return lexer_fail(lexer, "an instruction is expected before '%.*s'",
                          (int)lexer->token.length, lexer->token.text);
    decoding->parser->in_call = token_is(&decoding->opcode, "call");
    lexer_next(lexer);
    while (lexer->token.kind == TOKEN_DOT) {
        if (decoding->modifier_count == MOST_MODIFIERS)
            return decode_fail(decoding, "there are too many modifiers");
        decoding->modifiers[decoding->modifier_count++] = lexer->token;
        lexer_next(lexer);
    }
    while (!lexer_at_mark(lexer, ';')) {
        if (decoding->operand_count == MOST_OPERANDS)
            return decode_fail(decoding, "there are too many operands");
        if (!take_operand(decoding, decoding->operand_count++))
            return false;
        if (!lexer_take_mark(lexer, ','))
            break;
    }
    return lexer_at_mark(lexer, ';') || lexer_fail(lexer, "';' is expected before '%.*s'",
                                                   (int)lexer->token.length, lexer->token.text);
}

bool parse_instruction(struct parser *parser) {
    struct decoding decoding = {.parser = parser,
                                .made = {.d = NO_ROW, .a = NO_ROW, .b = NO_ROW, .c = NO_ROW}};
    decoder *decode = decode_by_form;

    if (!take_guard(parser, &decoding.made.guard) || !take_text(&decoding))
        return false;
    for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++)
        if (token_is(&decoding.opcode, decoders[i].opcode))
            decode = decoders[i].decode;
    if (is_video(&decoding.opcode))
        decode = decode_video;
    if (!decode(&decoding) || !check_modifiers(&decoding))
        return false;
    lexer_next(&parser->lexer);
    return true;
}

bool decode_end(struct parser *parser) {
    struct decoding decoding = {.parser = parser, .opcode = parser->lexer.token};

    emit(&decoding, &(struct instruction){.run = run_return, .guard = PREDICATE_TRUE << 1});
    return true;
}
