#include "ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name_character(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static const char *skip_space(const char *at) {
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static size_t word_length(const char *at) {
    size_t length = 0;

    while (is_name_character(at[length]))
        length++;
    return length;
}

/* Whether the directive `word` stands at `at`; instructions go on with another dot (ld.global.u32).
 */
static bool is_directive(const char *at, const char *word) {
    size_t length = strlen(word);

    return strncmp(at, word, length) == 0 && isspace((unsigned char)at[length]);
}

static bool take_name(const char **at, struct ptx_symbol *symbol) {
    symbol->name = skip_space(*at);
    symbol->length = word_length(symbol->name);
    *at = symbol->name + symbol->length;
    return symbol->length != 0;
}

/* What a type's name says: u32, b8, f64. 0: it is none. */
static size_t type_size(const char *word) {
    size_t bits = strchr("busf", word[0]) != NULL ? strtoul(word + 1, NULL, 10) : 0;

    return bits >= 8 && bits <= 128 && (bits & (bits - 1)) == 0 ? bits / 8 : 0;
}

static bool is_word(const char *at, size_t length, const char *word) {
    return strlen(word) == length && strncmp(at, word, length) == 0;
}

static bool is_opaque_type(const char *at, size_t length) {
    return is_word(at, length, "texref") || is_word(at, length, "surfref") ||
           is_word(at, length, "samplerref");
}

/* One of the words between `.global` and the name: .align 8, .attribute(.managed), .v2, .u32. */
static bool take_property(const char **at, struct ptx_symbol *symbol, size_t *lanes) {
    const char *word = *at + 1;
    size_t length = word_length(word);
    char *end;

    *at = word + length;
    if (is_word(word, length, "align")) {
        strtoul(*at, &end, 10);
        *at = end;
        return true;
    }
    if (is_word(word, length, "attribute")) {
        const char *close = strchr(*at, ')');

        if (close == NULL)
            return false;
        symbol->managed = memmem(*at, (size_t)(close - *at), ".managed", 8) != NULL;
        *at = close + 1;
        return true;
    }
    if (is_opaque_type(word, length)) {
        symbol->kind = PTX_OPAQUE;
        symbol->element = 8;
        return true;
    }
    if (word[0] == 'v') {
        *lanes = strtoul(word + 1, NULL, 10);
        return *lanes != 0 && *lanes <= 4;
    }
    symbol->element = type_size(word);
    return symbol->element != 0;
}

/* How many values stand behind the equals sign. */
static size_t count_values(const char *at) {
    const char *end = strchr(at, ';');
    size_t count = 1;

    for (; end != NULL && at < end; at++)
        count += *at == ',';
    return count;
}

/* [3][4], or [] where the values tell. False: that is no size. */
static bool take_extents(const char **at, struct ptx_symbol *symbol) {
    bool open = false;
    char *end;

    for (*at = skip_space(*at); **at == '['; *at = skip_space(end + 1)) {
        const char *from = skip_space(*at + 1);
        size_t count = strtoul(from, &end, 10);

        open = open || end == from;
        count = end == from ? 1 : count;
        end = (char *)skip_space(end);
        if (*end != ']' || count == 0 || __builtin_mul_overflow(symbol->size, count, &symbol->size))
            return false;
    }
    if (**at == '=')
        symbol->initial = *at + 1;
    if (open)
        symbol->size =
            symbol->initial != NULL ? symbol->element * count_values(symbol->initial) : 0;
    return !open || symbol->initial != NULL;
}

static bool take_variable(const char **at, struct ptx_symbol *symbol) {
    size_t lanes = 1;

    symbol->kind = PTX_VARIABLE;
    for (*at = skip_space(*at); **at == '.'; *at = skip_space(*at))
        if (!take_property(at, symbol, &lanes))
            return false;
    if (symbol->element == 0 || !take_name(at, symbol))
        return false;
    symbol->size = symbol->element * lanes;
    if (!take_extents(at, symbol))
        return false;
    *at = strchr(*at, ';');
    return *at != NULL;
}

static bool take_kernel(const char **at, struct ptx_symbol *symbol) {
    if (!take_name(at, symbol))
        return false;
    symbol->parameters = skip_space(*at);
    if (*symbol->parameters == '(') /* where a parameter may point to .global memory */
        *at = strchr(symbol->parameters, ')');
    return *at != NULL;
}

enum ptx_found ptx_next(const char **text, struct ptx_symbol *symbol) {
    const char *at = *text;
    bool found = false;

    memset(symbol, 0, sizeof *symbol);
    while ((at = strchr(at, '.')) != NULL) {
        if (is_directive(at, ".entry")) {
            at += strlen(".entry");
            found = take_kernel(&at, symbol);
            break;
        }
        if (is_directive(at, ".global") || is_directive(at, ".const")) {
            at += 1 + word_length(at + 1);
            found = take_variable(&at, symbol);
            break;
        }
        at++;
    }
    if (at == NULL && symbol->name == NULL)
        return PTX_END;
    if (found)
        *text = at;
    return found ? PTX_SYMBOL : PTX_INVALID;
}

/* The words between `.param` and the name: .align 8 .b8, .u64 .ptr .global .align 4, whose
 * alignment is that of what it points to. */
static bool take_parameter_properties(const char **at, size_t *size, size_t *alignment) {
    bool is_pointer = false;
    char *end;

    *size = *alignment = 0;
    for (*at = skip_space(*at); **at == '.'; *at = skip_space(*at)) {
        const char *word = *at + 1;
        size_t length = word_length(word);

        *at = word + length;
        if (is_word(word, length, "align")) {
            size_t told = strtoul(*at, &end, 10);

            *at = end;
            *alignment = is_pointer ? *alignment : told;
        } else if (is_word(word, length, "ptr")) {
            is_pointer = true;
        } else if (is_opaque_type(word, length)) {
            *size = 8;
        } else if (*size == 0) {
            *size = type_size(word);
        }
    }
    *alignment = *alignment != 0 ? *alignment : *size;
    return *size != 0 && (*alignment & (*alignment - 1)) == 0;
}

bool ptx_next_parameter(const char **text, struct ptx_parameter *parameter) {
    const char *at = skip_space(*text);
    struct ptx_symbol name;
    size_t size, alignment;
    char *end;

    if (*at != '(' && *at != ',')
        return false; /* ')', or a kernel without parentheses */
    at = skip_space(at + 1);
    if (*at == ')')
        return false;
    *text = NULL;
    if (!is_directive(at, ".param"))
        return false;
    at += strlen(".param");
    if (!take_parameter_properties(&at, &size, &alignment) || !take_name(&at, &name))
        return false;
    at = skip_space(at);
    if (*at == '[') {
        size_t count = strtoul(at + 1, &end, 10);

        if (*end != ']' || count == 0 || count > 1 << 16)
            return false;
        size *= count;
        at = end + 1;
    }
    parameter->offset = (parameter->offset + parameter->size + alignment - 1) & ~(alignment - 1);
    parameter->size = size;
    *text = at;
    return true;
}

/* 7, 0x7, 0f40E00000 and 0d401C000000000000, which are a float's and a double's bits. */
static bool take_number(const char **at, unsigned long long *value) {
    const char *digits = *at;
    char *end;
    bool is_bits = digits[0] == '0' && digits[1] != '\0' && strchr("fFdD", digits[1]) != NULL;

    *value = strtoull(is_bits ? digits + 2 : digits, &end, is_bits ? 16 : 0);
    *at = end;
    return end != digits &&
           (end[0] == '\0' || strchr(",};", *end) != NULL || isspace((unsigned char)*end));
}

bool ptx_initialize(const struct ptx_symbol *symbol, unsigned char *memory) {
    const char *at = symbol->initial;
    bool complete = true;

    for (size_t offset = 0; offset + symbol->element <= symbol->size; offset += symbol->element) {
        unsigned long long value;

        while (isspace((unsigned char)*at) || (*at != '\0' && strchr("{},", *at) != NULL))
            at++;
        if (*at == ';' || *at == '\0')
            break;
        if (take_number(&at, &value)) /* little-endian, as the device */
            memcpy(memory + offset, &value,
                   symbol->element < sizeof value ? symbol->element : sizeof value);
        else
            complete = false;
        at += strcspn(at, ",};");
    }
    return complete;
}
