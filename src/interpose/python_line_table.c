#include "interpose/python_line_table.h"

#include "interpose/python_layout.h"

enum { UNIT = 2 };

/* What is no table may say anything: numbers wrap around. */
static int add(int line, unsigned lines) {
    return (int)((unsigned)line + lines);
}

static int signed_byte(unsigned char byte) {
    return byte < 128 ? byte : byte - 256;
}

/* 3.9 and before: bytes to the next entry, and lines from there on. */
static int line_by_steps(const unsigned char *table, size_t size, int line, size_t byte) {
    size_t end = 0;
    for (size_t at = 0; at + 1 < size; at += 2) {
        end += table[at];
        if (end > byte)
            break;
        line = add(line, (unsigned)signed_byte(table[at + 1]));
    }
    return line;
}

/* 3.10: lines, and for how many bytes. */
static int line_by_ranges(const unsigned char *table, size_t size, int line, size_t byte) {
    enum { NO_LINE = -128 };
    size_t end = 0;
    for (size_t at = 0; at + 1 < size; at += 2) {
        int step = signed_byte(table[at + 1]);
        end += table[at];
        line = add(line, step == NO_LINE ? 0 : (unsigned)step);
        if (end > byte)
            return step == NO_LINE ? 0 : line;
    }
    return 0;
}

/* A number in six bits a byte, the least first. Moves *at behind it. */
static unsigned read_number(const unsigned char *table, size_t size, size_t *at) {
    unsigned number = 0;
    for (unsigned shift = 0; *at < size && shift < 32; shift += 6) {
        unsigned char byte = table[(*at)++];
        number |= (byte & 63u) << shift;
        if (!(byte & 64))
            break;
    }
    return number;
}

static unsigned read_signed(const unsigned char *table, size_t size, size_t *at) {
    unsigned number = read_number(table, size, at);
    return number & 1 ? -(number >> 1) : number >> 1;
}

/* 3.11 and later: locations, as Objects/locations.md of its sources describes them. */
static int line_by_locations(const unsigned char *table, size_t size, int line, size_t unit) {
    enum { SHORT_END = 10, ONE_LINE_END = 13, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    size_t at = 0, end = 0;
    while (at < size) {
        unsigned char head = table[at++];
        unsigned kind = head >> 3 & 15;
        end += (head & 7u) + 1;
        if (kind == LONG || kind == NO_COLUMNS) {
            line = add(line, read_signed(table, size, &at));
            for (int i = 0; kind == LONG && i < 3; i++)
                read_number(table, size, &at);
        } else if (kind < SHORT_END) {
            at++;
        } else if (kind < ONE_LINE_END) {
            line = add(line, kind - SHORT_END);
            at += 2;
        }
        if (unit < end)
            return kind == NONE ? 0 : line;
    }
    return 0;
}

int python_line_table_find(unsigned version, const unsigned char *table, size_t size, int first,
                           size_t unit) {
    if (version < PYTHON_3_10)
        return line_by_steps(table, size, first, unit * UNIT);
    if (version < PYTHON_3_11)
        return line_by_ranges(table, size, first, unit * UNIT);
    return line_by_locations(table, size, first, unit);
}
