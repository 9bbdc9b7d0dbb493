// Questions 5 and 9: which calls are legal during a stream capture, and which end it. Of events and
// streams ../order asks.
#include "measure.h"

#include <thread>

enum { COUNT = 1024, SPIN_MS = 15 };

// What the calls act on. Everything is made anew for each trial, before the capture begins.
struct subjects {
    CUstream capturing, other;
    CUdeviceptr small, large, target;
    CUdeviceptr made; // by the call; 0 if it made nothing
    void *pinned;
};

static const struct {
    const char *name;
    CUresult (*run)(subjects &);
} calls[] = {
    {"cuMemAlloc of 4 KiB", [](subjects &s) { return cuMemAlloc(&s.made, 4096); }},
    {"cuMemAlloc of 8 MiB", [](subjects &s) { return cuMemAlloc(&s.made, 8 << 20); }},
    {"cuMemFree of 4 KiB",
     [](subjects &s) {
         CUresult code = cuMemFree(s.small);
         s.small = code == CUDA_SUCCESS ? 0 : s.small;
         return code;
     }},
    {"cuMemFree of 8 MiB",
     [](subjects &s) {
         CUresult code = cuMemFree(s.large);
         s.large = code == CUDA_SUCCESS ? 0 : s.large;
         return code;
     }},
    {"cuMemGetInfo",
     [](subjects &) {
         size_t free_bytes, total;
         return cuMemGetInfo(&free_bytes, &total);
     }},
    {"cuEventCreate",
     [](subjects &) {
         CUevent event;
         return cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
     }},
    {"cuStreamQuery of another stream", [](subjects &s) { return cuStreamQuery(s.other); }},
    {"cuStreamQuery of the legacy stream",
     [](subjects &) { return cuStreamQuery(CU_STREAM_LEGACY); }},
    {"cuStreamSynchronize of another stream",
     [](subjects &s) { return cuStreamSynchronize(s.other); }},
    {"cuCtxSynchronize", [](subjects &) { return cuCtxSynchronize(); }},
    {"cuCtxGetDevice",
     [](subjects &) {
         CUdevice device;
         return cuCtxGetDevice(&device);
     }},
    {"cuMemGetAddressRange",
     [](subjects &s) {
         CUdeviceptr base;
         size_t bytes;
         return cuMemGetAddressRange(&base, &bytes, s.large);
     }},
    {"cuPointerGetAttribute",
     [](subjects &s) {
         CUcontext context;
         return cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, s.large);
     }},
    {"cuMemHostAlloc", [](subjects &s) { return cuMemHostAlloc(&s.pinned, 4096, 0); }},
    {"cuMemcpyDtoD", [](subjects &s) { return cuMemcpyDtoD(s.large, s.target, 64); }},
};

enum caller { SAME_THREAD, SAME_RELAXED, OTHER_THREAD, OTHER_RELAXED, CALLERS };
static const char *const caller_names[CALLERS] = {"this thread", "this thread relaxed",
                                                  "another thread", "another thread relaxed"};

static subjects prepare(CUstream capturing, CUstream other) {
    subjects made = {};
    made.capturing = capturing;
    made.other = other;
    DRIVER_OK(cuMemAlloc(&made.small, 4096));
    DRIVER_OK(cuMemAlloc(&made.large, 8 << 20));
    DRIVER_OK(cuMemAlloc(&made.target, COUNT * 4));
    DRIVER_OK(cuCtxSynchronize());
    return made;
}

static void clean_up(subjects &used) {
    cudaGetLastError();
    DRIVER_OK(cuCtxSynchronize());
    for (CUdeviceptr block : {used.small, used.large, used.target, used.made}) {
        DRIVER_OK(cuMemFree(block));
    }
    if (used.pinned != nullptr) {
        DRIVER_OK(cuMemFreeHost(used.pinned));
    }
}

static CUresult run_relaxed(CUresult (*run)(subjects &), subjects &used, bool relaxed) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (relaxed) {
        DRIVER_OK(cuThreadExchangeStreamCaptureMode(&mode));
    }
    CUresult code = run(used);
    if (relaxed) {
        DRIVER_OK(cuThreadExchangeStreamCaptureMode(&mode));
    }
    return code;
}

// "0 kept" or "900 LOST": the call's code and what became of the capture.
static std::string trial(CUresult (*run)(subjects &), CUstreamCaptureMode mode, caller who,
                         CUcontext context, CUstream capturing, CUstream other) {
    subjects used = prepare(capturing, other);
    DRIVER_OK(cuStreamBeginCapture(capturing, mode));
    fill<<<1, 32, 0, capturing>>>((uint32_t *)used.target, COUNT, 1);
    CUresult code = CUDA_SUCCESS;
    if (who == OTHER_THREAD || who == OTHER_RELAXED) {
        std::thread([&] {
            cuCtxSetCurrent(context);
            code = run_relaxed(run, used, who == OTHER_RELAXED);
        }).join();
    } else {
        code = run_relaxed(run, used, who == SAME_RELAXED);
    }
    CUgraph graph = nullptr;
    CUresult ended = cuStreamEndCapture(capturing, &graph);
    size_t nodes = 0;
    if (ended == CUDA_SUCCESS && graph != nullptr) {
        cuGraphGetNodes(graph, nullptr, &nodes);
        cuGraphDestroy(graph);
    }
    clean_up(used);
    if (ended == CUDA_SUCCESS && nodes > 0) {
        return text("%d kept", (int)code);
    }
    return text("%d LOST(%d)", (int)code, (int)ended);
}

static const struct {
    CUstreamCaptureMode mode;
    const char *name;
} modes[] = {{CU_STREAM_CAPTURE_MODE_GLOBAL, "global"},
             {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "thread-local"},
             {CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed"}};

void measure_capture_calls() {
    CUcontext context = start_device();
    CUstream blocking, non_blocking, other;
    DRIVER_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    DRIVER_OK(cuStreamCreate(&non_blocking, CU_STREAM_NON_BLOCKING));
    DRIVER_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    int number = 1;
    for (const auto &call : calls) {
        for (const auto &mode : modes) {
            std::string line;
            for (int who = 0; who < CALLERS; who++) {
                std::string in_blocking =
                    trial(call.run, mode.mode, (caller)who, context, blocking, other);
                std::string in_non_blocking =
                    trial(call.run, mode.mode, (caller)who, context, non_blocking, other);
                line +=
                    text("%s%s %s", who == 0 ? "" : "; ", caller_names[who], in_blocking.c_str());
                if (in_non_blocking != in_blocking) {
                    line += text(" (non-blocking stream: %s)", in_non_blocking.c_str());
                }
            }
            std::string question = text("%s during a %s capture", call.name, mode.name);
            answer(text("5.%d", number++).c_str(), question.c_str(), "%s", line.c_str());
        }
    }
}

void measure_capture_free() {
    start_device();
    CUstream capturing, busy;
    DRIVER_OK(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
    DRIVER_OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    int number = 1;
    for (const auto &mode : modes) {
        for (bool while_busy : {false, true}) {
            subjects used = prepare(capturing, busy);
            CUevent spun = new_event();
            if (while_busy) {
                queue_spin(busy, SPIN_MS, spun);
            }
            DRIVER_OK(cuStreamBeginCapture(capturing, mode.mode));
            fill<<<1, 32, 0, capturing>>>((uint32_t *)used.target, COUNT, 5);
            // The driver ignores a thread's capture mode only if told so.
            CUstreamCaptureMode exchanged = CU_STREAM_CAPTURE_MODE_RELAXED;
            DRIVER_OK(cuThreadExchangeStreamCaptureMode(&exchanged));
            double start = now_us();
            CUresult code = cuMemFree(used.large);
            double took = now_us() - start;
            CUresult queried = while_busy ? cuEventQuery(spun) : CUDA_SUCCESS;
            DRIVER_OK(cuThreadExchangeStreamCaptureMode(&exchanged));
            used.large = code == CUDA_SUCCESS ? 0 : used.large;
            CUgraph graph = nullptr;
            CUresult ended = cuStreamEndCapture(capturing, &graph);
            std::string replay = "not replayed";
            if (ended == CUDA_SUCCESS && graph != nullptr) {
                CUgraphExec executable;
                CUresult instantiated = cuGraphInstantiate(&executable, graph, 0);
                CUresult launched = instantiated;
                if (instantiated == CUDA_SUCCESS) {
                    launched = cuGraphLaunch(executable, capturing);
                    DRIVER_OK(cuStreamSynchronize(capturing));
                    cuGraphExecDestroy(executable);
                }
                uint32_t word = 0;
                DRIVER_OK(cuMemcpyDtoH(&word, used.target + 40, 4));
                replay = launched == CUDA_SUCCESS && word == mix(5, 10) ? "replay is right"
                                                                        : "REPLAY IS WRONG";
                cuGraphDestroy(graph);
            }
            std::string question =
                text("cuMemFree of idle memory by a relaxed thread during a %s capture%s",
                     mode.name, while_busy ? ", another stream spinning" : "");
            std::string waited = !while_busy ? ""
                                 : queried == CUDA_SUCCESS
                                     ? ", waited"
                                     : ", did not wait (query " + code_name(queried) + ")";
            answer(text("9.%d", number++).c_str(), question.c_str(),
                   "%s, %.0f us%s; end of capture %s; %s", code_name(code).c_str(), took,
                   waited.c_str(), code_name(ended).c_str(), replay.c_str());
            clean_up(used);
        }
    }
}
