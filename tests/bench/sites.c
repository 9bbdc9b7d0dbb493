#include "sites.h"

#include "allocator.h"

#include <stdio.h>
#include <stdlib.h>

__attribute__((noreturn)) static void fail(const char *what, int error) {
    fprintf(stderr, "%s failed with error %d\n", what, error);
    exit(1);
}

/* Not one of them may be merged with another, or end in a jump. */
#define SITE(number)                                                                               \
    __attribute__((noinline)) static uintptr_t site_##number(size_t bytes) {                       \
        uintptr_t pointer = 0;                                                                     \
        int error = ALLOCATE(&pointer, bytes);                                                     \
        __asm__ volatile("" : : "i"(number));                                                      \
        if (error)                                                                                 \
            fail("an allocation", error);                                                          \
        return pointer;                                                                            \
    }
#define EIGHT(X, tens)                                                                             \
    X(tens##0) X(tens##1) X(tens##2) X(tens##3) X(tens##4) X(tens##5) X(tens##6) X(tens##7)
#define ALL(X)                                                                                     \
    EIGHT(X, 1) EIGHT(X, 2) EIGHT(X, 3) EIGHT(X, 4) EIGHT(X, 5) EIGHT(X, 6) EIGHT(X, 7) EIGHT(X, 8)
ALL(SITE)

#define NAME(number) site_##number,
static uintptr_t (*const sites[SITES])(size_t) = {ALL(NAME)};

uintptr_t site_malloc(unsigned site, size_t bytes) {
    return sites[site % SITES](bytes);
}

void site_free(uintptr_t pointer, size_t bytes) {
    int error = RELEASE(pointer, bytes);
    if (error)
        fail("a free", error);
}
