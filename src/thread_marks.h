/* What a thread's next call of the driver has to know of what the thread is doing just now. It is
 * in one place, as every call looks at it. */
#ifndef POOLCUDA_THREAD_MARKS_H
#define POOLCUDA_THREAD_MARKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct thread_marks {
    union {
        struct {
            uint16_t tag; /* site_tag.h: the number of the innermost one, from 1; 0: none */
            /* state.h: the thread is in one of our calls into the driver or the pool */
            bool inside;
        };
        uint32_t any;
    };
    uint32_t number;  /* thread_number(); 0: not asked for yet */
    uintptr_t caller; /* caller.h: what a runtime hook has noted; 0: nothing */
    /* call_order.h: the stream of the call that it makes, if that may reach other contexts' memory;
     * of one that has failed it may be left, and is taken for the next one's */
    void *crossing;
};

extern _Thread_local struct thread_marks thread_marks
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* How many threads have a number. */
extern _Atomic uint32_t thread_numbers_given __attribute__((visibility("hidden")));
/* This thread's number, from 1: of no other thread, nor of one that has ended, though that may have
 * had the same addresses. */
static inline uint32_t thread_number(void) {
    if (__builtin_expect(!thread_marks.number, 0))
        thread_marks.number = 1 + atomic_fetch_add(&thread_numbers_given, 1);
    return thread_marks.number;
}
static inline uint32_t thread_numbers(void) {
    return atomic_load_explicit(&thread_numbers_given, memory_order_relaxed);
}

#endif
