/* The arguments of a call that a stub stands before: those that anybody looks at are words. Floats,
 * and structs by value (the handles of IPC and EGL's frames), are where nobody looks. */
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
