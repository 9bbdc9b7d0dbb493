/* Writes protocol buffers' wire format into memory. */
#ifndef POOLCUDA_CLI_VIEWS_PROTOBUF_H
#define POOLCUDA_CLI_VIEWS_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message being written; zeros begin one. Invariant: short_of_memory means that bytes are
 * missing. */
struct protobuf {
    uint8_t *bytes;
    size_t size, room;
    bool short_of_memory;
};

/* A zero is left out, as readers take it for granted. */
void protobuf_number(struct protobuf *message, unsigned field, uint64_t number);
void protobuf_text(struct protobuf *message, unsigned field, const char *text, size_t length);
/* A repeated field of numbers, packed. */
void protobuf_numbers(struct protobuf *message, unsigned field, const uint64_t *numbers,
                      size_t count);
/* Puts `inner` in as a field, and frees it. */
void protobuf_message(struct protobuf *message, unsigned field, struct protobuf *inner);

void protobuf_free(struct protobuf *message);

#endif
