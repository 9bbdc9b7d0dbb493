#include "interpose/call_order.h"

/* The attributes that change nothing but how the kernel itself runs. */
static bool is_plain_launch(const CUlaunchConfig *config) {
    for (unsigned i = 0; i < config->numAttrs; i++)
        switch (config->attrs[i].id) {
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            break;
        default:
            return false;
        }
    return true;
}

CUstream call_stream(const struct stub_frame *frame, const struct entry *entry) {
    unsigned position = entry->stream & STREAM_POSITION;
    const CUlaunchConfig *config;
    CUstream stream = NULL;
    switch (entry->stream & STREAM_SORT) {
    case STREAM_DEFAULT:
        break;
    case STREAM_ARGUMENT:
        stream = (CUstream)(uintptr_t)stub_argument(frame, position);
        break;
    case STREAM_INSIDE:
        config = (const CUlaunchConfig *)(uintptr_t)stub_argument(frame, position);
        if (!config) /* the driver says so */
            return NULL;
        stream = config->hStream;
        break;
    default:
        return NULL;
    }
    if (stream)
        return stream;
    return entry_is_per_thread(entry) ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* Whether the order of streams may not hold what the call does. */
static bool is_loose(const struct stub_frame *frame, const struct entry *entry) {
    if ((entry->stream & STREAM_SORT) != STREAM_INSIDE || !entry_submits(entry))
        return false;
    unsigned position = entry->stream & STREAM_POSITION;
    const CUlaunchConfig *config =
        (const CUlaunchConfig *)(uintptr_t)stub_argument(frame, position);
    return !config || !is_plain_launch(config);
}

enum reached call_reaches(const struct entry *entry) {
    static const unsigned char reached[UINT8_MAX] = {
        [WORK_set] = REACHES_FIRST,        [WORK_copy] = REACHES_FIRST_TWO,
        [WORK_device] = REACHES_FIRST_TWO, [WORK_copies] = REACHES_UNKNOWN,
        [WORK_graph] = REACHES_UNKNOWN,    [WORK_unpack] = REACHES_UNKNOWN,
    };
    return (enum reached)reached[entry->work];
}

/* Where the call may reach memory of another context. Copies and memsets between linear addresses
 * have them in front, others in structs. */
static void reach(struct pool *pool, const struct stub_frame *frame, const struct entry *entry,
                  const char *name, CUstream stream) {
    const CUdeviceptr pointers[] = {stub_argument(frame, 0), stub_argument(frame, 1)};
    enum reached reached = call_reaches(entry);
    if (reached == REACHES_NONE)
        return;
    bool crosses =
        pool_reaches(pool, stream, pointers, reached == REACHES_UNKNOWN ? 0 : (size_t)reached,
                     reached != REACHES_UNKNOWN, name);
    thread_marks.crossing = crosses ? stream : NULL;
}

void call_crossed(struct pool *pool) {
    CUstream stream = thread_marks.crossing;
    thread_marks.crossing = NULL;
    if (stream)
        pool_crossed(pool, stream);
}

void call_order(struct pool *pool, const struct stub_frame *frame, const struct entry *entry,
                const char *name) {
    CUstream stream = entry_submits(entry) ? call_stream(frame, entry) : NULL;
    if (stream)
        pool_submits(pool, stream, name);
    else if (entry_submits(entry))
        pool_submits_somewhere(pool, name);
    if (entry_submits(entry))
        reach(pool, frame, entry, name, stream ? stream : CU_STREAM_LEGACY);
    if (entry_marks(entry))
        pool_records(pool, call_stream(frame, entry), name);
    if (entry->sync == SYNC_stream && entry->stream)
        pool_waits_for_stream(pool, call_stream(frame, entry), name);
    else if ((entry_pays(entry) && !frame->waits.context) || is_loose(frame, entry))
        pool_pay(pool, name);
}
