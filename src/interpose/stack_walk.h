/* Stack unwinding by .eh_frame, with libgcc's unwinder linked in. */
#ifndef POOLCUDA_INTERPOSE_STACK_WALK_H
#define POOLCUDA_INTERPOSE_STACK_WALK_H

#include <stdbool.h>
#include <stdint.h>

enum { STACK_MAX_FRAMES = 48 };

/* A chain of return addresses, innermost first. The word that holds address[i] lies below stack[i],
 * the stack pointer that its frame continues with. */
struct stack_chain {
    int count;
    uintptr_t address[STACK_MAX_FRAMES];
    uintptr_t stack[STACK_MAX_FRAMES];
};

/* Unwinds from the frame that `return_address` returns to: address[0] is return_address itself.
 * count is 0 if the stack cannot be unwound that far. */
void stack_walk(struct stack_chain *chain, uintptr_t return_address);

/* As own_stack_reaches; unwinds if that does not know yet. */
bool stack_walk_reaches(uintptr_t frame, uintptr_t end);

#endif
