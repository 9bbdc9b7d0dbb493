/* Another thread than the one that allocated writes too far and frees. */
#include "check.h"

#include <pthread.h>

static CUcontext context;

static void *work(void *data) {
    CUdeviceptr *a = data;
    OK(cuCtxSetCurrent(context));
    fill(*a, faulty ? 251 : 250, CU_STREAM_PER_THREAD);
    OK(cuMemFree_v2(*a)); /* site: free */
    return NULL;
}

int main(void) {
    CUdeviceptr a;
    pthread_t thread;
    start();
    OK(cuCtxGetCurrent(&context));
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    REQUIRE(pthread_create(&thread, NULL, work, &a) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    return 0;
}
