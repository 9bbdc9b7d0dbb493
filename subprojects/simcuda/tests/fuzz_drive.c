/* fuzz_drive RUNS [SEED]: calls the fuzz target with that many inputs of a seeded generator, for
 * compilers without a fuzzing engine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
    long runs = argc > 1 ? atol(argv[1]) : 1000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint8_t input[64];

    for (long run = 0; run < runs; run++) {
        for (size_t i = 0; i < sizeof input; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            input[i] = (uint8_t)(seed >> 56);
        }
        LLVMFuzzerTestOneInput(input, sizeof input);
    }
    printf("%ld inputs\n", runs);
    return 0;
}
