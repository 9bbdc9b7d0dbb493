#include "trace/fields.h"

#include <string.h>

static bool is_blank(char letter) {
    return letter == ' ' || letter == '\t';
}

/* Most fields begin at once and are short: strspn and strcspn would take longer to begin. */
static char *skip_blanks(char *text) {
    while (is_blank(*text))
        text++;
    return text;
}

/* Takes the quotes of the field at *from away. Returns its end, NULL if it is not closed; *from is
 * then behind the quote. */
static char *unquote(char **from) {
    char *read = *from + 1, *write = *from;
    for (; *read; read++) {
        if (*read != '"') {
            *write++ = *read;
        } else if (read[1] == '"') {
            *write++ = *read++;
        } else {
            *from = read + 1;
            return write;
        }
    }
    return NULL;
}

/* The field at *cursor, which moves to the next one or, after the last, becomes NULL. */
static char *next_field(char **cursor) {
    char *from = skip_blanks(*cursor), *field = from, *end;
    if (*from == '"') {
        end = unquote(&from);
        if (!end)
            return NULL;
        from = skip_blanks(from);
    } else {
        while (*from && *from != ',')
            from++;
        for (end = from; end > field && is_blank(end[-1]);)
            end--;
    }
    if (*from && *from != ',')
        return NULL;
    *cursor = *from ? from + 1 : NULL;
    *end = '\0';
    return field;
}

size_t fields_split(char *line, char **fields, size_t room) {
    size_t count = 0, length = strlen(line);
    if (length && line[length - 1] == '\r')
        line[length - 1] = '\0';
    while (line) {
        char *field = next_field(&line);
        if (!field)
            return 0;
        if (count < room)
            fields[count] = field;
        count++;
    }
    return count;
}

bool fields_number(const char *text, uint64_t *number) {
    *number = 0;
    if (!*text)
        return false;
    for (; *text; text++)
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(*text - '0'), number))
            return false;
    return true;
}

bool fields_hexadecimal(const char *text, uint64_t *number) {
    static const char digits[] = "0123456789abcdef";
    *number = 0;
    if (text[0] == '0' && (text[1] | 32) == 'x')
        text += 2;
    if (!*text)
        return false;
    for (; *text; text++) {
        const char *digit = strchr(digits, *text >= 'A' && *text <= 'F' ? *text | 32 : *text);
        if (!digit || *number >> 60)
            return false;
        *number = *number << 4 | (uint64_t)(digit - digits);
    }
    return true;
}

bool fields_time(const char *text, uint64_t unit, uint64_t *ns) {
    char whole[24];
    size_t length = 0;
    while (text[length] && text[length] != '.')
        length++;
    if (length >= sizeof whole)
        return false;
    memcpy(whole, text, length);
    whole[length] = '\0';
    if (!fields_number(whole, ns) || __builtin_mul_overflow(*ns, unit, ns))
        return false;
    if (!text[length])
        return true;
    for (text += length + 1; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        unit /= 10;
        if (__builtin_add_overflow(*ns, (uint64_t)(*text - '0') * unit, ns))
            return false;
    }
    return true;
}
