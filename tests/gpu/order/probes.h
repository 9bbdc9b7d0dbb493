/* What the probes share. They ask the driver, natively, what the rules of src/order take it to do,
 * by the driver API alone: so the simulated GPU answers, too. One section a process, each answer a
 * line "measure ID: QUESTION: ANSWER", as tests/gpu/measure prints them. */
#ifndef TESTS_GPU_ORDER_PROBES_H
#define TESTS_GPU_ORDER_PROBES_H

#include "../../programs/program.h"
#include "driver/cuda_api.h"

#include <stdbool.h>
#include <stdint.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { BYTES = 4096, WORDS = BYTES / 4, VALUE = 7, SPIN_NS = 15 * 1000 * 1000 };

/* Device 0, whose primary context is current, and the kernels of samples/kernels.h. */
struct start {
    CUcontext context;
    CUdevice device;
    CUmodule module;
    CUfunction fill, spin, fault;
};
struct start start_device(void);

void answer(const char *id, const char *question, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "CUDA_SUCCESS (0)", for one use: the next three calls leave it alone. */
const char *code_name(CUresult code);
/* A function of the driver's that the headers, or older drivers, may lack; else NULL. */
void *driver_symbol(const char *name);

void launch(CUfunction function, void **arguments, CUstream stream);
void fill(const struct start *start, CUdeviceptr to, CUstream stream);
void keep_busy(const struct start *start, CUstream stream);
CUevent new_event(void);
CUstream new_stream(unsigned flags);
CUdeviceptr allocate(size_t bytes);

void probe_capture_calls(void);
void probe_host_functions(void);
void probe_parameters(void);
void probe_pageable_argument(void);
void probe_pageable_behind(void);
void probe_free_waits(void);
void probe_printf(void);
void probe_printf_last(void);
void probe_fault(void);
void probe_fault_last(void);

#endif
