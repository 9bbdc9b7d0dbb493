/* Blocks of a primary context and of two green ones are used in each of them, behind work that
 * takes its time; one is written too far by a green context that it was not allocated in. */
#include "check.h"

#include <time.h>

enum { CONTEXTS = 3, BYTES = 1000 };
static CUcontext contexts[CONTEXTS];

static CUcontext make_green(void) {
    CUdevResource resource;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUcontext context;
    OK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevResourceGenerateDesc(&description, &resource, 1));
    OK(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuCtxFromGreenCtx(&context, green));
    return context;
}

static void take_time(void *data) {
    (void)data;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Allocates in one context, writes in the second and frees in the third. */
static void use(int owner, int user, int last) {
    bool marked = owner == 1 && user == 2 && last == 0;
    CUdeviceptr block, next;
    OK(cuCtxSetCurrent(contexts[owner]));
    OK(cuMemAlloc_v2(&block, BYTES)); /* site: alloc */
    if (marked)
        tell("A", block);
    OK(cuCtxSetCurrent(contexts[user]));
    OK(cuLaunchHostFunc(NULL, take_time, NULL));
    OK(cuMemsetD8Async(block, 3, BYTES + (marked && faulty ? 2 : 0), NULL));
    OK(cuCtxSetCurrent(contexts[last]));
    OK(cuMemFree_v2(block)); /* site: free */
    OK(cuCtxSetCurrent(contexts[owner]));
    OK(cuMemAlloc_v2(&next, BYTES));
    OK(cuMemsetD8Async(next, 9, BYTES, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemFree_v2(next));
}

int main(void) {
    start();
    OK(cuCtxGetCurrent(&contexts[0]));
    for (int i = 1; i < CONTEXTS; i++)
        contexts[i] = make_green();
    for (int owner = 0; owner < CONTEXTS; owner++)
        for (int user = 0; user < CONTEXTS; user++)
            for (int last = 0; last < CONTEXTS; last++)
                use(owner, user, last);
    return 0;
}
