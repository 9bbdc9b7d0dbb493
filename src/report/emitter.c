#include "report/emitter.h"

#include "base/format.h"

#include <string.h>

static void put(struct emitter *emitter, const char *text) {
    emitter->write(text, strlen(text), emitter->state);
}

void emitter_print(struct emitter *emitter, const char *pattern, ...) {
    char text[2048];
    if (emitter->json)
        return;
    va_list arguments;
    va_start(arguments, pattern);
    int length = vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    if (length > 0)
        emitter->write(text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1,
                       emitter->state);
}

/* The length of the UTF-8 character that `text` begins with, and its *code; 0: there is none. */
static size_t character(const unsigned char *text, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = *text < 0x80 ? 1 : *text >> 5 == 6 ? 2 : *text >> 4 == 14 ? 3 : 4;
    *code = *text;
    if (length == 1)
        return 1;
    if (*text < 0xc0 || *text >> 3 > 30)
        return 0;
    *code = *text & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (text[i] >> 6 != 2)
            return 0;
        *code = *code << 6 | (text[i] & 0x3f);
    }
    return *code < least[length] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000)
               ? 0
               : length;
}

/* Whether a terminal might obey it: controls, C1 controls, and the marks that turn the direction of
 * what follows or end the line. */
static bool is_obeyed(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200e && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

size_t emitter_harmless(const char *text) {
    uint32_t code;
    size_t length = character((const unsigned char *)text, &code);
    return length && !is_obeyed(code) ? length : 0;
}

const char *emitter_clean(char *to, size_t size, const char *text) {
    size_t length = 0;
    while (*text) {
        uint32_t code;
        if (*text >= ' ' && *text <= '~' && length + 1 < size) {
            to[length++] = *text++;
            continue;
        }
        size_t whole = character((const unsigned char *)text, &code);
        bool harmless = whole && !is_obeyed(code);
        if (length + (harmless ? whole : 1) >= size)
            break;
        if (!harmless)
            to[length++] = '?';
        for (size_t i = 0; harmless && i < whole; i++)
            to[length++] = text[i];
        text += whole ? whole : 1;
    }
    to[length] = '\0';
    return to;
}

static void put_string(struct emitter *emitter, const char *text) {
    put(emitter, "\"");
    while (*text) {
        uint32_t code;
        size_t length = character((const unsigned char *)text, &code);
        char escaped[8];
        if (!length) {
            put(emitter, "\\ufffd");
            length = 1;
        } else if ((unsigned char)*text < ' ' || *text == '"' || *text == '\\' || *text == '\x7f') {
            format(escaped, sizeof escaped, "\\u%04x", (unsigned)*text);
            put(emitter, escaped);
        } else {
            emitter->write(text, length, emitter->state);
        }
        text += length;
    }
    put(emitter, "\"");
}

/* Writes what stands before each value. Outer objects get a line for each of their members. */
static void begin_value(struct emitter *emitter, const char *key) {
    static const char indent[] = "\n                ";
    if (emitter->comma)
        put(emitter, ",");
    if (emitter->depth && emitter->depth <= 3)
        emitter->write(indent, 1 + (size_t)emitter->depth, emitter->state);
    emitter->comma = true;
    if (!key)
        return;
    put_string(emitter, key);
    put(emitter, ": ");
}

void emitter_open(struct emitter *emitter, const char *key, char bracket) {
    char text[2] = {bracket, 0};
    if (!emitter->json)
        return;
    begin_value(emitter, key);
    put(emitter, text);
    emitter->depth++;
    emitter->comma = false;
}

void emitter_close(struct emitter *emitter, char bracket) {
    char text[2] = {bracket, 0};
    if (!emitter->json)
        return;
    put(emitter, text);
    emitter->comma = true;
    if (--emitter->depth == 0)
        put(emitter, "\n");
}

void emitter_number(struct emitter *emitter, const char *key, uint64_t number) {
    char text[24];
    if (!emitter->json)
        return;
    begin_value(emitter, key);
    format(text, sizeof text, "%llu",
           (unsigned long long)(number < INT64_MAX ? number : INT64_MAX));
    put(emitter, text);
}

void emitter_signed(struct emitter *emitter, const char *key, int64_t number) {
    char text[24];
    if (!emitter->json)
        return;
    begin_value(emitter, key);
    format(text, sizeof text, "%lld", (long long)number);
    put(emitter, text);
}

void emitter_decimal(struct emitter *emitter, const char *key, double number) {
    char text[336]; /* the longest: -1.8e308 */
    if (!emitter->json)
        return;
    begin_value(emitter, key);
    format(text, sizeof text, "%.3f", number);
    put(emitter, text);
}

void emitter_bool(struct emitter *emitter, const char *key, bool value) {
    if (!emitter->json)
        return;
    begin_value(emitter, key);
    put(emitter, value ? "true" : "false");
}

void emitter_string(struct emitter *emitter, const char *key, const char *text) {
    if (!emitter->json)
        return;
    begin_value(emitter, key);
    if (text)
        put_string(emitter, text);
    else
        put(emitter, "null");
}

static bool is_utf8(const char *text) {
    size_t length = 1;
    for (uint32_t code; *text && length; text += length)
        length = character((const unsigned char *)text, &code);
    return length;
}

void emitter_bytes(struct emitter *emitter, const char *key, const char *text) {
    static const char digits[] = "0123456789abcdef";
    if (!emitter->json || is_utf8(text)) {
        emitter_string(emitter, key, text);
        return;
    }
    begin_value(emitter, key);
    put(emitter, "{\"hex\": \"");
    for (; *text; text++) {
        const char byte[] = {digits[(unsigned char)*text >> 4], digits[*text & 15], '\0'};
        put(emitter, byte);
    }
    put(emitter, "\"}");
}
