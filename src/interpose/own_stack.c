#include "interpose/own_stack.h"

_Thread_local struct own_stack own_stack;
uintptr_t own_stack_main;

void own_stack_note_main(const void *arguments) {
    own_stack_main = (uintptr_t)arguments;
}
