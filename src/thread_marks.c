#include "thread_marks.h"

_Thread_local struct thread_marks thread_marks;
