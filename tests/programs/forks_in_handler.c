/* forks_in_handler FORKS [BYTES MICROSECONDS]: a signal's handler forks in the midst of allocations
 * and frees, which go on in the child. Each signal comes after another while, so that the forks are
 * in many places: after so many microseconds at most. */
#include "driver/cuda_api.h"
#include "program.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WENT_ON = 7, LEAST_NS = 20 * 1000 };

static volatile sig_atomic_t awaited, went_on, is_child;

static void fork_here(int number) {
    int status;
    (void)number;
    if (!awaited)
        return;
    awaited = 0;
    pid_t child = fork();
    if (child == 0)
        is_child = 1;
    else if (waitpid(child, &status, 0) == child)
        went_on += WIFEXITED(status) && WEXITSTATUS(status) == WENT_ON;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2 || argc == 4);
    int forks = atoi(argv[1]), most_ns = argc == 4 ? 1000 * atoi(argv[3]) : 60 * 1000;
    size_t bytes = argc == 4 ? (size_t)atol(argv[2]) : 0;
    srand((unsigned)getpid());
    CUcontext primary;
    CUdeviceptr pointer;
    timer_t timer;
    /* the simulator's threads go on in no child */
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    REQUIRE(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(primary) == CUDA_SUCCESS);
    REQUIRE(signal(SIGALRM, fork_here) != SIG_ERR);
    REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    for (int fork = 0; fork < forks && !is_child; fork++) {
        struct itimerspec once = {.it_value.tv_nsec = LEAST_NS + rand() % (most_ns - LEAST_NS)};
        awaited = 1;
        REQUIRE(timer_settime(timer, 0, &once, NULL) == 0);
        for (unsigned i = 0; awaited; i++)
            if (cuMemAlloc_v2(&pointer, bytes ? bytes : (size_t)4096 * (1 + i % 50)) ==
                CUDA_SUCCESS)
                cuMemFree_v2(pointer);
    }
    if (is_child)
        _exit(WENT_ON);
    printf("%d children\n", (int)went_on);
    return 0;
}
