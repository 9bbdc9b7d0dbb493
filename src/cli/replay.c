#include "cli/replay.h"

#include "base/clock.h"
#include "cli/replay_driver.h"
#include "counters/stats.h"
#include "pool/policy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEVICES_MAX = 8 }; /* as many as the simulated GPU can be */

/* A block of the trace: 0 while not live, or if its allocation failed. */
struct player {
    const struct trace *trace;
    const struct replay_settings *settings;
    struct driver driver;
    struct replay_calls calls;
    struct pool *pool; /* NULL: native */
    CUcontext contexts[DEVICES_MAX];
    int device_count, device;
    CUstream *streams; /* by number; 0 is the legacy stream */
    CUdeviceptr *blocks;
    uint64_t *sizes;
    CUdeviceptr last; /* a live block for launches to write to */
    bool keeps_all;   /* the pool, of idle memory: none is in the driver's */
    uint64_t held;
    uint64_t live, peak_live, native_calls, modelled_ns, host_ns;
    uint64_t asked_ns, asked_held; /* when it was last asked whether the replay is hopeless */
    struct replay_result result;
    int report; /* the pipe's writing end */
};

/* What the child tells: the share done, then the result or an error. */
struct message {
    enum { PROGRESS, RESULT, ERROR } kind;
    double share;
    struct replay_result result;
    char text[256];
};

static void tell(const struct player *player, const struct message *message) {
    const char *from = (const char *)message;
    size_t left = sizeof *message;
    while (left) {
        ssize_t written = write(player->report, from, left);
        if (written <= 0)
            _exit(1); /* nobody listens */
        from += written;
        left -= (size_t)written;
    }
}

__attribute__((format(printf, 2, 3), noreturn)) static void give_up(const struct player *player,
                                                                    const char *pattern, ...) {
    struct message message = {.kind = ERROR};
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(message.text, sizeof message.text, pattern, arguments);
    va_end(arguments);
    tell(player, &message);
    _exit(1);
}

static void check(const struct player *player, CUresult result, const char *call) {
    if (result != CUDA_SUCCESS)
        give_up(player, "%s failed with error %d", call, (int)result);
}

/* --- starting --- */

static void set_number(const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    setenv(name, text, 1);
}

bool replay_is_possible(const struct trace *trace, const char *path, char *error,
                        size_t error_size) {
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].device < DEVICES_MAX)
            continue;
        snprintf(error, error_size,
                 "%.700s: event %zu is on device %u; expected devices from 0 to %d, nothing was "
                 "replayed",
                 path, i + 1, (unsigned)trace->events[i].device, DEVICES_MAX - 1);
        return false;
    }
    return true;
}

static void start_device(struct player *player) {
    const struct trace *trace = player->trace;
    if (!player->settings->gpu) {
        set_number("SIMCUDA_MEMORY", player->settings->memory);
        set_number("SIMCUDA_DEVICES", trace->device_count);
        set_number("SIMCUDA_COST", 2);
    }
    char error[256];
    if (!replay_driver_load(player->settings->gpu, &player->driver, &player->calls, error,
                            sizeof error))
        give_up(player, "%s", error);
    player->result.simulated = player->calls.modelled_ns;
    check(player, player->calls.init(0), "cuInit");
    check(player, player->calls.device_count(&player->device_count), "cuDeviceGetCount");
    if (trace->device_count > (uint32_t)player->device_count)
        give_up(player, "the trace uses %u devices, here are %d", trace->device_count,
                player->device_count);
    for (uint32_t i = 0; i < trace->device_count; i++)
        check(player, player->calls.retain(&player->contexts[i], (CUdevice)i),
              "cuDevicePrimaryCtxRetain");
    check(player, player->calls.set_current(player->contexts[0]), "cuCtxSetCurrent");
}

/* The pool's time is the trace's, from 1 on, as it takes 0 for never: what it decides by the clock
 * is what it would have decided in the recorded program, however fast the replay is. */
static uint64_t now_ns;

static uint64_t trace_clock(void) {
    return now_ns;
}

/* The simulated GPU would have done all work before anything else looks, or a replay's results
 * would be those of a race between threads, as the pool asks what the device has done so far. So it
 * is given none. Its streams would be empty, so events in them are nothing, and waiting takes no
 * less time for that. The pool learns of the same calls. */
static bool works(const struct player *player) {
    return player->settings->gpu;
}

static void start(struct player *player) {
    const struct trace *trace = player->trace;
    player->blocks = calloc(trace->block_count, sizeof *player->blocks);
    player->sizes = calloc(trace->block_count, sizeof *player->sizes);
    player->streams = calloc(trace->stream_count, sizeof(CUstream));
    if (!player->blocks || !player->sizes || !player->streams)
        give_up(player, "out of memory");
    start_device(player);
    if (player->settings->native)
        return;
    struct pool_config config = player->settings->config;
    config.clock = trace_clock;
    if (!works(player))
        replay_driver_rest(&player->driver);
    replay_driver_watch(&player->driver);
    player->keeps_all = !config.policy || !config.policy->keeper->keeps_nothing;
    player->pool = pool_create(&config, &player->driver);
    if (!player->pool)
        give_up(player, "out of memory");
}

/* --- playing --- */

/* The time that malloc and free take: real, and by the model. */
struct interval {
    uint64_t real, modelled;
};

static struct interval begin(const struct player *player) {
    return (struct interval){clock_ns(CLOCK_MONOTONIC),
                             player->calls.modelled_ns ? player->calls.modelled_ns() : 0};
}

static void end(struct player *player, struct interval since) {
    struct interval until = begin(player);
    player->host_ns += until.real - since.real;
    player->modelled_ns += until.modelled - since.modelled;
}

/* Before every call that is not on the pool's allowlist. */
static void pay(struct player *player, const char *call) {
    if (player->pool)
        pool_pay(player->pool, call);
}

static void use_device(struct player *player, int device) {
    if (device == player->device)
        return;
    pay(player, "cuCtxSetCurrent");
    check(player, player->calls.set_current(player->contexts[device]), "cuCtxSetCurrent");
    replay_driver_forget_current();
    player->device = device;
}

/* A stream that is used for the first time is made now. */
static void use_stream(struct player *player, uint32_t number) {
    CUstream *stream = &player->streams[number];
    if (!number || *stream)
        return;
    if (works(player))
        check(player, player->calls.stream_create(stream, CU_STREAM_DEFAULT), "cuStreamCreate");
    else
        *stream = (CUstream)stream; /* no other's handle, which nobody but the pool looks at */
    if (player->pool)
        pool_stream_created(player->pool, *stream, false);
}

static void allocate(struct player *player, const struct trace_event *event) {
    CUdeviceptr pointer = 0;
    struct call_site site = {.frames = {event->site + 1u}, .depth = 1};
    use_device(player, event->device);
    struct interval since = begin(player);
    CUresult result = player->pool ? pool_malloc(player->pool, &pointer, event->value, &site)
                                   : player->driver.mem_alloc(&pointer, event->value);
    end(player, since);
    player->result.allocations++;
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        player->result.oom_failures++;
    else
        check(player, result, "cuMemAlloc");
    if (!pointer)
        return;
    player->blocks[event->block] = player->last = pointer;
    player->sizes[event->block] = event->value;
    player->live += event->value;
    player->native_calls++;
}

static void release(struct player *player, const struct trace_event *event) {
    CUdeviceptr pointer = player->blocks[event->block];
    if (!pointer)
        return;
    struct interval since = begin(player);
    CUresult result =
        player->pool ? pool_free(player->pool, pointer) : player->driver.mem_free(pointer);
    end(player, since);
    check(player, result, "cuMemFree");
    player->result.frees++;
    player->live -= player->sizes[event->block];
    player->blocks[event->block] = 0;
    if (player->last == pointer)
        player->last = 0;
}

static void note_fragmentation(struct player *player) {
    if (!player->pool)
        return;
    pool_note_end(player->pool);
    double idle = (double)stats_get(STATS_idle_bytes);
    double largest = (double)stats_get(STATS_largest_idle_bytes);
    player->result.fragmentation = idle > largest ? (idle - largest) / idle : 0;
}

static void note_held(struct player *player) {
    static const double slack = 64 << 20;
    if (!player->pool)
        player->held = player->live;
    else if (replay_driver_may_hold_other() || !player->keeps_all)
        player->held = stats_get(STATS_held_bytes);
    const uint64_t held = player->held;
    if (player->live > player->peak_live)
        player->peak_live = player->live;
    if (held > player->result.peak_held_bytes) {
        player->result.peak_held_bytes = held;
        note_fragmentation(player);
    }
    double ratio = (double)held / ((double)player->peak_live + slack);
    if (ratio > player->result.worst_held_ratio)
        player->result.worst_held_ratio = ratio;
}

/* Kernels and copies stand for work in their stream: a write of a few bytes. */
static void submit(struct player *player, uint32_t stream, const char *call) {
    use_stream(player, stream);
    if (!player->last)
        return;
    if (player->pool)
        pool_submits(player->pool, stream ? player->streams[stream] : CU_STREAM_LEGACY, call);
    if (works(player))
        check(player, player->calls.memset(player->last, 0, 1, player->streams[stream]), call);
}

static void wait_for_stream(struct player *player, uint32_t stream) {
    use_stream(player, stream);
    pay(player, "cuStreamSynchronize");
    if (works(player))
        check(player, player->calls.stream_wait(player->streams[stream]), "cuStreamSynchronize");
}

static void wait_for_device(struct player *player) {
    struct pool_context_wait wait = {.context = NULL};
    if (player->pool)
        wait = pool_context_wait_begins(player->pool);
    if (works(player))
        check(player, player->calls.device_wait(), "cuCtxSynchronize");
    if (player->pool)
        pool_context_wait_ended(player->pool, &wait);
}

static void play(struct player *player, const struct trace_event *event) {
    switch ((enum trace_op)event->op) {
    case TRACE_ALLOC:
        use_stream(player, event->stream);
        allocate(player, event);
        note_held(player);
        break;
    case TRACE_FREE:
        release(player, event);
        note_held(player);
        break;
    case TRACE_KERNEL:
        submit(player, event->stream, "cuLaunchKernel");
        break;
    case TRACE_COPY:
        submit(player, event->stream, "cuMemcpyAsync");
        break;
    case TRACE_STREAM_WAIT:
        wait_for_stream(player, event->stream);
        break;
    case TRACE_DEVICE_WAIT:
        wait_for_device(player);
        break;
    }
}

/* Fills in what is not counted event by event. */
static void sum_up(struct player *player, size_t events) {
    struct replay_result *result = &player->result;
    result->events = events;
    result->peak_live_bytes = player->peak_live;
    result->host_seconds = (double)player->host_ns / 1e9;
    result->modelled_seconds = (double)player->modelled_ns / 1e9;
    if (!player->pool) {
        result->driver_allocs = player->native_calls;
        result->driver_frees = result->waits = result->frees;
        return;
    }
    static const enum stats_counter counters[] = {
        STATS_malloc_hits, STATS_driver_allocs, STATS_driver_frees,  STATS_map_calls,
        STATS_free_waited, STATS_waits_paid,    STATS_fences_waited,
    };
    uint64_t values[sizeof counters / sizeof counters[0]];
    stats_get_several(counters, sizeof counters / sizeof counters[0], values);
    result->hits = values[0];
    result->driver_allocs = values[1];
    result->driver_frees = values[2];
    result->map_calls = values[3];
    result->waits = values[4] + values[5] + values[6];
}

/* Asked when the model's time or the memory held has grown, else now and then: what a call that
 * the pool serves itself takes adds up. */
static bool is_hopeless(struct player *player, size_t events) {
    enum { ASK_EVERY = 256 };
    const struct replay_settings *settings = player->settings;
    if (!settings->is_hopeless ||
        (events % ASK_EVERY != 0 && player->modelled_ns == player->asked_ns &&
         player->result.peak_held_bytes == player->asked_held))
        return false;
    player->asked_ns = player->modelled_ns;
    player->asked_held = player->result.peak_held_bytes;
    sum_up(player, events);
    return settings->is_hopeless(&player->result, settings->state);
}

/* Notes what was done when another part of the trace is over. */
static void note_part(struct player *player, size_t events) {
    struct replay_result *result = &player->result;
    size_t part = events * REPLAY_PARTS / player->trace->event_count;
    if (part == result->part_count)
        return;
    sum_up(player, events);
    while (result->part_count < part)
        result->parts[result->part_count++] =
            (struct replay_part){result->allocations, result->frees, result->hits,
                                 result->modelled_seconds, result->host_seconds};
}

/* Not inlined, so that a tool can count what it costs by its name. */
__attribute__((noinline)) static void replay_in_child(struct player *player) {
    enum { TELL_EVERY = 2048 };
    const struct trace *trace = player->trace;
    size_t i = 0;
    start(player);
    while (i < trace->event_count) {
        now_ns = 1 + trace->events[i].time_ns;
        play(player, &trace->events[i]);
        if (i % TELL_EVERY == 0)
            tell(player, &(struct message){.kind = PROGRESS,
                                           .share = (double)i / (double)trace->event_count});
        note_part(player, ++i);
        if (is_hopeless(player, i))
            break;
    }
    sum_up(player, i);
    tell(player, &(struct message){.kind = RESULT, .result = player->result});
}

/* --- the parent --- */

/* Returns false at the end of what the child says. */
static bool listen(int pipe_end, struct message *message) {
    char *to = (char *)message;
    size_t left = sizeof *message;
    while (left) {
        ssize_t got = read(pipe_end, to, left);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        left -= (size_t)got;
    }
    return true;
}

static bool hear(int pipe_end, struct replay_result *result,
                 void (*progress)(double share, void *state), void *state, char *error,
                 size_t error_size) {
    struct message message;
    snprintf(error, error_size, "the replay died");
    while (listen(pipe_end, &message)) {
        if (message.kind == PROGRESS && progress)
            progress(message.share, state);
        if (message.kind == ERROR)
            snprintf(error, error_size, "%s", message.text);
        if (message.kind == RESULT) {
            *result = message.result;
            return true;
        }
    }
    return false;
}

bool replay_run(const struct trace *trace, const struct replay_settings *settings,
                struct replay_result *result, void (*progress)(double share, void *state),
                void *state, char *error, size_t error_size) {
    int ends[2];
    if (!settings->gpu)
        replay_driver_load_for_children();
    fflush(NULL);
    if (pipe(ends) != 0) {
        snprintf(error, error_size, "pipe: %s", strerror(errno));
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        struct player player = {.trace = trace, .settings = settings, .report = ends[1]};
        close(ends[0]);
        replay_in_child(&player);
        _exit(0);
    }
    close(ends[1]);
    bool heard = child > 0 && hear(ends[0], result, progress, state, error, error_size);
    if (child < 0)
        snprintf(error, error_size, "fork: %s", strerror(errno));
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return heard;
}
