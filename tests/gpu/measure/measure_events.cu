// Questions 2 and 3: what events in the legacy stream and of a whole context cover, delay and cost.
#include "measure.h"

enum { SPIN_MS = 20, CALLS = 5000 };

// Records what the event of a fence covers and delays: `kind` spins, record() makes the fence, then
// a short kernel goes to `later`.
struct fence_effect {
    CUresult code;
    bool covered; // the fence was reached only after the spinning
    bool delayed; // the later kernel ran only after the spinning
    double record_us;
};

template <typename Record>
static fence_effect fence(const stream_kind &kind, CUcontext own, CUstream later, Record record) {
    DRIVER_OK(cuCtxSetCurrent(kind.context));
    CUevent spun = new_event();
    queue_spin(kind.stream, SPIN_MS, spun);
    DRIVER_OK(cuCtxSetCurrent(own));
    CUevent fence = new_event(), after = new_event();
    fence_effect effect = {};
    double start = now_us();
    effect.code = record(fence);
    effect.record_us = now_us() - start;
    queue_spin(later, 0, after);
    DRIVER_OK(cuEventSynchronize(after));
    DRIVER_OK(cuCtxSetCurrent(kind.context));
    effect.delayed = cuEventQuery(spun) == CUDA_SUCCESS;
    DRIVER_OK(cuCtxSetCurrent(own));
    if (effect.code == CUDA_SUCCESS) {
        DRIVER_OK(cuEventSynchronize(fence));
        DRIVER_OK(cuCtxSetCurrent(kind.context));
        effect.covered = cuEventQuery(spun) == CUDA_SUCCESS;
    }
    DRIVER_OK(cuCtxSetCurrent(kind.context));
    DRIVER_OK(cuCtxSynchronize());
    DRIVER_OK(cuEventDestroy(spun));
    DRIVER_OK(cuCtxSetCurrent(own));
    DRIVER_OK(cuCtxSynchronize());
    DRIVER_OK(cuEventDestroy(fence));
    DRIVER_OK(cuEventDestroy(after));
    return effect;
}

// One answer per kind of earlier stream, saying for a blocking and a non-blocking later stream
// whether it was delayed. Without the fence (control) nothing but the legacy stream may delay.
template <typename Record>
static void fence_table(const char *major, const char *what, CUcontext own, CUcontext other,
                        Record record) {
    std::vector<stream_kind> kinds = make_streams(own, other);
    CUstream later_blocking, later_non_blocking;
    DRIVER_OK(cuStreamCreate(&later_blocking, CU_STREAM_DEFAULT));
    DRIVER_OK(cuStreamCreate(&later_non_blocking, CU_STREAM_NON_BLOCKING));
    int number = 1;
    for (const stream_kind &kind : kinds) {
        auto nothing = [](CUevent) { return CUDA_ERROR_NOT_READY; };
        fence_effect control = fence(kind, own, later_blocking, nothing);
        fence_effect blocking = fence(kind, own, later_blocking, record);
        fence_effect non_blocking = fence(kind, own, later_non_blocking, record);
        std::string question = text("%s while a kernel spins in the %s", what, kind.name);
        answer(text("%s.%d", major, number++).c_str(), question.c_str(),
               "%s; covers it: %s; delays a later blocking stream: %s (without the event: %s), a "
               "later non-blocking stream: %s; call took %.1f us",
               code_name(blocking.code).c_str(), blocking.covered ? "yes" : "no",
               blocking.delayed ? "yes" : "no", control.delayed ? "yes" : "no",
               non_blocking.delayed ? "yes" : "no", blocking.record_us);
    }
}

void measure_legacy_event() {
    CUcontext own = start_device(), other = another_context();
    fence_table("2", "cuEventRecord in the legacy stream", own, other,
                [](CUevent event) { return cuEventRecord(event, CU_STREAM_LEGACY); });
}

template <typename Call> static double cost_us(Call call) {
    std::vector<double> times;
    for (int series = 0; series < 5; series++) {
        double start = now_us();
        for (int i = 0; i < CALLS / 5; i++) {
            DRIVER_OK(call());
        }
        times.push_back((now_us() - start) / (CALLS / 5));
    }
    return median(times);
}

void measure_context_event() {
    CUcontext own = start_device(), other = another_context();
    auto *record = (ctx_record_event_function *)driver_symbol("cuCtxRecordEvent");
    CUevent event = new_event(), timed;
    DRIVER_OK(cuEventCreate(&timed, CU_EVENT_DEFAULT));
    CUstream stream;
    DRIVER_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    double legacy = cost_us([&] { return cuEventRecord(event, CU_STREAM_LEGACY); });
    double own_stream = cost_us([&] { return cuEventRecord(event, stream); });
    double with_timing = cost_us([&] { return cuEventRecord(timed, stream); });
    DRIVER_OK(cuCtxSynchronize());
    double query = cost_us([&] { return cuEventQuery(event); });
    answer("3.20", "cost of an event when idle",
           "record in the legacy stream %.2f us, in a non-blocking stream %.2f us, there with "
           "timing %.2f us, query of a finished event %.2f us",
           legacy, own_stream, with_timing, query);
    if (record == nullptr) {
        answer("3.1", "cuCtxRecordEvent", "the driver has none");
        return;
    }
    fence_table("3", "cuCtxRecordEvent", own, other,
                [=](CUevent fence) { return record(own, fence); });
    CUresult code = record(own, event);
    if (code != CUDA_SUCCESS) {
        answer("3.21", "cost of cuCtxRecordEvent", "%s", code_name(code).c_str());
        return;
    }
    std::string line;
    std::vector<CUstream> streams;
    for (size_t wanted : {(size_t)0, (size_t)8, (size_t)64}) {
        while (streams.size() < wanted) {
            CUstream more;
            DRIVER_OK(cuStreamCreate(&more, CU_STREAM_NON_BLOCKING));
            queue_spin(more, 0, nullptr);
            streams.push_back(more);
        }
        DRIVER_OK(cuCtxSynchronize());
        double us = cost_us([&] { return record(own, event); });
        line += text("%s%zu more streams: %.2f us", line.empty() ? "" : "; ", wanted, us);
    }
    answer("3.21", "cost of cuCtxRecordEvent when idle", "%s", line.c_str());
}
