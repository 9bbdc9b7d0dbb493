#include "ptx.h"

#include "lexer.h"
#include "types.h"

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

/* A name, which may begin with a percent sign, as GCC's of parameters do (PTX ISA, Identifiers). */
static bool take_name(const char **at, struct ptx_symbol *symbol) {
    size_t sign, length;

    symbol->name = skip_space(*at);
    sign = *symbol->name == '%';
    length = word_length(symbol->name + sign);
    symbol->length = sign + length;
    *at = symbol->name + symbol->length;
    return length != 0;
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
        symbol->surface = is_word(word, length, "surfref");
        symbol->sampler = is_word(word, length, "samplerref");
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

/* A constant expression, and the bracket behind it, at which *at is then. */
static bool take_extent(const char **at, size_t *count) {
    struct failure failure = {0};
    struct lexer lexer;
    uint64_t number;

    lexer_begin(&lexer, *at, &failure);
    if (!lexer_expect_number(&lexer, &number) || !lexer_at_mark(&lexer, ']'))
        return false;
    *count = number;
    *at = lexer.token.text;
    return true;
}

/* [3][4], or [] where the values tell. False: that is no size. */
static bool take_extents(const char **at, struct ptx_symbol *symbol) {
    bool open = false;
    const char *end;

    for (*at = skip_space(*at); **at == '['; *at = skip_space(end + 1)) {
        size_t count = 1;

        end = skip_space(*at + 1);
        open = open || *end == ']';
        if ((*end != ']' && !take_extent(&end, &count)) || count == 0 ||
            __builtin_mul_overflow(symbol->size, count, &symbol->size))
            return false;
    }
    if (**at == '=')
        symbol->initial = *at + 1;
    if (open)
        symbol->size =
            symbol->initial != NULL ? symbol->element * count_values(symbol->initial) : 0;
    if (symbol->initial != NULL && symbol->size > MOST_INITIAL_BYTES)
        return false;
    return !open || symbol->initial != NULL || symbol->linkage == PTX_EXTERN;
}

static bool take_variable(const char **at, struct ptx_symbol *symbol) {
    size_t lanes = 1;

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

/* False: a brace is left open. */
static bool take_body(const char *at, struct ptx_symbol *symbol) {
    size_t depth = 0;

    at += strcspn(at, "{;");
    if (*at != '{')
        return true;
    symbol->body = at;
    for (; *at != '\0'; at++) {
        depth += *at == '{';
        depth -= *at == '}';
        if (depth == 0)
            break;
    }
    symbol->body_end = at;
    return *at == '}';
}

static bool take_parentheses(const char **at) {
    const char *from = skip_space(*at);

    if (*from == '(') /* where a parameter may point to .global memory */
        *at = strchr(from, ')');
    return *at != NULL;
}

static bool take_kernel(const char **at, struct ptx_symbol *symbol) {
    if (!take_name(at, symbol))
        return false;
    symbol->parameters = skip_space(*at);
    if (!take_parentheses(at))
        return false;
    symbol->directives = *at;
    return take_body(*at, symbol);
}

/* .func (.param .b32 result) name (...) */
static bool take_function(const char **at, struct ptx_symbol *symbol) {
    if (!take_parentheses(at))
        return false;
    *at += **at == ')';
    return take_name(at, symbol) && take_parentheses(at) && take_body(*at, symbol);
}

static const struct {
    const char *word;
    enum ptx_kind kind;
    bool (*take)(const char **at, struct ptx_symbol *symbol);
} declarations[] = {
    {".entry", PTX_KERNEL, take_kernel},      {".func", PTX_FUNCTION, take_function},
    {".global", PTX_VARIABLE, take_variable}, {".const", PTX_VARIABLE, take_variable},
    {".shared", PTX_SHARED, take_variable},   {".local", PTX_LOCAL, take_variable},
};

static enum ptx_linkage linkage_at(const char *at) {
    if (is_directive(at, ".visible"))
        return PTX_VISIBLE;
    if (is_directive(at, ".extern"))
        return PTX_EXTERN;
    return is_directive(at, ".weak") || is_directive(at, ".common") ? PTX_WEAK : PTX_STATIC;
}

/* Whether a declaration begins at *at. If so, *found says whether it is one that can be read. */
static bool take_declaration(const char **at, struct ptx_symbol *symbol, bool *found) {
    for (size_t i = 0; i < sizeof declarations / sizeof *declarations; i++) {
        if (!is_directive(*at, declarations[i].word))
            continue;
        *at += strlen(declarations[i].word);
        symbol->kind = declarations[i].kind;
        symbol->constant = strcmp(declarations[i].word, ".const") == 0;
        *found = declarations[i].take(at, symbol);
        return true;
    }
    return false;
}

enum ptx_found ptx_next(const char **text, struct ptx_symbol *symbol) {
    const char *at = *text;
    bool found = false;

    memset(symbol, 0, sizeof *symbol);
    for (; (at = strchr(at, '.')) != NULL; at++) {
        if (at > *text && is_name_character(at[-1]))
            continue; /* an instruction's, as isspacep.global */
        if (take_declaration(&at, symbol, &found))
            break;
        symbol->linkage = linkage_at(at);
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
    return *size != 0 && *alignment <= MOST_ALIGNMENT && (*alignment & (*alignment - 1)) == 0;
}

bool ptx_next_parameter(const char **text, struct ptx_parameter *parameter) {
    const char *at = skip_space(*text);
    struct ptx_symbol name;
    size_t size, alignment;

    if (*at != '(' && *at != ',')
        return false; /* ')', or a kernel without parentheses */
    at = skip_space(at + 1);
    if (*at == ')')
        return false;
    *text = NULL;
    if (strncmp(at, ".param", strlen(".param")) != 0)
        return false;
    at += strlen(".param");
    if ((*at != '.' && !isspace((unsigned char)*at)) || /* GCC writes .param.u64 %name */
        !take_parameter_properties(&at, &size, &alignment))
        return false;
    if (!take_name(&at, &name))
        return false;
    at = skip_space(at);
    if (*at == '[') {
        size_t count;

        at++;
        if (!take_extent(&at, &count) || count == 0 || count > 1 << 16)
            return false;
        size *= count;
        at++;
    }
    parameter->offset = (parameter->offset + parameter->size + alignment - 1) & ~(alignment - 1);
    parameter->size = size;
    *text = at;
    return true;
}

/* Directives that end with their line, as those of the head and of line numbers. */
static bool ends_with_line(const char *at) {
    static const char *const words[] = {".version", ".target", ".address_size", ".file", ".loc"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_directive(at, words[i]))
            return true;
    return *at == '@'; /* @@DWARF */
}

/* Behind the statement: a semicolon, or the brace that ends a body. */
static const char *skip_statement(const char *at) {
    size_t depth = 0;

    for (; *at != '\0'; at++) {
        if (*at == '"') {
            at += strcspn(at + 1, "\"") + 1;
            if (*at == '\0')
                return at;
        }
        depth += *at == '{';
        if (*at == ';' && depth == 0)
            return at + 1;
        if (*at == '}' && depth-- == 1) {
            at = skip_space(at + 1);
            return *at == ';' ? at + 1 : at;
        }
    }
    return at;
}

bool ptx_begins_statements(const char *text) {
    const char *at = skip_space(text);

    while (*at == '.' || *at == '@')
        at = skip_space(ends_with_line(at) ? at + strcspn(at, "\n") : skip_statement(at));
    return *at == '\0';
}

/* Where `word` stands among the kernel's directives, behind it; NULL: nowhere. */
static const char *find_directive(const struct ptx_symbol *kernel, const char *word) {
    const char *at = kernel->directives;

    while (at != NULL && kernel->body != NULL && (at = strchr(at, '.')) != NULL &&
           at < kernel->body) {
        size_t length = word_length(at + 1);

        if (is_word(at + 1, length, word))
            return at + 1 + length;
        at++;
    }
    return NULL;
}

bool ptx_has_directive(const struct ptx_symbol *kernel, const char *word) {
    return find_directive(kernel, word) != NULL;
}

unsigned int ptx_directive(const struct ptx_symbol *kernel, const char *word,
                           unsigned int numbers[3]) {
    const char *at = find_directive(kernel, word);
    unsigned int count = 0;

    while (at != NULL && count < 3) {
        char *end;
        unsigned long number = strtoul(at, &end, 10);

        if (end == at || number > 1 << 16)
            break;
        numbers[count++] = (unsigned int)number;
        at = skip_space(end);
        at = *at == ',' ? at + 1 : NULL;
    }
    return count;
}

bool ptx_mentions(const struct ptx_symbol *kernel, const struct ptx_symbol *symbol) {
    const char *at = kernel->body;

    while (at != NULL && at < kernel->body_end) {
        at = memmem(at, (size_t)(kernel->body_end - at), symbol->name, symbol->length);
        if (at != NULL && !is_name_character(at[-1]) && !is_name_character(at[symbol->length]))
            return true;
        at = at != NULL ? at + 1 : NULL;
    }
    return false;
}

unsigned int ptx_target(const char *text) {
    const char *at = strstr(text, ".target");

    at = at != NULL ? strstr(at, "sm_") : NULL;
    return at != NULL ? (unsigned int)strtoul(at + strlen("sm_"), NULL, 10) : 0;
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
