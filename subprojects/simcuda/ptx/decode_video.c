/* Video instructions. PTX ISA, "Scalar Video Instructions", "SIMD Video Instructions". */
#include "compute.h"

#include "handlers.h"

#include <string.h>

static enum step run_video(struct warp *warp, const struct instruction *instruction) {
    const struct ptx_video_form *form = instruction->settings;
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);
    const uint64_t *c = source(warp, instruction->c);
    uint64_t *d = destination(warp, instruction->d);

    FOR_LANES(warp, lane, {
        d[lane] = ptx_video(*form, (uint32_t)a[lane], (uint32_t)b[lane], (uint32_t)c[lane]);
    });
    return STEP_ON;
}

static enum step run_vmad(struct warp *warp, const struct instruction *instruction) {
    const struct ptx_vmad_form *form = instruction->settings;
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);
    const uint64_t *c = source(warp, instruction->c);
    uint64_t *d = destination(warp, instruction->d);

    FOR_LANES(warp, lane, {
        d[lane] = ptx_vmad(*form, (uint32_t)a[lane], (uint32_t)b[lane], (uint32_t)c[lane]);
    });
    return STEP_ON;
}

static enum step run_simd_video(struct warp *warp, const struct instruction *instruction) {
    const struct ptx_simd_video_form *form = instruction->settings;
    const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);
    const uint64_t *c = source(warp, instruction->c);
    uint64_t *d = destination(warp, instruction->d);

    FOR_LANES(warp, lane, {
        d[lane] = ptx_simd_video(*form, (uint32_t)a[lane], (uint32_t)b[lane], (uint32_t)c[lane]);
    });
    return STEP_ON;
}

static const struct {
    const char *opcode;
    enum ptx_video operation;
    bool scalar, simd;
} operations[] = {
    {"vadd", PTX_VADD, true, true},         {"vsub", PTX_VSUB, true, true},
    {"vabsdiff", PTX_VABSDIFF, true, true}, {"vmin", PTX_VMIN, true, true},
    {"vmax", PTX_VMAX, true, true},         {"vavrg", PTX_VAVRG, false, true},
    {"vshl", PTX_VSHL_CLAMP, true, false},  {"vshr", PTX_VSHR_CLAMP, true, false},
    {"vset", PTX_VSET, true, true},
};

/* The operation of an opcode, and its lanes: 1, 2 or 4. Negative: there is none. */
static int find_operation(const struct token *opcode, unsigned int *lanes) {
    for (int i = 0; i < (int)(sizeof operations / sizeof *operations); i++) {
        size_t length = strlen(operations[i].opcode);
        char last = opcode->text[opcode->length - 1];

        if (opcode->length < length || memcmp(opcode->text, operations[i].opcode, length) != 0)
            continue;
        if (opcode->length == length && operations[i].scalar)
            return *lanes = 1, i;
        if (opcode->length == length + 1 && operations[i].simd && (last == '2' || last == '4'))
            return *lanes = (unsigned int)(last - '0'), i;
    }
    return -1;
}

/* The next type, .u32 or .s32. */
static bool take_sign(struct decoding *decoding, bool *is_signed) {
    enum type type = take_modifier_type(decoding);

    *is_signed = type == TYPE_S32;
    return type == TYPE_S32 || type == TYPE_U32 ||
           decode_fail(decoding, "its types are .u32 and .s32");
}

/* .b0 to .b3, .h0, .h1 behind an operand; nothing: all of it. */
static bool take_part(struct decoding *decoding, unsigned int operand, enum ptx_video_part *part) {
    static const char *const words[] = {"b0", "b1", "b2", "b3", "h0", "h1"};
    const struct token *token = &decoding->parts[operand];

    *part = PTX_WORD;
    if (token->length == 0)
        return true;
    for (int i = 0; i < 6; i++)
        if (token_is(token, words[i]))
            return *part = PTX_B0 + (enum ptx_video_part)i, true;
    return decode_fail(decoding, "'.%.*s' is no part of an operand", (int)token->length,
                       token->text);
}

static bool take_registers(struct decoding *decoding) {
    struct instruction *made = &decoding->made;

    made->c = constant_number(decoding->parser, 0);
    return take_destination(decoding, &decoding->operands[0], &made->d) &&
           take_source(decoding, &decoding->operands[1], TYPE_B32, &made->a) &&
           take_source(decoding, &decoding->operands[2], TYPE_B32, &made->b) &&
           (decoding->operand_count < 4 ||
            take_source(decoding, &decoding->operands[3], TYPE_B32, &made->c));
}

static bool check_signs(struct decoding *decoding) {
    for (unsigned int i = 0; i < decoding->operand_count; i++)
        if (decoding->minus[i])
            return decode_fail(decoding, "only operands of vmad can be negated");
    return true;
}

static bool take_comparison(struct decoding *decoding, enum ptx_compare *compare) {
    static const char *const words[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    int which = take_modifier_of(decoding, words, 6);

    *compare = (enum ptx_compare)which;
    return which >= 0 || decode_fail(decoding, "its comparison is missing");
}

static void *keep_settings(struct decoding *decoding, const void *settings, size_t size) {
    return memcpy(arena_take(&decoding->parser->program->arena, size), settings, size);
}

static bool decode_scalar(struct decoding *decoding, enum ptx_video operation) {
    static const char *const seconds[] = {"add", "min", "max"};
    struct ptx_video_form form = {.operation = operation};
    struct instruction *made = &decoding->made;
    bool shifts = operation == PTX_VSHL_CLAMP || operation == PTX_VSHR_CLAMP;
    bool merges;

    if ((operation == PTX_VSET ? !take_comparison(decoding, &form.compare)
                               : !take_sign(decoding, &form.to_signed)) ||
        !take_sign(decoding, &form.a_signed) || !take_sign(decoding, &form.b_signed))
        return false;
    form.saturate = operation != PTX_VSET && has_modifier(decoding, "sat");
    form.second = (enum ptx_video_second)(take_modifier_of(decoding, seconds, 3) + 1);
    if (shifts && has_modifier(decoding, "wrap"))
        form.operation = operation == PTX_VSHL_CLAMP ? PTX_VSHL_WRAP : PTX_VSHR_WRAP;
    else if (shifts && !has_modifier(decoding, "clamp"))
        return decode_fail(decoding, "its mode is missing, .clamp or .wrap");
    if (!take_part(decoding, 0, &form.to) || !take_part(decoding, 1, &form.a_part) ||
        !take_part(decoding, 2, &form.b_part) || !check_signs(decoding))
        return false;
    merges = form.second != PTX_VIDEO_NONE || form.to != PTX_WORD;
    if (form.second != PTX_VIDEO_NONE && form.to != PTX_WORD)
        return decode_fail(decoding, "a part of the result has no second operation");
    if (!expect_operands(decoding, 3 + merges, 3 + merges) || !take_registers(decoding))
        return false;
    made->run = run_video;
    made->settings = keep_settings(decoding, &form, sizeof form);
    return emit(decoding, made) != NULL;
}

/* What selects parts, .b3210 or .h10: a number of 4 bits for each, the last one lowest. */
static bool take_selector(struct decoding *decoding, unsigned int operand, unsigned int lanes,
                          uint32_t *selector) {
    const struct token *token = &decoding->parts[operand];
    char most = lanes == 4 ? '7' : '3';
    bool right = token->length == 1 + lanes && token->text[0] == (lanes == 4 ? 'b' : 'h');

    if (token->length == 0) {
        *selector = operand == 1 ? (lanes == 4 ? 0x3210 : 0x10) : lanes == 4 ? 0x7654 : 0x32;
        return true;
    }
    *selector = 0;
    for (size_t i = 1; right && i < token->length; i++) {
        right = token->text[i] >= '0' && token->text[i] <= most;
        *selector = *selector << 4 | (uint32_t)(token->text[i] - '0');
    }
    return right ||
           decode_fail(decoding, "'.%.*s' selects no parts", (int)token->length, token->text);
}

/* Which parts of the result are computed: .b20, .h1; each is named at most once, the highest
 * first. */
static bool take_mask(struct decoding *decoding, unsigned int lanes, uint32_t *mask) {
    const struct token *token = &decoding->parts[0];
    bool right = token->length > 1 && token->text[0] == (lanes == 4 ? 'b' : 'h');
    unsigned int above = lanes;

    *mask = (1u << lanes) - 1;
    if (token->length == 0)
        return true;
    *mask = 0;
    for (size_t i = 1; right && i < token->length; i++) {
        unsigned int part = (unsigned int)(token->text[i] - '0');

        right = part < above;
        above = part;
        if (right)
            *mask |= 1u << part;
    }
    return right || decode_fail(decoding, "'.%.*s' is no mask of its result", (int)token->length,
                                token->text);
}

static bool decode_simd(struct decoding *decoding, enum ptx_video operation, unsigned int lanes) {
    struct ptx_simd_video_form form = {.operation = operation, .width = 32 / lanes};
    struct instruction *made = &decoding->made;

    if (operation == PTX_VSET) {
        if (!take_sign(decoding, &form.a_signed) || !take_sign(decoding, &form.b_signed) ||
            !take_comparison(decoding, &form.compare))
            return false;
    } else if (!take_sign(decoding, &form.to_signed) || !take_sign(decoding, &form.a_signed) ||
               !take_sign(decoding, &form.b_signed)) {
        return false;
    }
    form.saturate = operation != PTX_VSET && has_modifier(decoding, "sat");
    form.accumulate = has_modifier(decoding, "add");
    if (form.saturate && form.accumulate)
        return decode_fail(decoding, "a sum of the results is not saturated");
    if (!expect_operands(decoding, 4, 4) || !check_signs(decoding) ||
        !take_mask(decoding, lanes, &form.mask) ||
        !take_selector(decoding, 1, lanes, &form.a_selector) ||
        !take_selector(decoding, 2, lanes, &form.b_selector) || !take_registers(decoding))
        return false;
    made->run = run_simd_video;
    made->settings = keep_settings(decoding, &form, sizeof form);
    return emit(decoding, made) != NULL;
}

bool decode_video(struct decoding *decoding) {
    unsigned int lanes = 0;
    int which = find_operation(&decoding->opcode, &lanes);

    if (which < 0)
        return decode_fail(decoding, "the instruction is unknown");
    return lanes == 1 ? decode_scalar(decoding, operations[which].operation)
                      : decode_simd(decoding, operations[which].operation, lanes);
}

bool decode_video_mad(struct decoding *decoding) {
    struct ptx_vmad_form form = {0};
    struct instruction *made = &decoding->made;
    bool to_signed;

    if (!take_sign(decoding, &to_signed) || !take_sign(decoding, &form.a_signed) ||
        !take_sign(decoding, &form.b_signed) || !expect_operands(decoding, 4, 4))
        return false;
    form.plus_one = has_modifier(decoding, "po");
    form.saturate = has_modifier(decoding, "sat");
    form.scale = has_modifier(decoding, "shr7") ? 7 : has_modifier(decoding, "shr15") ? 15 : 0;
    form.negate_product = decoding->minus[1] != decoding->minus[2];
    form.negate_c = decoding->minus[3];
    if ((form.negate_product && form.negate_c) ||
        (form.plus_one && (decoding->minus[1] || decoding->minus[2] || form.negate_c)))
        return decode_fail(decoding, "so many of its operands are not negated");
    if (!take_part(decoding, 1, &form.a_part) || !take_part(decoding, 2, &form.b_part) ||
        !take_registers(decoding))
        return false;
    made->run = run_vmad;
    made->settings = keep_settings(decoding, &form, sizeof form);
    return emit(decoding, made) != NULL;
}

bool is_video(const struct token *opcode) {
    unsigned int lanes;

    return find_operation(opcode, &lanes) >= 0;
}

bool take_video_operand(struct decoding *decoding, unsigned int operand) {
    struct lexer *lexer = &decoding->parser->lexer;
    struct lexer ahead = *lexer;
    struct failure ignored = {0};

    ahead.failure = &ignored;
    if (lexer_at_mark(lexer, '-')) {
        lexer_next(&ahead);
        decoding->minus[operand] = ahead.token.kind == TOKEN_WORD;
        if (decoding->minus[operand])
            lexer_next(lexer);
    }
    if (!parse_operand(decoding->parser, &decoding->operands[operand]))
        return false;
    if (lexer->token.kind == TOKEN_DOT) {
        decoding->parts[operand] = lexer->token;
        lexer_next(lexer);
    }
    return true;
}
