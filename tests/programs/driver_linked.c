/* Linked with the driver: calls its functions directly. */
#include "driver_functions.h"

int main(void) {
    struct driver_functions functions = {cuInit, cuDevicePrimaryCtxRetain, cuCtxSetCurrent,
                                         cuMemAlloc_v2, cuMemFree_v2};
    driver_functions_loop(&functions);
    return 0;
}
