/* Uses CUDA, forks, and lets the child end in the ordinary way while the parent still holds memory.
 * With the argument "before" it forks first, and the child uses CUDA; with "again" the child forks
 * as well, and both find that they cannot use it. */
#include "program.h"

#include <cuda_runtime_api.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void use_cuda(void) {
    for (int i = 0; i < ROUNDS; i++) {
        void *pointer;
        REQUIRE(cudaMalloc(&pointer, 4096) == cudaSuccess);
        REQUIRE(cudaMemset(pointer, 1, 4096) == cudaSuccess);
        REQUIRE(cudaFree(pointer) == cudaSuccess);
    }
}

static void try_cuda(const char *who) {
    void *pointer;
    printf("%s: %d\n", who, (int)cudaMalloc(&pointer, 4096));
    fflush(stdout);
}

static void fork_again(void) {
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        try_cuda("child's child");
        exit(8);
    }
    REQUIRE(waitpid(child, NULL, 0) == child);
    try_cuda("child");
}

int main(int argc, char **argv) {
    int before = argc > 1 && strcmp(argv[1], "before") == 0;
    int again = argc > 1 && strcmp(argv[1], "again") == 0;
    void *kept = NULL;
    if (!before) {
        use_cuda();
        REQUIRE(cudaMalloc(&kept, 12345) == cudaSuccess);
    }
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        if (before)
            use_cuda();
        if (again)
            fork_again();
        exit(7);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    use_cuda();
    if (kept)
        REQUIRE(cudaFree(kept) == cudaSuccess);
    puts("parent done");
    return 0;
}
