/* Sizes that vary by up to 1.9x from round to round, blocks that outlive their round, and one
 * allocating function reached from two call depths. */
#include "sample.h"

static uint32_t state = 12345;

static uint32_t next_random(void) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Between `base` and 1.9 times as many words. */
static uint64_t vary(uint64_t base) {
    return base + next_random() % (base * 9 / 10);
}

__attribute__((noinline)) static void *make_buffer(uint64_t words) {
    void *pointer;
    CHECK(cudaMalloc(&pointer, words * 4));
    return pointer;
}

__attribute__((noinline)) static void *make_buffer_deeper(uint64_t words) {
    void *pointer = make_buffer(words);
    __asm__ volatile("" : : "r"(pointer) : "memory"); /* not a tail call */
    return pointer;
}

int main(int argc, char **argv) {
    int rounds = argument(argc, argv, 1, 100);
    struct kernels kernels = kernels_load();
    void *previous = NULL, *sum;
    uint64_t previous_words = 0, checksum = 0;
    double started = now_seconds();
    CHECK(cudaMalloc(&sum, 8));
    for (int i = 0; i < rounds; i++) {
        void *a, *b;
        uint64_t words_a = vary(300000), words_b = vary(500000), words_c = vary(700000);
        CHECK(cudaMalloc(&a, words_a * 4));
        CHECK(cudaMalloc(&b, words_b * 4));
        void *c = i % 2 ? make_buffer(words_c) : make_buffer_deeper(words_c);
        fill_u32(&kernels, a, words_a, (uint32_t)i, 0);
        fill_u32(&kernels, b, words_b, (uint32_t)i * 3, 0);
        fill_u32(&kernels, c, words_c, (uint32_t)i * 5, 0);
        add_u32(&kernels, c, a, b, words_a < words_b ? words_a : words_b, 0);
        CHECK(cudaFree(a));
        if (previous) {
            checksum = mix(checksum, sum_u32(&kernels, previous, previous_words, sum, 0));
            CHECK(cudaFree(previous));
        }
        checksum = mix(checksum, sum_u32(&kernels, b, words_b, sum, 0));
        CHECK(cudaFree(b));
        previous = c;
        previous_words = words_c;
    }
    CHECK(cudaFree(previous));
    CHECK(cudaFree(sum));
    finish("varying", checksum, started);
    return 0;
}
