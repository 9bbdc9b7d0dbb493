#include "types.h"

#include <string.h>

const struct type_facts type_facts[TYPES] = {
#define TYPE_ROW(name, text, size) [TYPE_##name] = {text, size},
    SIMT_TYPES(TYPE_ROW)
#undef TYPE_ROW
};

enum type type_named(const char *text, size_t length) {
    for (int i = 0; i < TYPES; i++)
        if (strlen(type_facts[i].text) == length && memcmp(type_facts[i].text, text, length) == 0)
            return (enum type)i;
    return TYPE_NONE;
}

bool type_is_signed(enum type type) {
    return type >= TYPE_S8 && type <= TYPE_S64;
}

bool type_is_float(enum type type) {
    return type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_F32 || type == TYPE_F64;
}

bool type_is_opaque(enum type type) {
    return type == TYPE_TEXREF || type == TYPE_SAMPLERREF || type == TYPE_SURFREF;
}
