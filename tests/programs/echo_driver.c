/* A libcuda.so.1 with a few functions that keep what they were called with: for the stubs, which
 * must pass everything on. */
#include "echo_driver.h"

struct echo echo;

int cuLaunchKernel(void *function, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                   unsigned f, unsigned shared, void *stream, void **parameters, void **extra) {
    echo = (struct echo){__builtin_return_address(0),
                         {(uintptr_t)function, a, b, c, d, e, f, shared, (uintptr_t)stream,
                          (uintptr_t)parameters, (uintptr_t)extra},
                         {0},
                         echo.calls + 1};
    return 0;
}

int cuTexRefSetMipmapLevelClamp(void *reference, float least, float most) {
    echo = (struct echo){
        __builtin_return_address(0), {(uintptr_t)reference}, {least, most}, echo.calls + 1};
    return 0;
}

int cuStreamGetCaptureInfo_v3(void *stream, void *status, void *id, void *graph, void *dependencies,
                              void *edges, void *count) {
    echo = (struct echo){__builtin_return_address(0),
                         {(uintptr_t)stream, (uintptr_t)status, (uintptr_t)id, (uintptr_t)graph,
                          (uintptr_t)dependencies, (uintptr_t)edges, (uintptr_t)count},
                         {0},
                         echo.calls + 1};
    return 0;
}

int cuStreamGetId(void *stream, void *id) {
    echo = (struct echo){
        __builtin_return_address(0), {(uintptr_t)stream, (uintptr_t)id}, {0}, echo.calls + 1};
    return 400;
}

int cuEventQuery(void *event) {
    echo = (struct echo){__builtin_return_address(0), {(uintptr_t)event}, {0}, echo.calls + 1};
    return 600;
}
