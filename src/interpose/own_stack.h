/* How far the stack above a frame can be read.
 *
 * A program may run on stacks that it has made itself, and that end anywhere. To the end of its own
 * page a frame's surroundings can be read in any case. Beyond, only where the stack is known: the
 * main thread's, and of other threads what has once been unwound to where the thread began. */
#ifndef POOLCUDA_INTERPOSE_OWN_STACK_H
#define POOLCUDA_INTERPOSE_OWN_STACK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    OWN_STACK_PAGE = 4096,    /* or a multiple of it */
    OWN_STACK_MAIN = 64 << 20 /* below the main thread's end Linux maps nothing else so near */
};

/* low to high: known to be of this thread's own stack; nothing at first. */
struct own_stack {
    uintptr_t low, high;
};
extern _Thread_local struct own_stack own_stack
    __attribute__((visibility("hidden"), tls_model("initial-exec")));
extern uintptr_t own_stack_main __attribute__((visibility("hidden"))); /* its end; 0: unknown */

/* To be called with the address of the arguments that the program was started with. */
void own_stack_note_main(const void *arguments);

/* Whether it is the same page. */
static inline bool own_stack_is_near(uintptr_t frame, uintptr_t end) {
    return ((frame - 1) ^ (end - 1)) < OWN_STACK_PAGE;
}

/* Whether all of it is of a stack that is known. */
static inline bool own_stack_is_known(uintptr_t frame, uintptr_t end) {
    return (end <= own_stack_main && own_stack_main - frame < OWN_STACK_MAIN) ||
           (frame >= own_stack.low && end <= own_stack.high);
}

/* Whether all from `frame`, below which is a frame of ours, to `end` can be read. */
static inline bool own_stack_reaches(uintptr_t frame, uintptr_t end) {
    return own_stack_is_near(frame, end) || own_stack_is_known(frame, end);
}

#endif
