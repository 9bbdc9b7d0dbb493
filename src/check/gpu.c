/* What checking asks of the driver: a stream of its own, in which the kernel runs behind everything
 * that the program has submitted.
 *
 * The stream is a non-blocking one, so that the program's work never waits for it; each launch
 * waits for an event of the whole context instead. Where the driver has none (before 12.5), that
 * event is one of the legacy stream: what runs in the program's own non-blocking streams may then
 * come after a launch, and what it does wrong is found by a later one. Another stream brings new
 * blocks their zones, behind which the program's later work comes. What keeps its later work behind
 * the filling of freed blocks is in fills.c. */
#include "check/internal.h"

#include "base/format.h"
#include "check/kernel_ptx.h"
#include "counters/stats.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    CHUNK = 8, /* launches that are made at once */
};

/* What a chunk's pinned memory holds. */
struct pinned {
    struct check_failure failures[CHUNK];
    struct check_task tasks[CHUNK][CHECK_TASKS];
    unsigned char zone[CHECK_ZONE_SOURCE];
};

static void add_launch(struct check_context *context, struct pinned *pinned, CUdeviceptr device,
                       unsigned i, CUevent done) {
    struct check_launch *launch = calloc(1, sizeof *launch);
    if (!launch)
        return; /* the event and its share of the memory go with the context */
    launch->tasks = pinned->tasks[i];
    launch->failure = &pinned->failures[i];
    launch->zone = pinned->zone;
    launch->device_tasks = device + offsetof(struct pinned, tasks) + i * sizeof pinned->tasks[i];
    launch->device_failure = device + i * sizeof pinned->failures[i];
    launch->done = done;
    TAILQ_INSERT_TAIL(&context->idle, launch, in_list);
    LIST_INSERT_HEAD(&context->every, launch, in_every);
    context->made++;
    context->spare++;
}

/* Makes more launches, in the current context. Gate entered. */
static void grow(struct check *check, struct check_context *context) {
    const struct driver *driver = check->driver;
    CUevent events[CHUNK];
    CUdeviceptr device;
    void *memory;
    unsigned made = 0;
    if (driver->mem_host_alloc(&memory, sizeof(struct pinned), CU_MEMHOSTALLOC_DEVICEMAP) !=
        CUDA_SUCCESS)
        return;
    if (!own_note(check, context, (CUdeviceptr)(uintptr_t)memory, sizeof(struct pinned)) ||
        driver->mem_host_get_device_pointer(&device, memory, 0) != CUDA_SUCCESS)
        return;
    struct pinned *pinned = memory;
    memset(pinned->zone, CHECK_ZONE_BYTE, sizeof pinned->zone);
    while (made < CHUNK &&
           driver->event_create(&events[made], CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS)
        made++;
    check_lock(check);
    for (unsigned i = 0; i < made; i++)
        add_launch(context, pinned, device, i, events[i]);
    check_unlock(check);
}

static bool has_entries(const struct driver *driver) {
    return driver->module_load_data && driver->module_get_function && driver->launch_kernel &&
           driver->mem_host_alloc && driver->mem_host_get_device_pointer && driver->stream_create &&
           driver->stream_wait_event && driver->stream_synchronize && driver->event_create &&
           driver->event_record && driver->event_query && driver->memcpy_htod_async;
}

/* Opens the stream that fills zones. It goes before the program's work: it has the highest priority
 * that there is, to which the driver brings any number. */
static bool open_filling(const struct driver *driver, struct check_context *context) {
    enum { HIGHEST = -1000 };
    return (driver->stream_create_with_priority &&
            driver->stream_create_with_priority(&context->filling, CU_STREAM_NON_BLOCKING,
                                                HIGHEST) == CUDA_SUCCESS) ||
           driver->stream_create(&context->filling, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
}

static bool open_streams(const struct driver *driver, struct check_context *context) {
    CUmodule module;
    return driver->module_load_data(&module, check_kernel_ptx) == CUDA_SUCCESS &&
           driver->module_get_function(&context->kernel, module, CHECK_KERNEL_NAME) ==
               CUDA_SUCCESS &&
           driver->event_create(&context->order, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
           driver->event_create(&context->filled, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
           driver->stream_create(&context->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
           open_filling(driver, context);
}

void gpu_open(struct check *check, struct check_context *context) {
    lock_check_none();
    context->ready = has_entries(check->driver) && open_streams(check->driver, context);
    context->lost = !context->ready;
    context->launches = CHUNK;
    if (context->ready)
        grow(check, context);
}

void gpu_forget(struct check_context *context) {
    struct launch_list *lists[] = {&context->idle, &context->running};
    for (int i = 0; i < 2; i++) {
        struct check_launch *launch;
        while ((launch = TAILQ_FIRST(lists[i]))) {
            TAILQ_REMOVE(lists[i], launch, in_list);
            free(launch);
        }
    }
}

/* Gives the context up: nothing is checked in it any more, and nothing reported. */
static void lose(struct check *check, struct check_context *context, CUresult error) {
    pool_note_error(check->pool, error);
    check_lock(check);
    context->lost = true;
    check_unlock(check);
}

/* How many are not for everybody. Lock held. */
static unsigned kept_for_zones(const struct check_context *context) {
    lock_check_held(LOCK_CHECK);
    bool all = context->launches >= CHECK_LAUNCHES && context->made > 2 * CHECK_LAUNCHES_FOR_ZONES;
    return all ? CHECK_LAUNCHES_FOR_ZONES : 0;
}

static struct check_launch *take_idle(struct check *check, struct check_context *context,
                                      bool for_zones) {
    struct check_launch *launch = NULL;
    check_lock(check);
    if (context_is_there(context) && context->spare > (for_zones ? 0 : kept_for_zones(context))) {
        launch = TAILQ_FIRST(&context->idle);
        TAILQ_REMOVE(&context->idle, launch, in_list);
        context->spare--;
        launch->work = context->work;
    }
    check_unlock(check);
    return launch;
}

/* Whether there may be more launches. */
static bool may_grow(struct check *check, struct check_context *context) {
    check_lock(check);
    bool may = context_is_there(context) && context->launches < CHECK_LAUNCHES;
    if (may)
        context->launches += CHUNK;
    check_unlock(check);
    return may;
}

static struct check_launch *take_or_make(struct check *check, struct check_context *context,
                                         bool for_zones) {
    bool pushed;
    struct check_launch *launch = take_idle(check, context, for_zones);
    if (launch || !may_grow(check, context) || !pool_gate_enter(check->pool))
        return launch;
    if (pool_push_context(check->pool, context->handle, &pushed)) {
        grow(check, context);
        pool_pop_device(check->pool, pushed);
    }
    pool_gate_leave(check->pool);
    return take_idle(check, context, for_zones);
}

struct check_launch *gpu_take_launch(struct check *check, struct check_context *context) {
    lock_check_none();
    return take_or_make(check, context, false);
}

struct check_launch *gpu_take_launch_for_zones(struct check *check, struct check_context *context) {
    lock_check_none();
    return take_or_make(check, context, true);
}

void gpu_make_idle(struct check *check, struct check_context *context,
                   struct check_launch *launch) {
    lock_check_none();
    launch->count = 0;
    check_lock(check);
    launch->freed_by = 0;
    TAILQ_INSERT_HEAD(&context->idle, launch, in_list);
    context->spare++;
    check_unlock(check);
}

/* Has the check stream wait for what comes before the event. */
static CUresult wait_for_event(const struct driver *driver, struct check_context *context,
                               CUevent event, CUresult recorded) {
    return recorded == CUDA_SUCCESS ? driver->stream_wait_event(context->stream, event, 0)
                                    : recorded;
}

/* Has the check stream wait for all that has been submitted to the context. */
static CUresult order(const struct driver *driver, struct check_context *context) {
    if (driver->ctx_record_event)
        return wait_for_event(driver, context, context->order,
                              driver->ctx_record_event(context->handle, context->order));
    CUresult result = wait_for_event(driver, context, context->filled,
                                     driver->event_record(context->filled, context->filling));
    if (result == CUDA_SUCCESS)
        result = wait_for_event(driver, context, context->order,
                                driver->event_record(context->order, CU_STREAM_LEGACY));
    return result;
}

static uint64_t largest_task(const struct check_launch *launch) {
    uint64_t largest = 0;
    for (unsigned i = 0; i < launch->count; i++)
        if (launch->tasks[i].bytes > largest)
            largest = launch->tasks[i].bytes;
    return largest;
}

static CUresult launch_kernel(const struct driver *driver, struct check_context *context,
                              struct check_launch *launch, CUstream stream) {
    void *arguments[] = {&launch->device_tasks, &launch->count, &launch->device_failure};
    *launch->failure = CHECK_FAILURE_CLEARED;
    return driver->launch_kernel(context->kernel, launch->count,
                                 check_kernel_rows(largest_task(launch)), 1, CHECK_KERNEL_THREADS,
                                 1, 1, 0, stream, arguments, NULL);
}

/* Copies zones to new blocks. A copy takes no multiprocessor: the program's kernels may hold all of
 * them, and wait for what the program does next. */
static CUresult copy_zones(const struct driver *driver, const struct check_context *context,
                           const struct check_launch *launch) {
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < launch->count; i++)
        for (uint64_t at = 0; at < launch->tasks[i].bytes && result == CUDA_SUCCESS;
             at += CHECK_ZONE_SOURCE) {
            uint64_t left = launch->tasks[i].bytes - at;
            result = driver->memcpy_htod_async(launch->tasks[i].address + at, launch->zone,
                                               left < CHECK_ZONE_SOURCE ? left : CHECK_ZONE_SOURCE,
                                               context->filling);
        }
    *launch->failure = CHECK_FAILURE_CLEARED;
    return result;
}

static void count(const struct check_launch *launch, bool copied) {
    uint64_t bytes[] = {[CHECK_FILL] = 0, [CHECK_VERIFY] = 0};
    for (unsigned i = 0; i < launch->count; i++)
        bytes[launch->tasks[i].op] += launch->tasks[i].bytes;
    stats_add(copied ? STATS_check_copies : STATS_check_launches, copied ? launch->count : 1);
    stats_add(STATS_check_filled_bytes, bytes[CHECK_FILL]);
    stats_add(STATS_check_verified_bytes, bytes[CHECK_VERIFY]);
}

/* Submits the launch. Gate entered. *submitted: the kernel is to run, whatever the result. */
static CUresult submit(struct check *check, struct check_context *context,
                       struct check_launch *launch, CUstream stream, bool *submitted) {
    bool pushed;
    if (!pool_push_context(check->pool, context->handle, &pushed))
        return CUDA_ERROR_INVALID_CONTEXT;
    const struct driver *driver = check->driver;
    bool fills = stream == context->filling;
    CUresult result = fills ? copy_zones(driver, context, launch) : order(driver, context);
    if (result == CUDA_SUCCESS && !fills)
        result = launch_kernel(driver, context, launch, stream);
    *submitted = result == CUDA_SUCCESS;
    if (*submitted)
        result = driver->event_record(launch->done, stream);
    launch->ordered = fills && result == CUDA_SUCCESS && driver->ctx_wait_event &&
                      driver->ctx_wait_event(context->handle, launch->done) == CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        pool_note_error(check->pool, result);
    pool_pop_device(check->pool, pushed);
    return result;
}

/* Returns whether the launch is on its way; else it is idle. */
static bool submit_in(struct check *check, struct check_context *context,
                      struct check_launch *launch, CUstream stream) {
    bool submitted = false;
    if (launch->count && pool_gate_enter(check->pool)) {
        CUresult result = submit(check, context, launch, stream, &submitted);
        pool_gate_leave(check->pool);
        /* nobody will ever know when the kernel has ended */
        if (submitted && result != CUDA_SUCCESS)
            lose(check, context, result);
    }
    if (!submitted) {
        check_lock(check);
        tasks_finish(launch, false);
        check_unlock(check);
        gpu_make_idle(check, context, launch);
        return false;
    }
    check_lock(check);
    tasks_submitted(launch);
    check_unlock(check);
    count(launch, stream == context->filling);
    return true;
}

static void make_running(struct check *check, struct check_context *context,
                         struct check_launch *launch, bool copies) {
    check_lock(check);
    launch->copies = copies;
    launch->number = ++context->submissions;
    launch->free_over = launch->given_up = false;
    TAILQ_INSERT_TAIL(&context->running, launch, in_list);
    check_unlock(check);
}

bool gpu_submit(struct check *check, struct check_context *context, struct check_launch *launch) {
    lock_check_none();
    bool submitted = submit_in(check, context, launch, context->stream);
    if (submitted)
        make_running(check, context, launch, false);
    return submitted;
}

/* Whether the launch has ended; other errors: that cannot be asked. */
static CUresult ask(struct check *check, const struct check_launch *launch) {
    if (!pool_gate_enter(check->pool))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUresult result = check->driver->event_query(launch->done);
    pool_gate_leave(check->pool);
    return result;
}

/* Whether nobody has taken the launch of that number since. *there: the context does not end. */
static bool is_still(struct check *check, const struct check_context *context,
                     const struct check_launch *launch, uint64_t number, bool *there) {
    check_lock(check);
    *there = context_is_there(context) && !context->closing;
    bool still = launch->number == number;
    check_unlock(check);
    return still;
}

CUresult gpu_await(struct check *check, struct check_context *context,
                   const struct check_launch *launch, uint64_t number, int looks) {
    lock_check_none();
    enum { QUICK_LOOKS = 8, STEP_NS = 20 * 1000 };
    const struct timespec step = {.tv_nsec = STEP_NS};
    for (int i = 0; looks < 0 || i < looks; i += i < QUICK_LOOKS || looks >= 0) {
        bool there;
        if (!is_still(check, context, launch, number, &there))
            return CUDA_SUCCESS;
        CUresult result = there ? ask(check, launch) : CUDA_ERROR_INVALID_CONTEXT;
        if (result != CUDA_ERROR_NOT_READY)
            return result;
        if (i >= QUICK_LOOKS)
            syscall(SYS_nanosleep, &step, NULL); /* libc's function may end a cancelled thread */
    }
    return CUDA_ERROR_NOT_READY;
}

bool gpu_await_first(struct check *check, struct check_context *context) {
    lock_check_none();
    check_lock(check);
    struct check_launch *launch = TAILQ_FIRST(&context->running);
    uint64_t number = launch ? launch->number : 0;
    check_unlock(check);
    return launch &&
           gpu_await(check, context, launch, number, GPU_LOOKS_WITHOUT_END) == CUDA_SUCCESS;
}

/* Waits until the launch, which is the caller's, has ended, but not for ever: what is copied before
 * it may wait for the program. Then kernels may overtake it, and what they do wrong may not be
 * seen.
 */
static void await_fill(struct check *check, struct check_context *context,
                       const struct check_launch *launch) {
    enum { LOOKS = 5000 }; /* a quarter of a second */
    CUresult result = gpu_await(check, context, launch, 0, LOOKS);
    check_lock(check);
    context->slow = result == CUDA_ERROR_NOT_READY;
    check_unlock(check);
}

bool gpu_fill(struct check *check, struct check_context *context, struct check_launch *launch) {
    lock_check_none();
    check_lock(check);
    bool slow = context->slow && !TAILQ_EMPTY(&context->running);
    check_unlock(check);
    if (!submit_in(check, context, launch, context->filling))
        return false;
    if (!slow && !launch->ordered)
        await_fill(check, context, launch);
    make_running(check, context, launch, true);
    return true;
}

/* Takes a running launch: the first one, or the first that copies. */
static struct check_launch *take_running(struct check *check, struct check_context *context,
                                         bool copies) {
    check_lock(check);
    struct check_launch *launch = context_is_there(context) ? TAILQ_FIRST(&context->running) : NULL;
    while (launch && copies && !launch->copies)
        launch = TAILQ_NEXT(launch, in_list);
    if (launch)
        TAILQ_REMOVE(&context->running, launch, in_list);
    check_unlock(check);
    return launch;
}

static struct check_launch *take_ended(struct check *check, struct check_context *context,
                                       bool copies) {
    struct check_launch *launch = take_running(check, context, copies);
    if (!launch)
        return NULL;
    CUresult result = ask(check, launch);
    bool capturing = result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY && !capturing)
        result = ask(check, launch); /* the error was perhaps in passing */
    check_lock(check);
    if (result == CUDA_SUCCESS)
        launch->number = launch->freed_by = 0;
    else
        TAILQ_INSERT_HEAD(&context->running, launch, in_list);
    check_unlock(check);
    if (result == CUDA_SUCCESS)
        return launch;
    if (result != CUDA_ERROR_NOT_READY && !capturing)
        lose(check, context, result);
    return NULL;
}

struct check_launch *gpu_take_ended(struct check *check, struct check_context *context) {
    lock_check_none();
    return take_ended(check, context, false);
}

struct check_launch *gpu_take_copied(struct check *check, struct check_context *context) {
    lock_check_none();
    return take_ended(check, context, true);
}

/* Waits for the check stream, or for all of the context. */
static bool wait_for(struct check *check, struct check_context *context, bool all) {
    bool pushed;
    if (!pool_gate_enter(check->pool))
        return false;
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    if (pool_push_context(check->pool, context->handle, &pushed)) {
        result = all ? check->driver->ctx_synchronize()
                     : check->driver->stream_synchronize(context->stream);
        pool_pop_device(check->pool, pushed);
    }
    pool_gate_leave(check->pool);
    return result == CUDA_SUCCESS;
}

bool gpu_is_alone(struct check *check, struct check_context *context) {
    lock_check_none();
    if (!pool_gate_enter(check->pool))
        return false;
    CUresult result = check->driver->event_query(context->order);
    pool_gate_leave(check->pool);
    return result == CUDA_SUCCESS;
}

bool gpu_is_idle(struct check *check, struct check_context *context) {
    lock_check_none();
    bool pushed, ordered = false;
    if (!pool_gate_enter(check->pool))
        return false;
    if (pool_push_context(check->pool, context->handle, &pushed)) {
        ordered = order(check->driver, context) == CUDA_SUCCESS;
        pool_pop_device(check->pool, pushed);
    }
    pool_gate_leave(check->pool);
    return ordered && gpu_is_alone(check, context);
}

bool gpu_wait(struct check *check, struct check_context *context) {
    lock_check_none();
    return wait_for(check, context, false);
}

bool gpu_wait_for_context(struct check *check, struct check_context *context) {
    lock_check_none();
    return wait_for(check, context, true);
}

void gpu_kernel_name(struct check *check, CUfunction kernel, char name[CHECK_KERNEL_NAME_SIZE]) {
    lock_check_none();
    const char *found = NULL;
    bool known = kernel && check->driver->func_get_name &&
                 check->driver->func_get_name(&found, kernel) == CUDA_SUCCESS && found;
    format(name, CHECK_KERNEL_NAME_SIZE, "%s", known ? found : "");
}
