// Questions 1 and 10: what an allocation and a free wait for.
#include "measure.h"

static const size_t SIZES[] = {1,       256,     4096,     65536,     524288,
                               1 << 20, 2 << 20, 16 << 20, 256 << 20, (size_t)1 << 30};
enum { SPIN_MS = 15, REPETITIONS = 3 };

// Runs `call` while `kind` spins. Sets *waited to whether the spinning had ended when it returned,
// *microseconds to what it took and *code. Returns false if nothing could be launched there.
template <typename Call>
static bool while_spinning(const stream_kind &kind, CUcontext own, CUevent event, Call call,
                           bool *waited, double *microseconds, CUresult *code) {
    DRIVER_OK(cuCtxSetCurrent(kind.context));
    bool queued = queue_spin(kind.stream, SPIN_MS, event);
    DRIVER_OK(cuCtxSetCurrent(own));
    if (!queued) {
        return false;
    }
    double start = now_us();
    *code = call();
    *microseconds = now_us() - start;
    DRIVER_OK(cuCtxSetCurrent(kind.context));
    *waited = cuEventQuery(event) == CUDA_SUCCESS;
    DRIVER_OK(cuEventSynchronize(event));
    DRIVER_OK(cuCtxSynchronize());
    DRIVER_OK(cuCtxSetCurrent(own));
    return true;
}

static CUevent event_in(CUcontext context, CUcontext own) {
    DRIVER_OK(cuCtxSetCurrent(context));
    CUevent event = new_event();
    DRIVER_OK(cuCtxSetCurrent(own));
    return event;
}

static std::string summary(const std::string &label, int waited, int runs,
                           const std::vector<double> &times, CUresult code) {
    std::string line = text("%s waited %d/%d %.0f us", label.c_str(), waited, runs, median(times));
    if (code != CUDA_SUCCESS) {
        line += " " + code_name(code);
    }
    return line;
}

// One line for one kind of stream: prepare(size), then call(size) during the spinning, by size.
template <typename Prepare, typename Call, typename Cleanup>
static std::string by_size(const stream_kind &kind, CUcontext own, Prepare prepare, Call call,
                           Cleanup cleanup) {
    CUevent event = event_in(kind.context, own);
    std::string line;
    for (size_t bytes : SIZES) {
        int waits = 0;
        std::vector<double> times;
        CUresult code = CUDA_SUCCESS;
        for (int repetition = 0; repetition < REPETITIONS; repetition++) {
            prepare(bytes);
            DRIVER_OK(cuCtxSynchronize());
            bool waited;
            double microseconds;
            if (!while_spinning(
                    kind, own, event, [&] { return call(bytes); }, &waited, &microseconds, &code)) {
                return "no kernel could be launched there";
            }
            cleanup();
            waits += waited;
            times.push_back(microseconds);
        }
        line +=
            (line.empty() ? "" : "; ") + summary(size_name(bytes), waits, REPETITIONS, times, code);
    }
    return line;
}

void measure_free_waits() {
    CUcontext own = start_device(), other = another_context();
    int number = 1;
    for (const stream_kind &kind : make_streams(own, other)) {
        CUdeviceptr block = 0;
        std::string line = by_size(
            kind, own, [&](size_t bytes) { DRIVER_OK(cuMemAlloc(&block, bytes)); },
            [&](size_t) { return cuMemFree(block); }, [] {});
        std::string question = text("cuMemFree while a kernel spins %d ms, %s", SPIN_MS, kind.name);
        answer(text("1.%d", number++).c_str(), question.c_str(), "%s", line.c_str());
    }
}

void measure_alloc_waits() {
    CUcontext own = start_device(), other = another_context();
    std::vector<stream_kind> kinds = make_streams(own, other);
    int number = 1;
    for (const stream_kind &kind : kinds) {
        CUdeviceptr block = 0;
        std::string line = by_size(
            kind, own, [](size_t) {}, [&](size_t bytes) { return cuMemAlloc(&block, bytes); },
            [&] {
                if (block != 0) {
                    DRIVER_OK(cuMemFree(block));
                }
                block = 0;
            });
        std::string question =
            text("cuMemAlloc while a kernel spins %d ms, %s", SPIN_MS, kind.name);
        answer(text("10.%d", number++).c_str(), question.c_str(), "%s", line.c_str());
    }
    // Other calls that the pool makes or that stand beside a free.
    static void *pinned;
    static CUdeviceptr managed;
    struct {
        const char *name;
        void (*prepare)();
        CUresult (*call)();
        void (*cleanup)();
    } calls[] = {
        {"cuCtxSynchronize", [] {}, [] { return cuCtxSynchronize(); }, [] {}},
        {"cuMemFree(0)", [] {}, [] { return cuMemFree(0); }, [] {}},
        {"cuMemGetInfo", [] {},
         [] {
             size_t free_bytes, total;
             return cuMemGetInfo(&free_bytes, &total);
         },
         [] {}},
        {"cuMemHostAlloc", [] {}, [] { return cuMemHostAlloc(&pinned, 1 << 20, 0); },
         [] { DRIVER_OK(cuMemFreeHost(pinned)); }},
        {"cuMemFreeHost", [] { DRIVER_OK(cuMemHostAlloc(&pinned, 1 << 20, 0)); },
         [] { return cuMemFreeHost(pinned); }, [] {}},
        {"cuMemFree of managed memory",
         [] { DRIVER_OK(cuMemAllocManaged(&managed, 1 << 20, CU_MEM_ATTACH_GLOBAL)); },
         [] { return cuMemFree(managed); }, [] {}},
    };
    for (const auto &call : calls) {
        std::string line;
        for (const stream_kind &kind : kinds) {
            CUevent event = event_in(kind.context, own);
            int waits = 0;
            std::vector<double> times;
            CUresult code = CUDA_SUCCESS;
            for (int repetition = 0; repetition < REPETITIONS; repetition++) {
                call.prepare();
                bool waited;
                double microseconds;
                if (!while_spinning(kind, own, event, call.call, &waited, &microseconds, &code)) {
                    continue;
                }
                if (code == CUDA_SUCCESS) {
                    call.cleanup();
                }
                waits += waited;
                times.push_back(microseconds);
            }
            line += (line.empty() ? "" : "; ") +
                    summary(kind.name, waits, (int)times.size(), times, code);
        }
        std::string question = text("%s while a kernel spins %d ms", call.name, SPIN_MS);
        answer(text("10.%d", number++).c_str(), question.c_str(), "%s", line.c_str());
    }
}

void measure_peer_copy_and_no_context() {
    CUcontext own = start_device(), other = another_context();
    const size_t bytes = (size_t)2 << 30;
    enum { COPIES = 12 };
    CUdeviceptr from, to, idle;
    CUstream stream;
    DRIVER_OK(cuMemAlloc(&from, bytes));
    DRIVER_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUevent event = new_event();
    // Copies between two contexts of the one device; a free in the context that only receives.
    DRIVER_OK(cuCtxSetCurrent(other));
    DRIVER_OK(cuMemAlloc(&to, bytes));
    for (size_t size : {(size_t)4096, (size_t)8 << 20}) {
        int waits = 0, pending = 0;
        std::vector<double> times;
        for (int repetition = 0; repetition < REPETITIONS; repetition++) {
            DRIVER_OK(cuMemAlloc(&idle, size));
            DRIVER_OK(cuCtxSynchronize());
            DRIVER_OK(cuCtxSetCurrent(own));
            for (int copy = 0; copy < COPIES; copy++) {
                DRIVER_OK(cuMemcpyPeerAsync(to, other, from, own, bytes, stream));
            }
            DRIVER_OK(cuEventRecord(event, stream));
            pending += cuEventQuery(event) == CUDA_ERROR_NOT_READY;
            DRIVER_OK(cuCtxSetCurrent(other));
            double start = now_us();
            DRIVER_OK(cuMemFree(idle));
            times.push_back(now_us() - start);
            DRIVER_OK(cuCtxSetCurrent(own));
            waits += cuEventQuery(event) == CUDA_SUCCESS;
            DRIVER_OK(cuEventSynchronize(event));
            DRIVER_OK(cuCtxSetCurrent(other));
        }
        std::string id = text("10.%d", size == 4096 ? 20 : 21);
        std::string question =
            text("free of %s in the context that a pending cuMemcpyPeerAsync of another "
                 "context writes to",
                 size_name(size).c_str());
        answer(id.c_str(), question.c_str(), "copy pending before %d/%d, waited %d/%d, %.0f us",
               pending, REPETITIONS, waits, REPETITIONS, median(times));
    }
    DRIVER_OK(cuMemFree(to));
    DRIVER_OK(cuCtxSetCurrent(own));
    DRIVER_OK(cuMemFree(from));

    // Without a current context; the second free says whether the first one took effect.
    CUdeviceptr block;
    DRIVER_OK(cuMemAlloc(&block, 1 << 20));
    DRIVER_OK(cuCtxSetCurrent(nullptr));
    CUresult none = cuMemFree(block);
    DRIVER_OK(cuCtxSetCurrent(own));
    CUresult again = cuMemFree(block);
    answer("10.22", "free with no current context", "%s; once more with its context current: %s",
           code_name(none).c_str(), code_name(again).c_str());

    DRIVER_OK(cuMemAlloc(&block, 1 << 20));
    DRIVER_OK(cuCtxSetCurrent(other));
    CUresult foreign = cuMemFree(block);
    DRIVER_OK(cuCtxSetCurrent(own));
    again = cuMemFree(block);
    answer("10.23", "free with another context current",
           "%s; once more with its context current: %s", code_name(foreign).c_str(),
           code_name(again).c_str());

    // Whose work does such a free wait for: that of the block's context or of the current one?
    for (int variant = 0; variant < 2; variant++) {
        CUcontext spins = variant == 0 ? own : other;
        DRIVER_OK(cuMemAlloc(&block, 1 << 20));
        DRIVER_OK(cuCtxSetCurrent(spins));
        CUevent done = new_event();
        CUstream busy;
        DRIVER_OK(cuStreamCreate(&busy, CU_STREAM_DEFAULT));
        bool queued = queue_spin(busy, SPIN_MS, done);
        DRIVER_OK(cuCtxSetCurrent(other));
        double start = now_us();
        CUresult code = cuMemFree(block);
        double took = now_us() - start;
        DRIVER_OK(cuCtxSetCurrent(spins));
        bool waited = cuEventQuery(done) == CUDA_SUCCESS;
        DRIVER_OK(cuCtxSynchronize());
        DRIVER_OK(cuCtxSetCurrent(own));
        cuMemFree(block); // only if the first one was refused
        answer(variant == 0 ? "10.24" : "10.25",
               variant == 0 ? "free with another context current, the block's context spinning"
                            : "free with another context current, that other one spinning",
               "%s, %s, %.0f us%s", code_name(code).c_str(), waited ? "waited" : "did not wait",
               took, queued ? "" : " (nothing could be launched)");
    }
}
