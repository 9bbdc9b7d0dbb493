// Stream capture and replay, with allocations and frees before and during the capture.
// What each call returns during a capture is a result: the pool may not change it.
#include "gpu_program.cuh"

#include <thread>

enum { COUNT = 30000 };

struct buffers {
    uint32_t *in, *out;
};

static buffers allocate(uint32_t seed) {
    buffers made;
    CUDA_OK(cudaMalloc(&made.in, COUNT * sizeof *made.in));
    CUDA_OK(cudaMalloc(&made.out, COUNT * sizeof *made.out));
    fill<<<GRID, THREADS>>>(made.in, COUNT, seed);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
    return made;
}

static void release(buffers made) {
    CUDA_OK(cudaFree(made.in));
    CUDA_OK(cudaFree(made.out));
}

static void enqueue(cudaStream_t stream, buffers used) {
    transform<<<GRID, THREADS, 0, stream>>>(used.out, used.in, COUNT, 5);
    transform<<<GRID, THREADS, 0, stream>>>(used.in, used.out, COUNT, 7);
    CUDA_OK(cudaGetLastError());
}

// Replays the graph with allocations and frees in between: idle memory of the pool must never be
// memory that the graph still uses.
static uint64_t replay(cudaGraph_t graph, cudaStream_t stream, buffers used) {
    cudaGraphExec_t executable;
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t *scratch;
        CUDA_OK(cudaMalloc(&scratch, COUNT * sizeof *scratch));
        CUDA_OK(cudaMemsetAsync(scratch, 0x5a, COUNT * sizeof *scratch, stream));
        CUDA_OK(cudaGraphLaunch(executable, stream));
        CUDA_OK(cudaFree(scratch));
    }
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaGraphExecDestroy(executable));
    return hash_device(HASH_START, used.in, COUNT * sizeof *used.in);
}

static const char *name_of(cudaError_t code) {
    cudaGetLastError();
    return cudaGetErrorName(code);
}

static void plain_capture(cudaStream_t stream, cudaStreamCaptureMode mode, const char *label) {
    for (uint32_t round = 0; round < 10; round++) {
        uint32_t *freed_before;
        CUDA_OK(cudaMalloc(&freed_before, COUNT * sizeof *freed_before));
        buffers used = allocate(round);
        CUDA_OK(cudaFree(freed_before));
        CUDA_OK(cudaStreamBeginCapture(stream, mode));
        enqueue(stream, used);
        cudaGraph_t graph;
        CUDA_OK(cudaStreamEndCapture(stream, &graph));
        result("plain %s %u %016llx", label, round,
               (unsigned long long)replay(graph, stream, used));
        CUDA_OK(cudaGraphDestroy(graph));
        release(used);
    }
}

// One call during a capture, made by this thread or another one; says what it returned and what
// became of the capture.
template <typename Call>
static void call_during(cudaStream_t stream, cudaStreamCaptureMode mode, const char *mode_name,
                        const char *call_name, bool other_thread, Call call) {
    buffers used = allocate(9);
    CUDA_OK(cudaStreamBeginCapture(stream, mode));
    enqueue(stream, used);
    cudaError_t returned = cudaSuccess;
    if (other_thread) {
        std::thread([&] {
            returned = call();
            cudaGetLastError();
        }).join();
    } else {
        returned = call();
    }
    const char *code = name_of(returned);
    cudaGraph_t graph = nullptr;
    cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    const char *end = name_of(ended);
    result("during %s %s %s: %s, capture %s", mode_name, call_name,
           other_thread ? "other-thread" : "same-thread", code, end);
    if (ended == cudaSuccess && graph != nullptr) {
        result("replay %016llx", (unsigned long long)replay(graph, stream, used));
        CUDA_OK(cudaGraphDestroy(graph));
    }
    release(used);
}

static void calls_during(cudaStream_t stream, cudaStreamCaptureMode mode, const char *mode_name,
                         bool other_thread) {
    void *made = nullptr, *idle;
    call_during(stream, mode, mode_name, "malloc", other_thread,
                [&] { return cudaMalloc(&made, 4096); });
    if (made != nullptr) {
        cudaError_t code = cudaFree(made);
        REQUIRE(code == cudaSuccess);
    }
    for (size_t bytes : {(size_t)4096, (size_t)4 << 20}) {
        CUDA_OK(cudaMalloc(&idle, bytes));
        cudaError_t freed = cudaSuccess;
        call_during(stream, mode, mode_name, bytes == 4096 ? "free-small" : "free-large",
                    other_thread, [&] { return freed = cudaFree(idle); });
        if (freed != cudaSuccess) {
            result("refused free made again after the capture: %s", name_of(cudaFree(idle)));
        }
    }
}

int main() {
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    static const struct {
        cudaStreamCaptureMode mode;
        const char *name;
    } modes[] = {{cudaStreamCaptureModeGlobal, "global"},
                 {cudaStreamCaptureModeThreadLocal, "thread-local"},
                 {cudaStreamCaptureModeRelaxed, "relaxed"}};
    buffers warm = allocate(0);
    enqueue(stream, warm);
    CUDA_OK(cudaStreamSynchronize(stream));
    release(warm);
    double start = seconds_now();
    for (const auto &mode : modes) {
        plain_capture(stream, mode.mode, mode.name);
    }
    time_line("loop", seconds_now() - start);
    for (const auto &mode : modes) {
        for (bool other_thread : {false, true}) {
            calls_during(stream, mode.mode, mode.name, other_thread);
        }
    }
    // Memory allocated inside a relaxed capture and used by the graph itself.
    buffers used;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    cudaError_t in_code = cudaMalloc(&used.in, COUNT * sizeof *used.in);
    cudaError_t out_code = cudaMalloc(&used.out, COUNT * sizeof *used.out);
    result("malloc in relaxed capture: %s %s", cudaGetErrorName(in_code),
           cudaGetErrorName(out_code));
    if (in_code == cudaSuccess && out_code == cudaSuccess) {
        fill<<<GRID, THREADS, 0, stream>>>(used.in, COUNT, 77);
        enqueue(stream, used);
        cudaGraph_t graph;
        CUDA_OK(cudaStreamEndCapture(stream, &graph));
        result("replay %016llx", (unsigned long long)replay(graph, stream, used));
        CUDA_OK(cudaGraphDestroy(graph));
        release(used);
    }
    // The pool still works afterwards.
    plain_capture(stream, cudaStreamCaptureModeGlobal, "afterwards");
    CUDA_OK(cudaDeviceSynchronize());
    return 0;
}
