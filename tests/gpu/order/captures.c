/* Which calls that the pool makes, or would like to make, leave another stream's capture alone. */
#include "probes.h"

#include <pthread.h>

/* Made anew for each trial, before its capture begins. `past` has been reached; `coming` stands
 * behind work of `other`, if there is any. */
struct subjects {
    const struct start *start;
    CUstream capturing, other;
    CUevent past, coming;
    CUdeviceptr target;
};

typedef CUresult record_context(CUcontext, CUevent);

static CUresult get_context(const struct subjects *subjects) {
    CUcontext context = NULL;
    CUresult code = cuStreamGetCtx(subjects->capturing, &context);
    return code == CUDA_SUCCESS && context != subjects->start->context ? CUDA_ERROR_UNKNOWN : code;
}

static CUresult is_capturing(CUstream stream) {
    CUstreamCaptureStatus status;
    return cuStreamIsCapturing(stream, &status);
}

static CUresult captured_is_capturing(const struct subjects *subjects) {
    return is_capturing(subjects->capturing);
}

static CUresult other_is_capturing(const struct subjects *subjects) {
    return is_capturing(subjects->other);
}

static CUresult legacy_is_capturing(const struct subjects *subjects) {
    (void)subjects;
    return is_capturing(CU_STREAM_LEGACY);
}

static CUresult query_past(const struct subjects *subjects) {
    return cuEventQuery(subjects->past);
}

static CUresult synchronize_past(const struct subjects *subjects) {
    return cuEventSynchronize(subjects->past);
}

static CUresult query_coming(const struct subjects *subjects) {
    return cuEventQuery(subjects->coming);
}

static CUresult synchronize_coming(const struct subjects *subjects) {
    return cuEventSynchronize(subjects->coming);
}

static CUresult record_in_legacy(const struct subjects *subjects) {
    return cuEventRecord(subjects->past, CU_STREAM_LEGACY);
}

static CUresult record_in_other(const struct subjects *subjects) {
    return cuEventRecord(subjects->past, subjects->other);
}

static CUresult wait_in_other(const struct subjects *subjects) {
    return cuStreamWaitEvent(subjects->other, subjects->past, 0);
}

static CUresult record_all(const struct subjects *subjects) {
    record_context *record;
    *(void **)&record = driver_symbol("cuCtxRecordEvent");
    return record ? record(subjects->start->context, subjects->past) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult get_current(const struct subjects *subjects) {
    CUcontext context = NULL;
    CUresult code = cuCtxGetCurrent(&context);
    return code == CUDA_SUCCESS && context != subjects->start->context ? CUDA_ERROR_UNKNOWN : code;
}

static const struct call {
    const char *name;
    CUresult (*run)(const struct subjects *subjects);
    bool busy; /* the other stream works meanwhile */
} calls[] = {
    {"cuStreamGetCtx of the captured stream", get_context, false},
    {"cuStreamIsCapturing of the captured stream", captured_is_capturing, false},
    {"cuStreamIsCapturing of another stream", other_is_capturing, false},
    {"cuStreamIsCapturing of the legacy stream", legacy_is_capturing, false},
    {"cuEventQuery of an event that was reached", query_past, false},
    {"cuEventSynchronize with an event that was reached", synchronize_past, false},
    {"cuEventQuery of an event behind running work", query_coming, true},
    {"cuEventSynchronize with an event behind running work", synchronize_coming, true},
    {"cuEventRecord in the legacy stream", record_in_legacy, false},
    {"cuEventRecord in another stream", record_in_other, false},
    {"cuStreamWaitEvent in another stream", wait_in_other, false},
    {"cuCtxRecordEvent", record_all, false},
    {"cuCtxGetCurrent", get_current, false},
};

/* Who makes the call, and whether cuThreadExchangeStreamCaptureMode(relaxed) is around it. */
static const struct caller {
    const char *name;
    bool other_thread, relaxed;
} callers[] = {{"this thread", false, false},
               {"this thread relaxed", false, true},
               {"another thread", true, false},
               {"another thread relaxed", true, true}};

static const struct {
    CUstreamCaptureMode mode;
    const char *name;
} modes[] = {{CU_STREAM_CAPTURE_MODE_GLOBAL, "global"},
             {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "thread-local"},
             {CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed"}};

struct making {
    const struct call *call;
    const struct caller *caller;
    const struct subjects *subjects;
    CUresult code;
};

static void *make_call(void *data) {
    struct making *making = data;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (making->caller->other_thread)
        CHECK(cuCtxSetCurrent(making->subjects->start->context));
    if (making->caller->relaxed)
        CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    making->code = making->call->run(making->subjects);
    if (making->caller->relaxed)
        CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    return NULL;
}

static CUresult called(const struct call *call, const struct caller *caller,
                       const struct subjects *subjects) {
    struct making making = {call, caller, subjects, CUDA_SUCCESS};
    pthread_t thread;
    if (caller->other_thread) {
        REQUIRE(pthread_create(&thread, NULL, make_call, &making) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    } else {
        make_call(&making);
    }
    return making.code;
}

struct outcome {
    CUresult code, ended;
    size_t nodes;
};

static struct outcome try_call(const struct call *call, const struct caller *caller,
                               CUstreamCaptureMode mode, struct subjects subjects) {
    struct outcome outcome = {CUDA_SUCCESS, CUDA_SUCCESS, 0};
    CUgraph graph = NULL;
    subjects.past = new_event();
    subjects.coming = new_event();
    CHECK(cuEventRecord(subjects.past, subjects.other));
    CHECK(cuCtxSynchronize());
    if (call->busy)
        keep_busy(subjects.start, subjects.other);
    CHECK(cuEventRecord(subjects.coming, subjects.other));
    CHECK(cuStreamBeginCapture_v2(subjects.capturing, mode));
    fill(subjects.start, subjects.target, subjects.capturing);
    outcome.code = called(call, caller, &subjects);
    outcome.ended = cuStreamEndCapture(subjects.capturing, &graph);
    if (outcome.ended == CUDA_SUCCESS && graph != NULL) {
        CHECK(cuGraphGetNodes(graph, NULL, &outcome.nodes));
        CHECK(cuGraphDestroy(graph));
    }
    CHECK(cuCtxSynchronize());
    CHECK(cuEventDestroy_v2(subjects.past));
    CHECK(cuEventDestroy_v2(subjects.coming));
    return outcome;
}

/* "0 kept", "900 LOST (901)": the call's code and what became of the capture. */
static int put_outcome(char *to, size_t room, const struct outcome *outcome) {
    if (outcome->ended == CUDA_SUCCESS && outcome->nodes == 1)
        return snprintf(to, room, "%d kept", (int)outcome->code);
    return snprintf(to, room, "%d LOST (%d, %zu nodes)", (int)outcome->code, (int)outcome->ended,
                    outcome->nodes);
}

static void try_callers(const char *id, const struct call *call, size_t mode,
                        const struct subjects *blocking, const struct subjects *non_blocking) {
    char line[1024], question[256];
    int used = 0;
    for (size_t who = 0; who < sizeof callers / sizeof callers[0]; who++) {
        struct outcome in_blocking = try_call(call, &callers[who], modes[mode].mode, *blocking);
        struct outcome in_non_blocking =
            try_call(call, &callers[who], modes[mode].mode, *non_blocking);
        used += snprintf(line + used, sizeof line - (size_t)used, "%s%s: ", who ? "; " : "",
                         callers[who].name);
        used += put_outcome(line + used, sizeof line - (size_t)used, &in_blocking);
        used += snprintf(line + used, sizeof line - (size_t)used, ", non-blocking stream ");
        used += put_outcome(line + used, sizeof line - (size_t)used, &in_non_blocking);
    }
    snprintf(question, sizeof question, "%s during a %s capture", call->name, modes[mode].name);
    answer(id, question, "%s", line);
}

void probe_capture_calls(void) {
    struct start start = start_device();
    CUdeviceptr target = allocate(BYTES);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    struct subjects blocking = {&start, new_stream(CU_STREAM_DEFAULT), other, NULL, NULL, target};
    struct subjects non_blocking = blocking;
    non_blocking.capturing = new_stream(CU_STREAM_NON_BLOCKING);
    int number = 1;
    for (size_t call = 0; call < sizeof calls / sizeof calls[0]; call++) {
        for (size_t mode = 0; mode < sizeof modes / sizeof modes[0]; mode++) {
            char id[16];
            snprintf(id, sizeof id, "15.%d", number++);
            try_callers(id, &calls[call], mode, &blocking, &non_blocking);
        }
    }
}
