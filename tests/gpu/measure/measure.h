// What the sections of the measuring program share. Everything is measured natively, through the
// driver API; the runtime is used to launch kernels and where it is the subject.
#ifndef POOLCUDA_TESTS_GPU_MEASURE_H
#define POOLCUDA_TESTS_GPU_MEASURE_H

#include "gpu_program.cuh"

#include <cuda.h>

#include <string>

// Ends the section (its process) with the failing call: what is printed so far stays valid.
#define DRIVER_OK(call)                                                                            \
    do {                                                                                           \
        CUresult code_ = (call);                                                                   \
        if (code_ != CUDA_SUCCESS) {                                                               \
            fprintf(stderr, "%s:%d: %s: CUDA driver error %d\n", __FILE__, __LINE__, #call,        \
                    (int)code_);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

// One process each: a section may leave its context in any state.
void measure_free_waits();
void measure_alloc_waits();
void measure_peer_copy_and_no_context();
void measure_legacy_event();
void measure_context_event();
void measure_idle_costs();
void measure_runtime_costs();
void measure_current_context();
void measure_capture_calls();
void measure_capture_free();
void measure_ranges();
void measure_zeroing();
void measure_page_accounting();
void measure_codes();
void measure_printf();
void measure_fault();
void measure_fault_non_blocking();
void measure_trap();
void measure_attributes();
void measure_lookup();

// Prints "measure ID: QUESTION: ANSWER" in one line.
void answer(const char *id, const char *question, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));
std::string size_name(size_t bytes);
std::string code_name(CUresult code); // "CUDA_ERROR_INVALID_VALUE (1)"
double median(std::vector<double> values);
double now_us();

// Makes the primary context of device 0 current, loads the kernels and returns the context.
CUcontext start_device();

// Another context on device 0; the current one stays current.
CUcontext another_context();

// The entry `symbol` of the loaded driver, NULL if it has none.
void *driver_symbol(const char *symbol);
typedef CUresult ctx_record_event_function(CUcontext, CUevent);

CUevent new_event(); // without timing

// Queues `milliseconds` of spinning and then `event` in `stream` of the current context. Returns
// false, with the error cleared, if the launch failed.
bool queue_spin(CUstream stream, unsigned milliseconds, CUevent event);

// The kinds of stream that questions are asked about.
struct stream_kind {
    const char *name;
    CUstream stream;
    CUcontext context;
};
std::vector<stream_kind> make_streams(CUcontext own, CUcontext other); // other may be NULL

#endif
