/* A library whose constructor starts a thread that allocates and frees, and waits for its end: the
 * loader's lock is held all the while. */
#include "driver/cuda_api.h"

#include <pthread.h>

static CUcontext context;
static int wrong;

int plugin_wrong(void);

int plugin_wrong(void) {
    return wrong;
}

static void *work(void *data) {
    wrong += cuCtxSetCurrent(context) != CUDA_SUCCESS;
    for (int i = 0; i < 4; i++) {
        CUdeviceptr pointer;
        if (cuMemAlloc_v2(&pointer, 5000u << i) != CUDA_SUCCESS)
            wrong++;
        else
            wrong += cuMemFree_v2(pointer) != CUDA_SUCCESS;
    }
    return data;
}

static __attribute__((constructor)) void begin(void) {
    pthread_t thread;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
        pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0)
        wrong++;
}
