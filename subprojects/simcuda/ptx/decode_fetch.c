/* Textures and surfaces. PTX ISA, "Texture Instructions", "Surface Instructions". */
#include "decode.h"

#include "fetch.h"
#include "handlers.h"

/* The geometry; of arrays of textures the first coordinate is the layer. False: there is none. */
static bool take_geometry(struct decoding *decoding) {
    static const char *const words[] = {"1d", "2d", "3d", "a1d", "a2d"};
    static const unsigned int dimensions[] = {1, 2, 3, 1, 2};
    int which = take_modifier_of(decoding, words, 5);

    if (which < 0)
        return decode_fail(decoding, "its geometry is .1d, .2d, .3d, .a1d or .a2d");
    decoding->made.count = (uint8_t)dimensions[which];
    decoding->made.flag2 = which > 2;
    return true;
}

/* [object, {x, y}] and [object, sampler, {x, y}]: the object in a, the coordinates in extra->rows.
 */
static bool take_place(struct decoding *decoding, const struct operand *operand, enum type type) {
    struct instruction *made = &decoding->made;
    struct extra *extra = need_extra(decoding);
    unsigned int last = operand->count - 1, needed = made->count + made->flag2;

    if (operand->kind != OPERAND_ADDRESS || operand->count < 2 || operand->count > 3)
        return decode_fail(decoding, "an object and coordinates are expected");
    if (operand->items[0].kind == OPERAND_VARIABLE)
        return decode_fail(decoding, "references of textures and surfaces are not simulated");
    if (operand->items[last].kind != OPERAND_VECTOR)
        needed = 1;
    return take_source(decoding, &operand->items[0], TYPE_U64, &made->a) &&
           take_parts(decoding, &operand->items[last], type, false, extra->rows, &extra->count) &&
           (extra->count >= needed || decode_fail(decoding, "coordinates are missing"));
}

static bool take_results(struct decoding *decoding, const struct operand *operand) {
    struct extra *extra = need_extra(decoding);

    return take_parts(decoding, operand, TYPE_B32, true, extra->more, &extra->more_count);
}

/* tex.level.2d.v4.f32.f32 {d}, [object, {x, y}], level: there is one level. */
bool decode_texture(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    static const char *const modes[] = {"level", "base"};
    bool levels = take_modifier_of(decoding, modes, 2) == 0;
    enum type to, from;

    if (!take_geometry(decoding))
        return false;
    if (!has_modifier(decoding, "v4"))
        return decode_fail(decoding, "it has four results");
    to = take_modifier_type(decoding);
    from = take_modifier_type(decoding);
    if ((to != TYPE_F32 && to != TYPE_U32 && to != TYPE_S32) ||
        (from != TYPE_F32 && from != TYPE_S32))
        return decode_fail(decoding, "its types are .f32, .u32 or .s32");
    made->type = (uint8_t)to;
    made->type2 = (uint8_t)from;
    made->run = run_texture;
    return expect_operands(decoding, 2u + levels, 2u + levels) &&
           take_place(decoding, &decoding->operands[1], from) &&
           take_results(decoding, &decoding->operands[0]) && emit(decoding, made) != NULL;
}

/* tld4.g.2d.v4.f32.f32 {d}, [object, {x, y}] */
bool decode_gather(struct decoding *decoding) {
    struct instruction *made = &decoding->made;
    static const char *const parts[] = {"r", "g", "b", "a"};
    int which = take_modifier_of(decoding, parts, 4);

    if (which < 0 || !has_modifier(decoding, "2d") || !has_modifier(decoding, "v4"))
        return decode_fail(decoding, "it is of one component and two dimensions");
    made->mode = (uint8_t)which;
    made->count = 2;
    made->type = (uint8_t)take_modifier_type(decoding);
    made->type2 = TYPE_F32;
    made->run = run_gather;
    if (take_modifier_type(decoding) != TYPE_F32)
        return decode_fail(decoding, "its coordinates are .f32");
    return expect_operands(decoding, 2, 2) &&
           take_place(decoding, &decoding->operands[1], TYPE_F32) &&
           take_results(decoding, &decoding->operands[0]) && emit(decoding, made) != NULL;
}

/* .b.2d.v4.b32.trap */
static bool take_surface(struct decoding *decoding) {
    static const char *const bounds[] = {"trap", "clamp", "zero"};
    struct instruction *made = &decoding->made;
    enum type type;
    int bound;

    if (!has_modifier(decoding, "b"))
        return decode_fail(decoding, "only unformatted accesses of surfaces are simulated");
    if (!take_geometry(decoding))
        return false;
    made->mode2 = has_modifier(decoding, "v2") ? 2 : has_modifier(decoding, "v4") ? 4 : 1;
    type = take_modifier_type(decoding);
    bound = take_modifier_of(decoding, bounds, 3);
    if (bound < 0 || type < TYPE_B8 || type > TYPE_B64)
        return decode_fail(decoding, "its type is .b8 to .b64, and .trap, .clamp or .zero follows");
    made->mode = (uint8_t)bound;
    made->size = (uint8_t)type_facts[type].size;
    return true;
}

bool decode_surface_load(struct decoding *decoding) {
    decoding->made.run = run_surface_load;
    return take_surface(decoding) && expect_operands(decoding, 2, 2) &&
           take_place(decoding, &decoding->operands[1], TYPE_B32) &&
           take_results(decoding, &decoding->operands[0]) &&
           emit(decoding, &decoding->made) != NULL;
}

bool decode_surface_store(struct decoding *decoding) {
    struct extra *extra = need_extra(decoding);

    decoding->made.run = run_surface_store;
    return take_surface(decoding) && expect_operands(decoding, 2, 2) &&
           take_place(decoding, &decoding->operands[0], TYPE_B32) &&
           take_parts(decoding, &decoding->operands[1], TYPE_B32, false, extra->more,
                      &extra->more_count) &&
           emit(decoding, &decoding->made) != NULL;
}

/* txq.width.b32 d, [object] */
bool decode_query(struct decoding *decoding) {
    static const char *const words[] = {"width", "height", "depth"};
    int which = take_modifier_of(decoding, words, 3);
    const struct operand *place = &decoding->operands[1];

    if (which < 0 || take_modifier_type(decoding) != TYPE_B32 || !expect_operands(decoding, 2, 2))
        return decode_fail(decoding, "it asks for .width, .height or .depth");
    decoding->made.mode = (uint8_t)which;
    decoding->made.flag = token_is(&decoding->opcode, "suq");
    decoding->made.run = run_texture_query;
    if (place->kind != OPERAND_ADDRESS || place->items[0].kind == OPERAND_VARIABLE)
        return decode_fail(decoding, "references of textures and surfaces are not simulated");
    return take_destination(decoding, &decoding->operands[0], &decoding->made.d) &&
           take_source(decoding, &place->items[0], TYPE_U64, &decoding->made.a) &&
           emit(decoding, &decoding->made) != NULL;
}
