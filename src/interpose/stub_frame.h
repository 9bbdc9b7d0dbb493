/* A call that a stub has stopped at, as stubs.S lays it out. */
#ifndef POOLCUDA_INTERPOSE_STUB_FRAME_H
#define POOLCUDA_INTERPOSE_STUB_FRAME_H

#include "interpose/call_arguments.h"
#include "pool/pool.h"

#include <stdint.h>

/* As in stubs.S, of to_stub: what stub_before returned is the offset of another stub; what the call
 * has submitted has to be made known behind it if the word has one of TELLS_WORD's bits then. */
enum { FRAME_IS_STUB = 1, FRAME_TELLS = 2 };

/* stack: the arguments beyond the registers', behind the word where the call returns to. stub:
 * where its code is, and its entry: their offsets are the same. attempts: that were made before. */
struct stub_frame {
    _Alignas(16) uint64_t registers[8];
    unsigned char vectors[8][16];
    const uint64_t *stack;
    uint64_t stub, attempts; /* NO_SUCH_FUNCTION: the driver has none */
    union {
        uint64_t opens; /* the gate, afterwards: a captured stream or a memory pool is destroyed, or
                         * if a capture that begins fails to */
        uint64_t to_stub; /* or 0: FRAME_IS_STUB, FRAME_TELLS */
    };
    struct pool_context_wait waits; /* before a call that waits for all work of the context */
};
_Static_assert(sizeof(struct stub_frame) == 256, "FRAME_SIZE of stubs.S");

static inline uint64_t stub_argument(const struct stub_frame *frame, unsigned index) {
    return call_argument(&(struct call_arguments){frame->registers, frame->stack}, index);
}

#endif
