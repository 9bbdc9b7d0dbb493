/* What is done before and after the driver's functions that have no hook of their own. The stubs of
 * stubs.S call in here unless there is nothing to do.
 *
 * Nothing here looks at the functions' signatures but for the few arguments that decide: a stream's
 * handle and flags, the stream that work goes to, the address of a module's variable. */
#include "interpose/stubs.h"

#include "interpose/caller.h"
#include "interpose/checked.h"
#include "interpose/hooks.h"
#include "interpose/loader.h"
#include "interpose/managed_calls.h"
#include "interpose/state.h"
#include "site_tag.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

enum class {
    QUERY,
    HOOKED,
    EXPORT_TABLE,
    PAYS,
    WAITS,
    PENDING,
    ALLOCATES,
    LAUNCH,
    LEGACY_WORK,
    PER_THREAD,
    STREAM_CREATED,
    STREAM_DESTROYED,
    HOST_ALLOCATED,
    HOST_REGISTERED,
    HOST_UNREGISTERED,
    MANAGED,
    MANAGED_STATE,
    IMPORTED,
    EXPORTED,
    PEER,
    MEMORY_POOL_CREATED,
    MEMORY_POOL_DESTROYED,
    CONTEXT_CREATED,
    GLOBAL,
};

enum {
#define ENTRY_POINT(symbol, class) NUMBER_##symbol,
#include "interpose/entry_points.def"
#undef ENTRY_POINT
    KNOWN,
    SPARES = 1024, /* as in stubs.S */
    STUB_SIZE = 16,
};

static const uint8_t known_classes[KNOWN] = {
#define ENTRY_POINT(symbol, class) class,
#include "interpose/entry_points.def"
#undef ENTRY_POINT
};

/* One string after the other and where each begins: pointers would have to be relocated at the
 * start of every process. */
static const struct {
#define ENTRY_POINT(symbol, class) char symbol[sizeof #symbol];
#include "interpose/entry_points.def"
#undef ENTRY_POINT
} known_names = {
#define ENTRY_POINT(symbol, class) #symbol,
#include "interpose/entry_points.def"
#undef ENTRY_POINT
};
static const uint16_t name_offsets[KNOWN] = {
#define ENTRY_POINT(symbol, class) offsetof(__typeof__(known_names), symbol),
#include "interpose/entry_points.def"
#undef ENTRY_POINT
};

/* A function at an address that the table's symbols do not have. Filled under loader_lock, never
 * changed afterwards; published by spares_used. */
static struct spare {
    void *function;
    const char *name;
    enum class class;
    bool per_thread;
} spares[SPARES];
static atomic_int spares_used;

/* Read by stubs.S. stub_real[i] is valid once stub_quick[i] is set. */
atomic_int stub_owed;
HIDDEN _Atomic(void *) stub_real[KNOWN + SPARES];
HIDDEN atomic_uchar stub_quick[KNOWN + SPARES];
extern const char stub_code[] HIDDEN;

/* RETURN_ADDRESS: where stub_call has it, in words from the arguments on the stack. */
#if defined(__x86_64__)
enum { REGISTER_ARGUMENTS = 6, RETURN_ADDRESS = -1 };
#else
enum { REGISTER_ARGUMENTS = 8, RETURN_ADDRESS = -3 };
#endif

/* As stubs.S lays it out. stack: the arguments beyond the registers'. */
struct stub_frame {
    uint64_t registers[8];
    unsigned char vectors[8][16];
    const uint64_t *stack;
    uint64_t number, attempts;
    uint64_t opens; /* the gate, afterwards: a captured stream or a memory pool is destroyed */
};

HIDDEN void *stub_before(struct stub_frame *frame);
HIDDEN bool stub_after(struct stub_frame *frame, CUresult result);

static uint64_t argument(const struct stub_frame *frame, unsigned index) {
    return index < REGISTER_ARGUMENTS ? frame->registers[index]
                                      : frame->stack[index - REGISTER_ARGUMENTS];
}

static const char *name_of(uint64_t number) {
    return number < KNOWN ? (const char *)&known_names + name_offsets[number]
                          : spares[number - KNOWN].name;
}

static enum class class_of(uint64_t number) {
    return number < KNOWN ? (enum class)known_classes[number] : spares[number - KNOWN].class;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* Whether a null stream means the calling thread's default stream. */
static bool is_per_thread(uint64_t number) {
    const char *name = name_of(number);
    if (number >= KNOWN)
        return spares[number - KNOWN].per_thread;
    return ends_with(name, "_ptsz") || ends_with(name, "_ptds");
}

/* Where the stream stands among the arguments of a launch or of work on device memory; -1: there is
 * none, it is the legacy stream. */
static int stream_position(const char *name) {
    if (strstr(name, "Kernel"))
        return 8; /* function, 3 + 3 sizes, shared memory */
    if (!strstr(name, "Async"))
        return -1;
    return strstr(name, "MemsetD2D") ? 5 : 3;
}

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

/* Whether the work goes to the legacy stream, where it comes after all that was freed before. */
static bool is_legacy_work(const struct stub_frame *frame) {
    const char *name = name_of(frame->number);
    CUstream stream = NULL;
    if (strstr(name, "LaunchKernelEx")) {
        const CUlaunchConfig *config = (const CUlaunchConfig *)(uintptr_t)argument(frame, 0);
        if (!config || !is_plain_launch(config))
            return false;
        stream = config->hStream;
    } else {
        int position = stream_position(name);
        if (position >= 0)
            stream = (CUstream)(uintptr_t)argument(frame, (unsigned)position);
    }
    return stream == CU_STREAM_LEGACY || (!stream && !is_per_thread(frame->number));
}

/* Things because of which no wait may be owed from before the call on. */
static void begin_reason(struct pool *pool, enum class class) {
    switch (class) {
    case STREAM_CREATED:
        pool_reason_begins(pool, WAIT_REASON_stream);
        break;
    case HOST_ALLOCATED:
        pool_reason_begins(pool, WAIT_REASON_pinned);
        break;
    case HOST_REGISTERED:
        pool_reason_begins(pool, WAIT_REASON_registered);
        break;
    case MANAGED:
    case MEMORY_POOL_CREATED:
        pool_reason_stays(pool, WAIT_REASON_managed);
        break;
    case IMPORTED:
        pool_reason_stays(pool, WAIT_REASON_imported);
        break;
    case EXPORTED:
        pool_reason_stays(pool, WAIT_REASON_exported);
        break;
    case PEER:
        pool_reason_stays(pool, WAIT_REASON_peer);
        break;
    case STREAM_DESTROYED:
    case PENDING:
        pool_work_pending(pool);
        break;
    default:
        break;
    }
}

/* The check comes first, as the call may find what has gone wrong so far. */
static void check_before(struct check *check, uint64_t number) {
    const char *name = name_of(number);
    if (checked_waits(name))
        check_before_wait(check, name);
    if (checked_writes(name))
        check_work(check);
}

static void before(struct pool *pool, struct stub_frame *frame) {
    enum class class = class_of(frame->number);
    bool retried = frame->attempts > 0;
    if (state_check() && !retried)
        check_before(state_check(), frame->number);
    if (is_per_thread(frame->number))
        pool_reason_stays(pool, WAIT_REASON_per_thread_stream);
    if (!retried)
        begin_reason(pool, class);
    if ((class == LAUNCH || class == LEGACY_WORK) && atomic_load(&stub_owed) &&
        is_legacy_work(frame))
        return;
    pool_pay(pool, name_of(frame->number));
    if (retried)
        return;
    if (class == STREAM_DESTROYED) {
        frame->opens = pool_stream_ends(pool, (CUstream)(uintptr_t)argument(frame, 0));
    } else if (class == MEMORY_POOL_DESTROYED) {
        pool_memory_pool_ends(pool, (CUmemoryPool)(uintptr_t)argument(frame, 0));
        frame->opens = true;
    }
}

/* Whether nothing is to be done for this function from now on, but to pay. */
static bool is_quick(const struct pool *pool, uint64_t number) {
    if (state_check())
        return false;
    switch (class_of(number)) {
    case PAYS:
    case WAITS:
    case LEGACY_WORK:
    case LAUNCH:
    case PER_THREAD:
    case ALLOCATES:
        return pool || !is_per_thread(number); /* then the reason has been told */
    case MANAGED:
    case IMPORTED:
    case EXPORTED:
    case PEER:
        return pool != NULL;
    case MANAGED_STATE:
        return pool && !state_options()->managed;
    default:
        return false;
    }
}

static CUresult not_initialized(void) {
    return CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult not_supported(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult invalid_value(void) {
    return CUDA_ERROR_INVALID_VALUE;
}

static void *find_real(uint64_t number) {
    void *real = atomic_load_explicit(&stub_real[number], memory_order_acquire);
    if (real)
        return real;
    real = hooks_load() ? hooks_find_in_driver(name_of(number)) : NULL;
    atomic_store_explicit(&stub_real[number], real, memory_order_release);
    return real;
}

static void *spare_stub(void *function, const char *name, enum class class, bool per_thread);

/* Of the functions whose stub only precedes them, those that write to memory, where the check wants
 * to know that they have: a stub that calls the function, else NULL. */
static void *stub_that_calls(uint64_t number, void *real) {
    enum class class = class_of(number);
    if (number >= KNOWN || !state_checks_launches() ||
        (class != PAYS && class != LEGACY_WORK && class != PER_THREAD) ||
        !checked_writes(name_of(number)))
        return NULL;
    return spare_stub(real, name_of(number), class, is_per_thread(number));
}

/* Whether it may change the state of managed memory that is pooled. */
static bool changes_pooled(const struct stub_frame *frame) {
    return class_of(frame->number) == MANAGED_STATE && state_options()->managed;
}

void *stub_before(struct stub_frame *frame) {
    void *real = find_real(frame->number);
    if (!real)
        return hooks_load() ? (void *)not_supported : (void *)not_initialized;
    struct pool *pool = state_begin_call();
    if (!frame->attempts)
        frame->opens = false;
    void *calling = pool ? stub_that_calls(frame->number, real) : NULL;
    if (calling) {
        state_end_call();
        return calling;
    }
    if (pool) {
        before(pool, frame);
        if (changes_pooled(frame) &&
            !managed_call_begins(pool, name_of(frame->number), frame->registers))
            real = (void *)invalid_value;
        state_end_call();
    }
    if (!thread_marks.inside && is_quick(pool, frame->number))
        atomic_store_explicit(&stub_quick[frame->number], 1, memory_order_release);
    return real;
}

/* A module's variable may be managed memory, which the host sees without a call. */
static void look_at_global(struct pool *pool, const struct stub_frame *frame) {
    const CUdeviceptr *address = (const CUdeviceptr *)(uintptr_t)argument(frame, 0);
    int managed = 0;
    if (!address || !REAL(cuPointerGetAttribute) ||
        REAL(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, *address) !=
            CUDA_SUCCESS ||
        managed)
        pool_reason_stays(pool, WAIT_REASON_managed);
}

static void find_site(struct call_site *site, const struct stub_frame *frame) {
    if (!site_tag_find(site))
        caller_find(site, frame->stack[RETURN_ADDRESS], (uintptr_t)frame->stack,
                    (unsigned)state_options()->site_depth);
}

/* What a launch launches; NULL if it is none of a kernel. */
static CUfunction launched(const struct stub_frame *frame) {
    const char *name = name_of(frame->number);
    if (!strstr(name, "Kernel"))
        return NULL;
    return (CUfunction)(uintptr_t)argument(frame, strstr(name, "KernelEx") ? 1 : 0);
}

static void check_after(struct check *check, struct pool *pool, const struct stub_frame *frame) {
    const char *name = name_of(frame->number);
    if (class_of(frame->number) == WAITS)
        check_after_wait(check);
    if (!state_checks_launches() || !checked_writes(name) || pool_is_capturing(pool))
        return;
    struct call_site at;
    find_site(&at, frame);
    check_after_work(check, name, launched(frame), &at);
}

static void after_success(struct pool *pool, const struct stub_frame *frame) {
    switch (class_of(frame->number)) {
    case PENDING:
        pool_work_pending(pool); /* a wait may have ended between the announcement and the call */
        break;
    case STREAM_CREATED: {
        bool green = strstr(name_of(frame->number), "Green") != NULL;
        uint64_t flags = argument(frame, green ? 2 : 1);
        const CUstream *stream = (const CUstream *)(uintptr_t)argument(frame, 0);
        pool_stream_created(pool, *stream, (flags & CU_STREAM_NON_BLOCKING) != 0);
        break;
    }
    case STREAM_DESTROYED:
        pool_work_pending(pool);
        pool_reason_ends(pool, WAIT_REASON_stream);
        if (frame->opens)
            pool_capture_ended(pool);
        break;
    case MEMORY_POOL_CREATED:
        pool_memory_pool_created(pool, *(const CUmemoryPool *)(uintptr_t)argument(frame, 0),
                                 (const CUmemPoolProps *)(uintptr_t)argument(frame, 1));
        break;
    case HOST_UNREGISTERED:
        pool_reason_ends(pool, WAIT_REASON_registered);
        break;
    case CONTEXT_CREATED:
        if (strstr(name_of(frame->number), "Green"))
            pool_reason_stays(pool, WAIT_REASON_contexts);
        else
            pool_context_created(pool, *(const CUcontext *)(uintptr_t)argument(frame, 0));
        break;
    case GLOBAL:
        look_at_global(pool, frame);
        break;
    case MANAGED_STATE:
        if (changes_pooled(frame))
            managed_call_succeeded(pool, name_of(frame->number), frame->registers);
        break;
    default:
        break;
    }
}

static void after_failure(struct pool *pool, const struct stub_frame *frame) {
    switch (class_of(frame->number)) {
    case STREAM_CREATED:
        pool_reason_ends(pool, WAIT_REASON_stream);
        break;
    case HOST_ALLOCATED:
        pool_reason_ends(pool, WAIT_REASON_pinned);
        break;
    case HOST_REGISTERED:
        pool_reason_ends(pool, WAIT_REASON_registered);
        break;
    default:
        break;
    }
}

/* Whether it is memory that the program asked for. */
static bool allocates_memory(const char *name) {
    return strncmp(name, "cuMem", 5) == 0 || strncmp(name, "cuArray", 7) == 0 ||
           strncmp(name, "cuMipmapped", 11) == 0;
}

/* Returns whether the call is to be made again. */
bool stub_after(struct stub_frame *frame, CUresult result) {
    struct pool *pool = state_begin_call();
    if (!pool)
        return false;
    bool destroyed = class_of(frame->number) == MEMORY_POOL_DESTROYED;
    const char *name = name_of(frame->number);
    bool again = result == CUDA_ERROR_OUT_OF_MEMORY &&
                 checked_make_room(pool, name, (unsigned)frame->attempts++, allocates_memory(name));
    if (result == CUDA_SUCCESS && state_check())
        check_after(state_check(), pool, frame);
    if (result == CUDA_SUCCESS) {
        after_success(pool, frame);
        if (frame->attempts)
            stats_add(STATS_oom_rescued, 1);
    } else if (!again) {
        pool_note_error(pool, result);
        after_failure(pool, frame);
    }
    if (destroyed && frame->opens && !again)
        pool_memory_pool_ended(pool);
    state_end_call();
    return again;
}

static void *stub(uint64_t number) {
    return (void *)(uintptr_t)(stub_code + number * STUB_SIZE);
}

static bool has_stub(uint64_t number) {
    enum class class = class_of(number);
    return class != QUERY && class != HOOKED && class != EXPORT_TABLE;
}

/* The stub that stands before `function`, which the table knows under no symbol of this address.
 * NULL if there are none left: then no wait may be owed any more. */
static void *spare_stub(void *function, const char *name, enum class class, bool per_thread) {
    int number = 0;
    lock_take(&loader_lock, LOCK_LOADER);
    int used = atomic_load(&spares_used);
    while (number < used && spares[number].function != function)
        number++;
    char *copy = number == used && used < SPARES ? malloc(strlen(name) + 1) : NULL;
    if (copy) {
        memcpy(copy, name, strlen(name) + 1);
        spares[used] = (struct spare){function, copy, class, per_thread};
        atomic_store(&stub_real[KNOWN + used], function);
        atomic_store(&spares_used, ++used);
    }
    lock_drop(&loader_lock, LOCK_LOADER);
    if (number < used)
        return stub(KNOWN + (uint64_t)number);
    struct pool *pool = state_pool();
    if (pool)
        pool_reason_stays(pool, WAIT_REASON_bypass);
    return NULL;
}

static void *known_stub(uint64_t number, void *found) {
    void *real = atomic_load_explicit(&stub_real[number], memory_order_acquire);
    if (!real)
        atomic_store_explicit(&stub_real[number], found, memory_order_release);
    return stub(number);
}

void *stubs_replace_symbol(const char *name, void *found) {
    if (!hooks_load() || hooks_find_in_driver(name) != found)
        return found;
    for (uint64_t number = 0; number < KNOWN; number++)
        if (strcmp(name, name_of(number)) == 0)
            return has_stub(number) ? known_stub(number, found) : found;
    void *ours = spare_stub(found, name, PENDING, false);
    return ours ? ours : found;
}

/* Whether `symbol` is a form of `base`: the same, or with _v2 and the like or a per-thread suffix.
 */
static bool is_form(const char *symbol, const char *base) {
    size_t length = strlen(base);
    const char *rest = symbol + length;
    if (strncmp(symbol, base, length) != 0)
        return false;
    if (rest[0] == '_' && rest[1] == 'v')
        for (rest += 2; *rest >= '0' && *rest <= '9'; rest++) {
        }
    return !*rest || strcmp(rest, "_ptsz") == 0 || strcmp(rest, "_ptds") == 0;
}

void *stubs_replace_base(const char *base, void *found, bool per_thread) {
    enum class class = PENDING; /* of a function that the table does not know */
    if (!hooks_load())
        return found;
    for (uint64_t number = 0; number < KNOWN; number++) {
        if (!is_form(name_of(number), base))
            continue;
        if (hooks_find_in_driver(name_of(number)) == found)
            return has_stub(number) ? known_stub(number, found) : found;
        if (is_per_thread(number) == per_thread || class == PENDING)
            class = class_of(number);
    }
    if (class == QUERY || class == EXPORT_TABLE)
        return found;
    void *ours = spare_stub(found, base, class == HOOKED ? PENDING : class, per_thread);
    return ours ? ours : found;
}

void stubs_forget_after_fork(void) {
    for (int i = 0; i < KNOWN + SPARES; i++)
        atomic_store_explicit(&stub_quick[i], 0, memory_order_relaxed);
}
