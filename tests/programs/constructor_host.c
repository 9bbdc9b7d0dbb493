/* Opens and closes the plugin named by its argument while another thread allocates from many call
 * sites that were not seen before: neither may wait for the other for ever. */
#include "program.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

static atomic_bool over;

static void *allocate(void *unused) {
    (void)unused;
    while (!over) {
        void *pointer;
        REQUIRE(cudaMalloc(&pointer, 8192) == cudaSuccess);
        REQUIRE(cudaFree(pointer) == cudaSuccess);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    REQUIRE(cudaFree(NULL) == cudaSuccess); /* the runtime itself starts under the loader's lock */
    REQUIRE(argc == 2 && pthread_create(&thread, NULL, allocate, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        void *plugin = dlopen(argv[1], RTLD_NOW);
        REQUIRE(plugin);
        dlclose(plugin); /* what was learnt is checked again, so looked up again */
    }
    over = true;
    REQUIRE(pthread_join(thread, NULL) == 0);
    puts("done");
    return 0;
}
