/* Stacks of a program's own, as fibers have them: above the highest word nothing can be read. */
#ifndef TESTS_OWN_STACK_H
#define TESTS_OWN_STACK_H

#include "program.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns the end of a stack of that size, behind which lies a page that cannot be read. */
static inline char *own_stack_make(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *low = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(low != MAP_FAILED && mprotect(low + size, page, PROT_NONE) == 0);
    return low + size;
}

/* Calls `function` with the words as its arguments on the stack, the last of which ends at `end`,
 * or, of an odd number, 8 bytes before it; and with `first` in the first register. */
static inline int own_stack_call(void *function, char *end, uintptr_t first, const uint64_t *words,
                                 unsigned count) {
    char *stack = end - (size_t)(count + count % 2) * sizeof *words;
    for (unsigned i = 0; i < count; i++)
        memcpy(stack + i * sizeof *words, &words[i], sizeof *words);
#if defined(__x86_64__)
    int result;
    __asm__ volatile("movq %%rsp, %%rbx; movq %[stack], %%rsp; call *%[function]; movq %%rbx, %%rsp"
                     : "=a"(result), "+D"(first), [function] "+r"(function), [stack] "+r"(stack)
                     :
                     : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0",
                       "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
    return result;
#elif defined(__aarch64__)
    register uintptr_t x0 __asm__("x0") = first;
    register void *x8 __asm__("x8") = function;
    register char *x9 __asm__("x9") = stack;
    __asm__ volatile("mov x19, sp; mov sp, x9; blr x8; mov sp, x19"
                     : "+r"(x0), "+r"(x8), "+r"(x9)
                     :
                     : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x10", "x11", "x12", "x13", "x14",
                       "x15", "x16", "x17", "x19", "x30", "memory", "cc", "v0", "v1", "v2", "v3",
                       "v4", "v5", "v6", "v7");
    return (int)x0;
#endif
}

#endif
