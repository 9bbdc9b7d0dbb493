/* drive RUNS: calls the fuzz target with that many inputs from a seeded generator, for machines
 * without a fuzzing engine. Inputs are mutations of the option table's own words. */
#include "options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t seed = 20250101;

static uint32_t next_random(void) {
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static size_t word(uint8_t *to) {
    static const char *const values[] = {"=1",   "=auto", "=64M", "=1.5GiB", "=5%", "=-1",
                                         "=nan", "=1e9",  "=",    "==",      "",    "=\033[31m"};
    const char *name = option_table[next_random() % option_count].name + strlen("POOLCUDA_");
    return (size_t)snprintf((char *)to, 128, "%s%s", name,
                            values[next_random() % (sizeof values / sizeof values[0])]) +
           1;
}

int main(int argc, char **argv) {
    static uint8_t input[4096];
    long runs = argc > 1 ? atol(argv[1]) : 1000;
    for (long run = 0; run < runs; run++) {
        size_t size = 0;
        for (uint32_t words = next_random() % 6; words; words--)
            size += word(input + size);
        for (uint32_t noise = next_random() % 64; noise; noise--)
            input[size++] = (uint8_t)next_random();
        for (uint32_t changes = next_random() % 8; changes && size; changes--)
            input[next_random() % size] = (uint8_t)next_random();
        LLVMFuzzerTestOneInput(input, size);
    }
    printf("%ld inputs\n", runs);
    return 0;
}
