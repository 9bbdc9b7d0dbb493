/* forks_beside_threads FORKS THREADS: forks children that load a library and end, while threads
 * allocate and free. */
#include "driver/cuda_api.h"
#include "program.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOADED = 7, MOST_THREADS = 16 };

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

static CUcontext primary;
static atomic_bool over;

static void allocate(unsigned *seed) {
    CUdeviceptr pointer;
    CHECK(cuMemAlloc_v2(&pointer, (size_t)4096 * (size_t)(1 + rand_r(seed) % 64)));
    CHECK(cuMemFree_v2(pointer));
}

static void *allocate_on(void *number) {
    unsigned seed = (unsigned)(uintptr_t)number;
    CHECK(cuCtxSetCurrent(primary));
    while (!atomic_load(&over))
        allocate(&seed);
    return NULL;
}

static void load_and_end(void) {
    _exit(dlopen("libutil.so.1", RTLD_NOW) ? LOADED : 1);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    int forks = atoi(argv[1]), threads = atoi(argv[2]), loaded = 0;
    unsigned seed = 1;
    pthread_t thread[MOST_THREADS];
    REQUIRE(threads <= MOST_THREADS);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
    for (int i = 0; i < threads; i++)
        REQUIRE(pthread_create(&thread[i], NULL, allocate_on, (void *)(uintptr_t)(i + 2)) == 0);
    for (int i = 0; i < forks; i++) {
        allocate(&seed);
        int status;
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0)
            load_and_end();
        REQUIRE(waitpid(child, &status, 0) == child);
        loaded += WIFEXITED(status) && WEXITSTATUS(status) == LOADED;
    }
    atomic_store(&over, true);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    printf("%d children\n", loaded);
    return 0;
}
