/* The sections, and what they share.
 *
 * order --list    their names
 * order NAME      one of them */
#include "probes.h"

#include "../../../samples/kernels.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>

static const struct section {
    const char *name;
    void (*run)(void);
} sections[] = {
    {"order-capture-calls", probe_capture_calls},
    {"order-host-functions", probe_host_functions},
    {"order-parameters", probe_parameters},
    {"order-pageable-argument", probe_pageable_argument},
    {"order-pageable-behind", probe_pageable_behind},
    {"order-free-waits", probe_free_waits},
    {"order-printf", probe_printf},
    {"order-printf-last", probe_printf_last},
    {"order-fault", probe_fault},
    {"order-fault-last", probe_fault_last},
};

struct start start_device(void) {
    struct start start;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&start.device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&start.context, start.device));
    CHECK(cuCtxSetCurrent(start.context));
    CHECK(cuModuleLoadData(&start.module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&start.fill, start.module, "fill_u32"));
    CHECK(cuModuleGetFunction(&start.spin, start.module, "spin_ns"));
    CHECK(cuModuleGetFunction(&start.fault, start.module, "fault"));
    return start;
}

void answer(const char *id, const char *question, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("measure %s: %s: ", id, question);
    vprintf(format, arguments);
    puts("");
    va_end(arguments);
    fflush(stdout);
}

const char *code_name(CUresult code) {
    enum { USES = 4, SIZE = 80 };
    static char names[USES][SIZE];
    static unsigned uses;
    char *name = names[uses++ % USES];
    const char *known = NULL;
    if (cuGetErrorName(code, &known) != CUDA_SUCCESS || known == NULL)
        known = "unknown";
    snprintf(name, SIZE, "%s (%d)", known, (int)code);
    return name;
}

void *driver_symbol(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

void launch(CUfunction function, void **arguments, CUstream stream) {
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

void fill(const struct start *start, CUdeviceptr to, CUstream stream) {
    uint64_t count = WORDS;
    uint32_t value = VALUE;
    launch(start->fill, (void *[]){&to, &count, &value}, stream);
}

void keep_busy(const struct start *start, CUstream stream) {
    uint64_t nanoseconds = SPIN_NS;
    launch(start->spin, (void *[]){&nanoseconds}, stream);
}

CUevent new_event(void) {
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

CUstream new_stream(unsigned flags) {
    CUstream stream;
    CHECK(cuStreamCreate(&stream, flags));
    return stream;
}

CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr pointer;
    CHECK(cuMemAlloc_v2(&pointer, bytes));
    return pointer;
}

int main(int count, char **arguments) {
    REQUIRE(count == 2);
    size_t sections_count = sizeof sections / sizeof sections[0];
    for (size_t i = 0; i < sections_count; i++) {
        if (strcmp(arguments[1], "--list") == 0)
            puts(sections[i].name);
        else if (strcmp(arguments[1], sections[i].name) == 0) {
            sections[i].run();
            fflush(stdout);
            _Exit(0); /* a context that was spoiled on purpose is not torn down */
        }
    }
    REQUIRE(strcmp(arguments[1], "--list") == 0);
    return 0;
}
