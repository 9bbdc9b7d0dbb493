#include "cli/views/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, LENGTH_DELIMITED = 2 };

static void put(struct protobuf *message, const void *bytes, size_t size) {
    if (size > message->room - message->size) {
        size_t room = 2 * message->room + size + 64;
        uint8_t *larger = realloc(message->bytes, room);
        if (!larger) {
            message->short_of_memory = true;
            return;
        }
        message->bytes = larger;
        message->room = room;
    }
    if (size)
        memcpy(message->bytes + message->size, bytes, size);
    message->size += size;
}

static void put_varint(struct protobuf *message, uint64_t number) {
    uint8_t bytes[10];
    size_t size = 0;
    for (; number >= 0x80; number >>= 7)
        bytes[size++] = (uint8_t)(number | 0x80);
    bytes[size++] = (uint8_t)number;
    put(message, bytes, size);
}

static void put_tag(struct protobuf *message, unsigned field, unsigned type) {
    put_varint(message, (uint64_t)field << 3 | type);
}

void protobuf_number(struct protobuf *message, unsigned field, uint64_t number) {
    if (!number)
        return;
    put_tag(message, field, VARINT);
    put_varint(message, number);
}

void protobuf_text(struct protobuf *message, unsigned field, const char *text, size_t length) {
    put_tag(message, field, LENGTH_DELIMITED);
    put_varint(message, length);
    put(message, text, length);
}

void protobuf_numbers(struct protobuf *message, unsigned field, const uint64_t *numbers,
                      size_t count) {
    struct protobuf packed = {0};
    for (size_t i = 0; i < count; i++)
        put_varint(&packed, numbers[i]);
    protobuf_message(message, field, &packed);
}

void protobuf_message(struct protobuf *message, unsigned field, struct protobuf *inner) {
    message->short_of_memory |= inner->short_of_memory;
    protobuf_text(message, field, (const char *)inner->bytes, inner->size);
    protobuf_free(inner);
}

void protobuf_free(struct protobuf *message) {
    free(message->bytes);
    *message = (struct protobuf){0};
}
