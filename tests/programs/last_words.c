/* Works, then ends as it is told to, without the handlers of an exit:
 * last_words ROUNDS exit|exec|abort|kill [shortage]. */
#include "program.h"

#include <cuda_runtime_api.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void end(const char *how) {
    if (strcmp(how, "exit") == 0)
        _exit(0);
    if (strcmp(how, "exec") == 0)
        execl("/bin/true", "true", NULL);
    if (strcmp(how, "abort") == 0)
        abort();
    raise(SIGKILL);
}

int main(int argc, char **argv) {
    void *pointer;
    REQUIRE(argc >= 3);
    for (int round = atoi(argv[1]); round; round--) {
        REQUIRE(cudaMalloc(&pointer, 1 << 20) == cudaSuccess);
        REQUIRE(cudaFree(pointer) == cudaSuccess);
    }
    if (argc > 3)
        REQUIRE(cudaMalloc(&pointer, (size_t)1 << 50) == cudaErrorMemoryAllocation);
    end(argv[2]);
    return 1;
}
