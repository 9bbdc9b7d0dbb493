/* What a function of echo_driver.c was called with last. */
#ifndef TESTS_ECHO_DRIVER_H
#define TESTS_ECHO_DRIVER_H

#include <stdint.h>

struct echo {
    void *return_address;
    uintptr_t words[11];
    float floats[2];
    int calls;
};
extern struct echo echo;

int cuLaunchKernel(void *function, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                   unsigned f, unsigned shared, void *stream, void **parameters, void **extra);
int cuTexRefSetMipmapLevelClamp(void *reference, float least, float most);
int cuStreamGetCaptureInfo_v3(void *stream, void *status, void *id, void *graph, void *dependencies,
                              void *edges, void *count);
int cuStreamGetId(void *stream, void *id);
int cuEventQuery(void *event);

#endif
