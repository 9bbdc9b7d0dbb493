/* A block that is never freed was written before its start: found when its context is destroyed. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    CUcontext context;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    load_kernels();
    OK(cuMemAlloc_v2(&a, 2000)); /* site: alloc */
    tell("A", a);
    fill(faulty ? a - 8 : a, 2, NULL);
    OK(cuCtxDestroy_v2(context));
    return 0;
}
