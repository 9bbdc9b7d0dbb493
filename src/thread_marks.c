#include "thread_marks.h"

_Thread_local struct thread_marks thread_marks;
_Atomic uint32_t thread_numbers_given;

uint32_t thread_number_given(void) {
    thread_marks.number = 1 + atomic_fetch_add(&thread_numbers_given, 1);
    return thread_marks.number;
}
