/* The handlers that run around a fork, in the program or in a library, wait for a thread that
 * allocates and frees: as they do where the program's own allocator has a lock that is held across
 * fork, and that thread has it. With the argument "main" main() registers them too. */
#include "driver/cuda_api.h"
#include "program.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

extern void (*fork_handlers_work)(void); /* in a library whose constructor has registered them */

static CUcontext primary;

/* Sizes that are new, and one that comes from idle memory. */
static void *allocate(void *data) {
    static size_t bytes = 100000;
    (void)data;
    CHECK(cuCtxSetCurrent(primary));
    for (int i = 0; i < 4; i++) {
        CUdeviceptr pointer;
        CHECK(cuMemAlloc_v2(&pointer, i % 2 ? 4096 : (bytes += 70000)));
        CHECK(cuMemFree_v2(pointer));
    }
    return NULL;
}

static void work(void) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, allocate, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "main") == 0)
        REQUIRE(pthread_atfork(work, work, NULL) == 0);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    work();
    fork_handlers_work = work;
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0)
            _exit(7);
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    work();
    puts("done");
    return 0;
}
