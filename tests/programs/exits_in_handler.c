/* Processes that allocate and free until a signal's handler calls exit, in the midst of whatever it
 * has interrupted. Prints how many have ended so: natively and under the pool all. */
#include "program.h"

#include "driver/cuda_api.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
enum { PROCESSES = 24, ROUNDS_BEFORE = 3000, BYTES = 4096, CODE = 3, PATIENCE_S = 10 };

static void end_here(int number) {
    (void)number;
    exit(CODE); // NOLINT(bugprone-signal-handler): what many programs do all the same
}

static void allocate_and_free(void) {
    CUdeviceptr block;
    CHECK(cuMemAlloc_v2(&block, BYTES));
    CHECK(cuMemFree_v2(block));
}

static void run_until_the_signal(int number) {
    CUcontext context;
    CUdeviceptr kept;
    struct itimerval soon = {.it_value = {.tv_usec = 1000 + number * 137 % 1000}};
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc_v2(&kept, BYTES)); /* so that no other free is that of the last block */
    for (int i = 0; i < ROUNDS_BEFORE; i++)
        allocate_and_free();
    signal(SIGALRM, end_here);
    setitimer(ITIMER_REAL, &soon, NULL);
    for (;;)
        allocate_and_free();
}

/* Whether the process ends by itself. */
static bool ends(pid_t child) {
    int status;
    for (int i = 0; i < PATIENCE_S * 100; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) && WEXITSTATUS(status) == CODE;
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
}

int main(void) {
    int ended = 0;
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (!child)
            run_until_the_signal(i);
        ended += ends(child);
    }
    printf("%d of %d processes have ended\n", ended, PROCESSES);
    return 0;
}
