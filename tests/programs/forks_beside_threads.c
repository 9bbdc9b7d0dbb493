/* forks_beside_threads FORKS THREADS [walk]: forks children that load a library and end, with ever
 * more live blocks, while threads allocate and free. walk: another one goes through the modules and
 * calls malloc meanwhile, as those do that write stacks down; the children load nothing. */
#include "driver/cuda_api.h"
#include "program.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
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

static int note(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    char *name = strdup(info->dlpi_name);
    *(size_t *)data += strlen(name);
    free(name);
    return 0;
}

static void *walk(void *data) {
    while (!atomic_load(&over))
        dl_iterate_phdr(note, data);
    return NULL;
}

static void load_and_end(void) {
    _exit(dlopen("libutil.so.1", RTLD_NOW) ? LOADED : 1);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3 || (argc == 4 && strcmp(argv[3], "walk") == 0));
    bool walks = argc == 4;
    size_t noted = 0;
    pthread_t walker;
    CUdeviceptr kept;
    int forks = atoi(argv[1]), threads = atoi(argv[2]), loaded = 0;
    unsigned seed = 1;
    pthread_t thread[MOST_THREADS];
    REQUIRE(threads <= MOST_THREADS);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
    for (int i = 0; i < threads; i++)
        REQUIRE(pthread_create(&thread[i], NULL, allocate_on, (void *)(uintptr_t)(i + 2)) == 0);
    REQUIRE(!walks || pthread_create(&walker, NULL, walk, &noted) == 0);
    for (int i = 0; i < forks; i++) {
        allocate(&seed);
        CHECK(cuMemAlloc_v2(&kept, 512));
        int status;
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0 && walks)
            _exit(LOADED);
        if (child == 0)
            load_and_end();
        REQUIRE(waitpid(child, &status, 0) == child);
        loaded += WIFEXITED(status) && WEXITSTATUS(status) == LOADED;
    }
    atomic_store(&over, true);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    if (walks)
        pthread_join(walker, NULL);
    printf("%d children\n", loaded);
    return 0;
}
