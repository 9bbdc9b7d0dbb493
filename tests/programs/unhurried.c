/* Works until it is killed: allocates and frees, then rests, so that many of it at once leave time
 * to what watches them. */
#include "program.h"

#include <cuda_runtime_api.h>
#include <time.h>

int main(void) {
    static const struct timespec rest = {.tv_nsec = 2000 * 1000};
    for (size_t round = 0;; round++) {
        void *pointer;
        REQUIRE(cudaMalloc(&pointer, (1 + round % 5) << 20) == cudaSuccess);
        REQUIRE(cudaFree(pointer) == cudaSuccess);
        nanosleep(&rest, NULL);
    }
}
