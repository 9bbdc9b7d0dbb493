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

/* One of the words between `.global` and the name: .align 8, .attribute(.managed), .v2, .u32. */
static bool take_property(const char **at, struct ptx_symbol *symbol, size_t *lanes) {
    const char *word = *at + 1;
    size_t length = word_length(word);
    char *end;

    *at = word + length;
    if (strncmp(word, "align", length) == 0) {
        strtoul(*at, &end, 10);
        *at = end;
        return true;
    }
    if (strncmp(word, "attribute", length) == 0) {
        const char *close = strchr(*at, ')');

        if (close == NULL)
            return false;
        symbol->managed = memmem(*at, (size_t)(close - *at), ".managed", 8) != NULL;
        *at = close + 1;
        return true;
    }
    if (word[0] == 'v') {
        *lanes = strtoul(word + 1, NULL, 10);
        return *lanes != 0;
    }
    symbol->element = strchr("busf", word[0]) != NULL ? strtoul(word + 1, NULL, 10) / 8 : 0;
    return symbol->element != 0 && symbol->element <= 8;
}

static bool take_variable(const char **at, struct ptx_symbol *symbol) {
    size_t lanes = 1;
    char *end;

    symbol->variable = true;
    for (*at = skip_space(*at); **at == '.'; *at = skip_space(*at))
        if (!take_property(at, symbol, &lanes))
            return false;
    if (symbol->element == 0 || !take_name(at, symbol))
        return false;
    symbol->size = symbol->element * lanes;
    for (*at = skip_space(*at); **at == '['; *at = skip_space(end + 1)) {
        size_t count = strtoul(*at + 1, &end, 10);

        if (*end != ']' || count == 0)
            return false;
        symbol->size *= count;
    }
    if (**at == '=')
        symbol->initial = *at + 1;
    *at = strchr(*at, ';');
    return *at != NULL;
}

enum ptx_found ptx_next(const char **text, struct ptx_symbol *symbol) {
    const char *at = *text;
    bool found = false;

    memset(symbol, 0, sizeof *symbol);
    while ((at = strchr(at, '.')) != NULL) {
        if (is_directive(at, ".entry")) {
            at += strlen(".entry");
            found = take_name(&at, symbol);
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
    *text = at;
    return found ? PTX_SYMBOL : PTX_INVALID;
}

void ptx_initialize(const struct ptx_symbol *symbol, unsigned char *memory) {
    const char *at = symbol->initial;

    for (size_t offset = 0; at != NULL && offset < symbol->size; offset += symbol->element) {
        unsigned long long value;
        char *end;

        while (isspace((unsigned char)*at) || *at == '{' || *at == ',')
            at++;
        value = strtoull(at, &end, 0);
        if (end == at)
            return;
        memcpy(memory + offset, &value, symbol->element); /* little-endian, as the device */
        at = end;
    }
}
