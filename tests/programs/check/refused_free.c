/* A free is refused, as another thread has destroyed the current context: the block is as it was,
 * and is written too far later. */
#include "check.h"

#include <pthread.h>

enum { BYTES = 1000 };

static void *destroy(void *context) {
    OK(cuCtxDestroy_v2(context));
    return NULL;
}

int main(void) {
    CUdeviceptr a;
    CUcontext first, second;
    pthread_t thread;
    unsigned char bytes[BYTES];
    start();
    OK(cuCtxGetCurrent(&first));
    OK(cuMemAlloc_v2(&a, BYTES)); /* site: alloc */
    tell("A", a);
    OK(cuMemsetD8_v2(a, 3, BYTES));
    OK(cuCtxCreate_v2(&second, 0, 0));
    REQUIRE(pthread_create(&thread, NULL, destroy, second) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE(cuMemFree_v2(a) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxSetCurrent(first));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(bytes, a, BYTES));
    for (int i = 0; i < BYTES; i++)
        REQUIRE(bytes[i] == 3);
    OK(cuMemsetD8_v2(a, 3, BYTES + faulty));
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
