// Answers questions about the real driver, natively: what the pool may assume. One measurement a run,
// because some of them leave the context unusable: `measure --list`, then `measure NAME`. Each prints
// lines "measure NAME: ANSWER". Every wait is bounded.
#include "gpu_program.cuh"

#include <cuda.h>

#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>

static const unsigned long long SPIN_NS = 20000000; // longer than any free takes by itself

static std::string current;

static void answer(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void answer(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("measure %s: ", current.c_str());
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    va_end(arguments);
}

static void driver_ok(CUresult code, const char *what) {
    if (code != CUDA_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", what, (int)code);
        exit(1);
    }
}
#define DRIVER_OK(call) driver_ok((call), #call)

static const size_t SIZES[] = {1, 4096, 65536, 1 << 20, 2 << 20, 64 << 20, 1 << 30};

static double microseconds(double since) {
    return (seconds_now() - since) * 1e6;
}

// Mean microseconds of a call that is made `count` times.
template <typename Call> static double mean(int count, Call call) {
    double started = seconds_now();
    for (int i = 0; i < count; i++) {
        call();
    }
    return microseconds(started) / count;
}

static void free_behind(const char *where, cudaStream_t stream) {
    for (size_t size : SIZES) {
        void *block;
        CUDA_OK(cudaMalloc(&block, size));
        CUDA_OK(cudaDeviceSynchronize());
        spin<<<1, 1, 0, stream>>>(SPIN_NS, nullptr, 0);
        double started = seconds_now();
        CUDA_OK(cudaFree(block));
        double took = microseconds(started);
        answer("free of %zu B behind a kernel in the %s stream: %.0f us, %s", size, where, took,
               took > SPIN_NS / 2000.0 ? "waited" : "did not wait");
        CUDA_OK(cudaDeviceSynchronize());
    }
}

// Questions 1 and 10.
static void free_waits() {
    cudaStream_t blocking, non_blocking;
    CUDA_OK(cudaStreamCreate(&blocking));
    CUDA_OK(cudaStreamCreateWithFlags(&non_blocking, cudaStreamNonBlocking));
    free_behind("legacy", cudaStreamLegacy);
    free_behind("blocking", blocking);
    free_behind("non-blocking", non_blocking);
    free_behind("per-thread", cudaStreamPerThread);
    CUcontext primary, other;
    CUdeviceptr block;
    DRIVER_OK(cuCtxGetCurrent(&primary));
#if CUDA_VERSION >= 13000
    DRIVER_OK(cuCtxCreate(&other, nullptr, 0, 0));
#else
    DRIVER_OK(cuCtxCreate(&other, 0, 0));
#endif
    DRIVER_OK(cuMemAlloc(&block, 1 << 20));
    DRIVER_OK(cuCtxSetCurrent(primary));
    spin<<<1, 1>>>(SPIN_NS, nullptr, 0);
    DRIVER_OK(cuCtxSetCurrent(other));
    double started = seconds_now();
    DRIVER_OK(cuMemFree(block));
    answer("free in another context than the kernel's: %.0f us", microseconds(started));
    DRIVER_OK(cuMemAlloc(&block, 1 << 20));
    DRIVER_OK(cuCtxSetCurrent(nullptr));
    answer("free without a current context: code %d", (int)cuMemFree(block));
    int devices = 0;
    CUDA_OK(cudaGetDeviceCount(&devices));
    answer("free with a pending peer copy: %s", devices > 1 ? "not measured yet" : "one device only");
}

// Question 2.
static void legacy_event() {
    cudaStream_t first, second;
    cudaEvent_t event;
    CUDA_OK(cudaStreamCreate(&first));
    CUDA_OK(cudaStreamCreate(&second));
    CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    spin<<<1, 1, 0, second>>>(1000, nullptr, 0); // loads the kernel
    CUDA_OK(cudaDeviceSynchronize());
    for (int with = 0; with < 2; with++) {
        spin<<<1, 1, 0, first>>>(2 * SPIN_NS, nullptr, 0);
        if (with) {
            CUDA_OK(cudaEventRecord(event, cudaStreamLegacy));
        }
        double started = seconds_now();
        spin<<<1, 1, 0, second>>>(1000, nullptr, 0);
        CUDA_OK(cudaStreamSynchronize(second));
        answer("%s an event in the legacy stream, later work of another blocking stream took %.0f us",
               with ? "with" : "without", microseconds(started));
        CUDA_OK(cudaDeviceSynchronize());
    }
}

// Question 3.
static void context_event() {
    typedef CUresult record_function(CUcontext, CUevent);
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    record_function *record = (record_function *)dlsym(handle, "cuCtxRecordEvent");
    if (!record) {
        answer("this driver has no cuCtxRecordEvent");
        return;
    }
    CUcontext context;
    CUevent event;
    cudaStream_t streams[9];
    CUDA_OK(cudaFree(0));
    DRIVER_OK(cuCtxGetCurrent(&context));
    DRIVER_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    answer("record with no stream: %.2f us", mean(1000, [&] { record(context, event); }));
    for (cudaStream_t &stream : streams) {
        CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    answer("record with 9 idle streams: %.2f us", mean(1000, [&] { record(context, event); }));
    answer("query: %.2f us", mean(1000, [&] { cuEventQuery(event); }));
    CUDA_OK(cudaDeviceSynchronize());
    spin<<<1, 1, 0, streams[4]>>>(SPIN_NS, nullptr, 0);
    double started = seconds_now();
    CUresult code = record(context, event);
    double took = microseconds(started);
    int during = (int)cuEventQuery(event);
    CUDA_OK(cudaDeviceSynchronize());
    answer("record behind a kernel in a non-blocking stream: code %d, %.1f us, query then %d, after "
           "the kernel %d",
           (int)code, took, during, (int)cuEventQuery(event));
}

// Questions 4 and 7.
static void costs() {
    CUdeviceptr pointer;
    void *memory;
    CUDA_OK(cudaFree(0));
    answer("cuCtxSynchronize, idle: %.2f us", mean(2000, [] { cuCtxSynchronize(); }));
    for (size_t size : SIZES) {
        int count = size > (64 << 20) ? 10 : 200;
        double allocating = 0, freeing = 0;
        for (int i = 0; i < count; i++) {
            double started = seconds_now();
            DRIVER_OK(cuMemAlloc(&pointer, size));
            allocating += microseconds(started);
            started = seconds_now();
            DRIVER_OK(cuMemFree(pointer));
            freeing += microseconds(started);
        }
        double runtime = mean(count, [&] {
            CUDA_OK(cudaMalloc(&memory, size));
            CUDA_OK(cudaFree(memory));
        });
        answer("%zu B: cuMemAlloc %.2f us, cuMemFree %.2f us, cudaMalloc + cudaFree %.2f us", size,
               allocating / count, freeing / count, runtime);
    }
}

// Questions 5 and 9.
static void captures() {
    static const struct {
        cudaStreamCaptureMode mode;
        const char *name;
    } modes[] = {{cudaStreamCaptureModeGlobal, "global"},
                 {cudaStreamCaptureModeThreadLocal, "thread-local"},
                 {cudaStreamCaptureModeRelaxed, "relaxed"}};
    static const char *const calls[] = {"cuMemAlloc", "cuMemFree", "cuMemGetInfo", "cuEventQuery",
                                        "cuCtxSynchronize"};
    CUDA_OK(cudaFree(0));
    for (auto &mode : modes) {
        for (int call = 0; call < 5; call++) {
            cudaStream_t stream;
            cudaGraph_t graph = nullptr;
            CUdeviceptr idle, fresh = 0;
            CUevent event;
            size_t available, total;
            CUresult code = CUDA_SUCCESS;
            CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            DRIVER_OK(cuMemAlloc(&idle, 1 << 20));
            DRIVER_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
            CUDA_OK(cudaStreamBeginCapture(stream, mode.mode));
            spin<<<1, 1, 0, stream>>>(1000, nullptr, 0);
            switch (call) {
            case 0:
                code = cuMemAlloc(&fresh, 1 << 20);
                break;
            case 1:
                code = cuMemFree(idle);
                break;
            case 2:
                code = cuMemGetInfo(&available, &total);
                break;
            case 3:
                code = cuEventQuery(event);
                break;
            default:
                code = cuCtxSynchronize();
                break;
            }
            cudaError_t ended = cudaStreamEndCapture(stream, &graph);
            answer("%s in a %s capture: code %d, the capture ends with %d and %s graph",
                   calls[call], mode.name, (int)code, (int)ended, graph ? "a" : "no");
            cudaGetLastError();
            cudaStreamDestroy(stream);
        }
    }
}

// Question 6.
static void ranges() {
    static const size_t sizes[] = {1, 100, 513, (1 << 20) + 1, 3 << 20};
    for (size_t size : sizes) {
        CUdeviceptr base;
        size_t attribute = 0, range = 0;
        void *block;
        CUDA_OK(cudaMalloc(&block, size));
        DRIVER_OK(cuMemGetAddressRange(&base, &range, (CUdeviceptr)block));
        DRIVER_OK(cuPointerGetAttribute(&attribute, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                        (CUdeviceptr)block));
        answer("%zu B: address range %zu B, RANGE_SIZE %zu B, address modulo 512: %zu", size, range,
               attribute, (size_t)block % 512);
        CUDA_OK(cudaMemset(block, 0xab, size));
        CUDA_OK(cudaFree(block));
        CUDA_OK(cudaMalloc(&block, size));
        std::vector<unsigned char> bytes(size);
        CUDA_OK(cudaMemcpy(bytes.data(), block, size, cudaMemcpyDeviceToHost));
        size_t other = 0;
        for (unsigned char byte : bytes) {
            other += byte != 0;
        }
        answer("%zu B: fresh after use, %zu bytes are not zero", size, other);
        CUDA_OK(cudaFree(block));
    }
}

// Question 8.
static void pages() {
    static const size_t sizes[] = {3 << 20, (6 << 20) / 5, 1 << 20, 4096};
    for (size_t size : sizes) {
        size_t before, after, total;
        void *block;
        CUDA_OK(cudaMemGetInfo(&before, &total));
        CUDA_OK(cudaMalloc(&block, size));
        CUDA_OK(cudaMemGetInfo(&after, &total));
        answer("%zu B take %zu B of cuMemGetInfo", size, before - after);
        CUDA_OK(cudaFree(block));
    }
}

__global__ static void say_hello() {
    printf("hello from the device\n");
}

__global__ static void fault() {
    *(volatile int *)8 = 1;
}

// Question 11, first part.
static void printf_flush() {
    int ends[2], out = dup(1);
    void *block;
    char text[256];
    CUDA_OK(cudaMalloc(&block, 4096));
    fflush(stdout);
    REQUIRE(out >= 0 && pipe(ends) == 0 && dup2(ends[1], 1) == 1);
    say_hello<<<1, 1>>>();
    usleep(20000); // the kernel is over long before
    CUDA_OK(cudaFree(block));
    fflush(stdout);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ssize_t got = read(ends[0], text, sizeof text);
    REQUIRE(dup2(out, 1) == 1);
    answer("a free %s device printf", got > 0 ? "flushes" : "does not flush");
}

// Question 11, second part.
static void fault_at_free() {
    void *block;
    CUDA_OK(cudaMalloc(&block, 4096));
    fault<<<1, 1>>>();
    answer("a free behind a faulting kernel returns %d", (int)cudaFree(block));
    answer("a second one %d", (int)cudaFree(block));
}

// Question 11, third part, and 12.
static void contexts() {
    int pageable = 0;
    CUcontext context, owner;
    CUdeviceptr block;
    CUDA_OK(cudaFree(0));
    CUDA_OK(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, 0));
    answer("PAGEABLE_MEMORY_ACCESS is %d", pageable);
    answer("cuCtxGetCurrent: %.1f ns", 1000 * mean(100000, [&] { cuCtxGetCurrent(&context); }));
    DRIVER_OK(cuMemAlloc(&block, 4096));
    DRIVER_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, block));
    answer("a block's context is %s the current one", owner == context ? "always" : "not");
}

// Whether a form is recognised by its address: the pool relies on either answer of the driver.
static void same_addresses() {
    static const struct {
        const char *symbol, *base;
        int version;
    } names[] = {{"cuMemAlloc_v2", "cuMemAlloc", 3020},
                 {"cuMemFree_v2", "cuMemFree", 3020},
                 {"cuMemAllocPitch_v2", "cuMemAllocPitch", 3020},
                 {"cuMemGetInfo_v2", "cuMemGetInfo", 3020},
                 {"cuMemFreeAsync", "cuMemFreeAsync", 11020},
                 {"cuCtxDestroy_v2", "cuCtxDestroy", 4000},
                 {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset", 7000},
                 {"cuStreamBeginCapture_v2", "cuStreamBeginCapture", 10010},
                 {"cuGetProcAddress_v2", "cuGetProcAddress", 12000}};
    typedef CUresult get_function(const char *, void **, int, cuuint64_t, void *);
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    get_function *get = (get_function *)dlsym(handle, "cuGetProcAddress_v2");
    REQUIRE(get);
    for (auto &name : names) {
        void *listed = nullptr, *exported = dlsym(handle, name.symbol);
        CUresult code = get(name.base, &listed, name.version, 0, nullptr);
        answer("%s: code %d, %s", name.symbol, (int)code,
               listed == exported ? "the same address as by dlsym" : "another address than by dlsym");
    }
}

static const struct {
    const char *name;
    void (*run)();
} measurements[] = {
    {"free_waits", free_waits},     {"legacy_event", legacy_event}, {"context_event", context_event},
    {"costs", costs},               {"captures", captures},         {"ranges", ranges},
    {"pages", pages},               {"printf_flush", printf_flush}, {"fault_at_free", fault_at_free},
    {"contexts", contexts},         {"same_addresses", same_addresses},
};

int main(int count, char **arguments) {
    for (auto &measurement : measurements) {
        if (count == 2 && strcmp(arguments[1], "--list") == 0) {
            printf("%s\n", measurement.name);
        } else if (count == 2 && strcmp(arguments[1], measurement.name) == 0) {
            current = measurement.name;
            if (current != "same_addresses") {
                DRIVER_OK(cuInit(0));
            }
            measurement.run();
        }
    }
    return count == 2 ? 0 : 2;
}
