#include "thread_marks.h"

_Thread_local struct thread_marks thread_marks;
_Atomic uint32_t thread_numbers_given;
