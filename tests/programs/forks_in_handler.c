/* forks_in_handler FORKS: a signal's handler forks in the midst of allocations and frees, which go
 * on in the child. */
#include "driver/cuda_api.h"
#include "program.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WENT_ON = 7, EVERY_US = 500 };

static volatile sig_atomic_t left, went_on, is_child;

static void fork_here(int number) {
    int status;
    (void)number;
    if (!left || is_child)
        return;
    left--;
    pid_t child = fork();
    if (child == 0)
        is_child = 1;
    else if (waitpid(child, &status, 0) == child)
        went_on += WIFEXITED(status) && WEXITSTATUS(status) == WENT_ON;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    int forks = atoi(argv[1]);
    CUcontext primary;
    CUdeviceptr pointer;
    const struct itimerval every = {{0, EVERY_US}, {0, EVERY_US}};
    REQUIRE(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(primary) == CUDA_SUCCESS);
    REQUIRE(signal(SIGALRM, fork_here) != SIG_ERR);
    left = forks;
    REQUIRE(setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (unsigned i = 0; left && !is_child; i++)
        if (cuMemAlloc_v2(&pointer, (size_t)4096 * (1 + i % 50)) == CUDA_SUCCESS)
            cuMemFree_v2(pointer);
    if (is_child)
        _exit(WENT_ON);
    printf("%d children\n", (int)went_on);
    return 0;
}
