/* A library whose constructor uses CUDA: before that of libraries that are preloaded ahead of it.
 */
#include "driver_functions.h"

__attribute__((constructor)) static void begin(void) {
    struct driver_functions functions = {cuInit, cuDevicePrimaryCtxRetain, cuCtxSetCurrent,
                                         cuMemAlloc_v2, cuMemFree_v2};
    driver_functions_loop(&functions);
}
