// Questions 4, 7 and 12: what calls cost on an idle device, and which context is current.
#include "measure.h"

#include <thread>

static const size_t SIZES[] = {256,     4096,    65536,    524288,    1 << 20,
                               2 << 20, 3 << 20, 16 << 20, 256 << 20, (size_t)1 << 30};

static int repetitions(size_t bytes) {
    return bytes <= (1 << 20) ? 300 : bytes <= (64 << 20) ? 100 : 15;
}

struct pair_cost {
    double alloc_us, free_us;
};

template <typename Alloc, typename Free>
static pair_cost pair(size_t bytes, Alloc allocate, Free release) {
    std::vector<double> allocs, frees;
    for (int i = 0; i < repetitions(bytes); i++) {
        double start = now_us();
        allocate(bytes);
        double allocated = now_us();
        release();
        frees.push_back(now_us() - allocated);
        allocs.push_back(allocated - start);
    }
    return {median(allocs), median(frees)};
}

template <typename Call> static double single_us(int calls, Call call) {
    std::vector<double> times;
    for (int i = 0; i < calls; i++) {
        double start = now_us();
        call();
        times.push_back(now_us() - start);
    }
    return median(times);
}

void measure_idle_costs() {
    start_device();
    double clock = single_us(2000, [] {});
    double sync = single_us(2000, [] { DRIVER_OK(cuCtxSynchronize()); });
    answer("4.1", "cuCtxSynchronize of an idle context", "%.2f us (reading the clock: %.2f us)",
           sync, clock);
    int number = 2;
    for (size_t bytes : SIZES) {
        CUdeviceptr block, neighbour;
        auto allocate = [&](size_t size) { DRIVER_OK(cuMemAlloc(&block, size)); };
        auto release = [&] { DRIVER_OK(cuMemFree(block)); };
        pair_cost alone = pair(bytes, allocate, release);
        DRIVER_OK(cuMemAlloc(&neighbour, bytes));
        pair_cost beside = pair(bytes, allocate, release);
        DRIVER_OK(cuMemFree(neighbour));
        std::string question = text("cuMemAlloc, cuMemFree of %s, idle", size_name(bytes).c_str());
        answer(text("4.%d", number++).c_str(), question.c_str(),
               "%.1f us, %.1f us; with another such block live %.1f us, %.1f us; a wait instead of "
               "the pair saves %.1f us",
               alone.alloc_us, alone.free_us, beside.alloc_us, beside.free_us,
               alone.alloc_us + alone.free_us - sync);
    }
    double launch_sync = single_us(1000, [] {
        spin<<<1, 1>>>(0, nullptr, 0);
        DRIVER_OK(cuCtxSynchronize());
    });
    std::string line;
    for (size_t bytes : {(size_t)4096, (size_t)1 << 20, (size_t)16 << 20}) {
        std::vector<double> times;
        for (int i = 0; i < 200; i++) {
            CUdeviceptr block;
            DRIVER_OK(cuMemAlloc(&block, bytes));
            double start = now_us();
            spin<<<1, 1>>>(0, nullptr, 0);
            DRIVER_OK(cuMemFree(block));
            times.push_back(now_us() - start);
        }
        line += text("; %s %.1f us", size_name(bytes).c_str(), median(times));
    }
    answer("4.20", "launch of an empty kernel, then cuCtxSynchronize; then cuMemFree of",
           "%.1f us%s", launch_sync, line.c_str());
    double info = single_us(1000, [] {
        size_t free_bytes, total;
        DRIVER_OK(cuMemGetInfo(&free_bytes, &total));
    });
    answer("4.21", "cuMemGetInfo", "%.2f us", info);
    // Does a pair cost more when many blocks live?
    std::vector<CUdeviceptr> many(20000);
    for (CUdeviceptr &block : many) {
        DRIVER_OK(cuMemAlloc(&block, 65536));
    }
    CUdeviceptr block;
    pair_cost crowded = pair(
        1 << 20, [&](size_t size) { DRIVER_OK(cuMemAlloc(&block, size)); },
        [&] { DRIVER_OK(cuMemFree(block)); });
    answer("4.22", "cuMemAlloc, cuMemFree of 1 MiB with 20000 blocks live", "%.1f us, %.1f us",
           crowded.alloc_us, crowded.free_us);
}

void measure_runtime_costs() {
    start_device();
    int number = 1;
    for (size_t bytes : {(size_t)256, (size_t)65536, (size_t)1 << 20, (size_t)16 << 20}) {
        CUdeviceptr block;
        void *pointer;
        auto allocate = [&](size_t size) { DRIVER_OK(cuMemAlloc(&block, size)); };
        auto release = [&] { DRIVER_OK(cuMemFree(block)); };
        auto runtime_allocate = [&](size_t size) { CUDA_OK(cudaMalloc(&pointer, size)); };
        auto runtime_release = [&] { CUDA_OK(cudaFree(pointer)); };
        // In turns, so that drift hits both alike; a live neighbour keeps the pages mapped.
        CUdeviceptr neighbour;
        DRIVER_OK(cuMemAlloc(&neighbour, bytes));
        std::vector<double> malloc_extra, free_extra;
        for (int turn = 0; turn < 7; turn++) {
            pair_cost driver = pair(bytes, allocate, release);
            pair_cost runtime = pair(bytes, runtime_allocate, runtime_release);
            malloc_extra.push_back(runtime.alloc_us - driver.alloc_us);
            free_extra.push_back(runtime.free_us - driver.free_us);
        }
        DRIVER_OK(cuMemFree(neighbour));
        std::string question =
            text("runtime's share of cudaMalloc, cudaFree of %s", size_name(bytes).c_str());
        answer(text("7.%d", number++).c_str(), question.c_str(), "%.2f us, %.2f us",
               median(malloc_extra), median(free_extra));
    }
    double nothing = single_us(5000, [] { CUDA_OK(cudaFree(nullptr)); });
    double driver_nothing = single_us(5000, [] { DRIVER_OK(cuMemFree(0)); });
    answer("7.10", "cudaFree(0), cuMemFree(0)", "%.2f us, %.2f us", nothing, driver_nothing);
}

// The context that the driver ties to a new block, against the current one.
static std::string owner(CUcontext before) {
    CUdeviceptr block;
    CUresult code = cuMemAlloc(&block, 4096);
    if (code != CUDA_SUCCESS) {
        return "cuMemAlloc gives " + code_name(code);
    }
    CUcontext owner = nullptr, after = nullptr;
    code = cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, block);
    cuCtxGetCurrent(&after);
    std::string line = code != CUDA_SUCCESS ? "owner unknown: " + code_name(code)
                       : owner == before    ? std::string("owner is the current context")
                                            : std::string("OWNER DIFFERS from the current context");
    if (after != before) {
        line += ", current context CHANGED";
    }
    cuMemFree(block);
    return line;
}

void measure_current_context() {
    CUcontext own = start_device();
    CUcontext current;
    std::vector<double> times;
    for (int series = 0; series < 5; series++) {
        double start = now_us();
        for (int i = 0; i < 100000; i++) {
            DRIVER_OK(cuCtxGetCurrent(&current));
        }
        times.push_back((now_us() - start) / 100000 * 1000);
    }
    answer("12.1", "cost of cuCtxGetCurrent", "%.1f ns", median(times));
    answer("12.2", "block allocated in the primary context", "%s", owner(own).c_str());
    CUcontext other = another_context();
    DRIVER_OK(cuCtxSetCurrent(other));
    answer("12.3", "in a created context", "%s", owner(other).c_str());
    void *pointer;
    CUcontext of_runtime = nullptr;
    CUDA_OK(cudaMalloc(&pointer, 4096));
    DRIVER_OK(
        cuPointerGetAttribute(&of_runtime, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)pointer));
    answer("12.4", "cudaMalloc with a created context current", "owner is %s",
           of_runtime == other ? "the current context"
           : of_runtime == own ? "THE PRIMARY CONTEXT"
                               : "SOME OTHER CONTEXT");
    CUDA_OK(cudaFree(pointer));
    DRIVER_OK(cuCtxSetCurrent(own));
    std::thread([&] {
        CUcontext fresh = (CUcontext)1;
        cuCtxGetCurrent(&fresh);
        CUdeviceptr block = 0;
        CUresult code = cuMemAlloc(&block, 4096);
        CUcontext after = nullptr;
        cudaError_t runtime = cudaMalloc(&pointer, 4096);
        cuCtxGetCurrent(&after);
        CUcontext owner_of = nullptr;
        cuPointerGetAttribute(&owner_of, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)pointer);
        answer("12.5", "in a new thread",
               "current context %s; cuMemAlloc %s; cudaMalloc %s, after it the current context is "
               "%s and the owner is %s",
               fresh == nullptr ? "none" : "set", code_name(code).c_str(),
               cudaGetErrorName(runtime), after == own ? "the primary one" : "another",
               owner_of == own ? "the primary one" : "another");
        cudaFree(pointer);
    }).join();
#if CUDA_VERSION >= 12040
    // A green context: its blocks may belong to the primary context behind it.
    CUdevice device;
    CUdevResource all = {}, part = {}, rest = {};
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUcontext green_context;
    unsigned groups = 1;
    DRIVER_OK(cuDeviceGet(&device, 0));
    CUresult code = cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM);
    if (code == CUDA_SUCCESS) {
        code = cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, 8);
    }
    if (code == CUDA_SUCCESS) {
        code = cuDevResourceGenerateDesc(&description, &part, 1);
    }
    if (code == CUDA_SUCCESS) {
        code = cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM);
    }
    if (code == CUDA_SUCCESS) {
        code = cuCtxFromGreenCtx(&green_context, green);
    }
    if (code == CUDA_SUCCESS) {
        code = cuCtxSetCurrent(green_context);
    }
    if (code != CUDA_SUCCESS) {
        answer("12.6", "in a green context", "none could be made: %s", code_name(code).c_str());
        return;
    }
    answer("12.6", "in a green context", "%s; it is %s", owner(green_context).c_str(),
           green_context == own ? "the primary context" : "another handle than the primary one");
    CUdeviceptr block;
    DRIVER_OK(cuMemAlloc(&block, 1 << 20));
    DRIVER_OK(cuCtxSetCurrent(own));
    CUevent done = new_event();
    CUstream stream;
    DRIVER_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    queue_spin(stream, 15, done);
    DRIVER_OK(cuCtxSetCurrent(green_context));
    double start = now_us();
    CUresult synchronised = cuCtxSynchronize();
    double took = now_us() - start;
    DRIVER_OK(cuCtxSetCurrent(own));
    bool waited = cuEventQuery(done) == CUDA_SUCCESS;
    DRIVER_OK(cuCtxSynchronize());
    answer("12.7", "cuCtxSynchronize in the green context while the primary one spins 15 ms",
           "%s, %s, %.0f us", code_name(synchronised).c_str(), waited ? "waited" : "did not wait",
           took);
    queue_spin(stream, 15, done);
    DRIVER_OK(cuCtxSetCurrent(green_context));
    start = now_us();
    code = cuMemFree(block);
    took = now_us() - start;
    DRIVER_OK(cuCtxSetCurrent(own));
    waited = cuEventQuery(done) == CUDA_SUCCESS;
    DRIVER_OK(cuCtxSynchronize());
    answer("12.8", "cuMemFree of a green context's block while the primary one spins 15 ms",
           "%s, %s, %.0f us", code_name(code).c_str(), waited ? "waited" : "did not wait", took);
#endif
}
