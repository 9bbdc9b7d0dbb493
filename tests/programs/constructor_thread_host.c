/* Opens the library named by its argument, with DRIVER or RUNTIME after it has used them itself. */
#include "program.h"

#include <dlfcn.h>

#ifdef RUNTIME
#include <cuda_runtime_api.h>

static void use(void) {
    for (int i = 0; i < ROUNDS; i++) {
        void *pointer;
        REQUIRE(cudaMalloc(&pointer, 8192) == cudaSuccess);
        REQUIRE(cudaFree(pointer) == cudaSuccess);
    }
}
#elif defined(DRIVER)
#include "driver/cuda_api.h"

static void use(void) {
    CUcontext context;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr pointer;
        REQUIRE(cuMemAlloc_v2(&pointer, 8192) == CUDA_SUCCESS);
        REQUIRE(cuMemFree_v2(pointer) == CUDA_SUCCESS);
    }
}
#else
static void use(void) {
}
#endif

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    use();
    if (!dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL))
        puts(dlerror());
    use();
    puts("done");
    return 0;
}
