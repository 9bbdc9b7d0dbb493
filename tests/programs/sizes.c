/* Allocates as its arguments say, each LETTERxCOUNTxBYTES: so often so many bytes, in a place of
 * its own for each of a to d. A small letter frees each block before the next, a capital one
 * never. */
#include "program.h"

#include <cuda_runtime_api.h>
#include <string.h>

#define PLACE(name)                                                                                \
    static __attribute__((noinline)) void *name(size_t bytes) {                                    \
        void *pointer;                                                                             \
        REQUIRE(cudaMalloc(&pointer, bytes) == cudaSuccess);                                       \
        __asm__ volatile("" : : "r"(pointer) : "memory");                                          \
        return pointer;                                                                            \
    }
PLACE(place_a)
PLACE(place_b)
PLACE(place_c)
PLACE(place_d)

static void *(*const places[])(size_t) = {place_a, place_b, place_c, place_d};

int main(int argc, char **argv) {
    static const char letters[] = "abcdABCD";
    for (int i = 1; i < argc; i++) {
        char letter;
        int count;
        size_t bytes;
        REQUIRE(sscanf(argv[i], "%cx%dx%zu", &letter, &count, &bytes) == 3);
        const char *found = strchr(letters, letter);
        REQUIRE(letter && found);
        for (int round = 0; round < count; round++) {
            void *pointer = places[(found - letters) % 4](bytes);
            REQUIRE(found - letters >= 4 || cudaFree(pointer) == cudaSuccess);
        }
    }
    puts("done");
    return 0;
}
