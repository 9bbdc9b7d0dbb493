/* The arguments of a call that a stub stands before: all are words, as the driver's functions take
 * no structs by value and floats where nobody looks. */
#ifndef POOLCUDA_INTERPOSE_CALL_ARGUMENTS_H
#define POOLCUDA_INTERPOSE_CALL_ARGUMENTS_H

#include <stdint.h>

/* registers: those in registers; stack: those beyond. */
struct call_arguments {
    const uint64_t *registers, *stack;
};

#if defined(__x86_64__)
enum { REGISTER_ARGUMENTS = 6 };
#else
enum { REGISTER_ARGUMENTS = 8 };
#endif

static inline uint64_t call_argument(const struct call_arguments *arguments, unsigned index) {
    return index < REGISTER_ARGUMENTS ? arguments->registers[index]
                                      : arguments->stack[index - REGISTER_ARGUMENTS];
}

#endif
