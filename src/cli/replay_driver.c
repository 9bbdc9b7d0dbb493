#include "cli/replay_driver.h"

#include "base/format.h"
#include "cli/simulated.h"

#include <dlfcn.h>
#include <stdlib.h>

/* --- loading --- */

/* A driver that was loaded, and not started yet: `ready`, or `error` says why not. */
struct loaded {
    bool ready;
    struct driver driver;
    struct replay_calls calls;
    char error[256];
};

static void *library;

static void *find_symbol(const char *name) {
    return dlsym(library, name);
}

static void load(struct loaded *loaded, bool gpu) {
    char path[4096] = "libcuda.so.1";
    if (!gpu && !simulated_driver(path, sizeof path)) {
        format(loaded->error, sizeof loaded->error, "the simulated GPU's driver is not installed");
        return;
    }
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        format(loaded->error, sizeof loaded->error, "%s", dlerror());
        return;
    }
#define LOAD(field, name, parameters) *(void **)&loaded->calls.field = dlsym(library, #name);
    REPLAY_CALLS(LOAD)
#undef LOAD
    *(void **)&loaded->calls.modelled_ns = dlsym(library, "simcuda_modelled_ns");
    loaded->ready = driver_fill(&loaded->driver, find_symbol) && loaded->calls.memset;
    if (!loaded->ready)
        format(loaded->error, sizeof loaded->error, "%s lacks functions that the pool needs", path);
}

/* The simulated driver is loaded once for all children, as that takes longer than a short trace's
 * replay. Each child starts it anew. A real driver is loaded where it is used, as nobody promises
 * that it could be loaded before a fork. */
static struct loaded simulated;

void replay_driver_load_for_children(void) {
    unsetenv("SIMCUDA_REPORT"); /* this process uses no GPU, which it would report at its end */
    if (!simulated.ready)
        load(&simulated, false);
}

bool replay_driver_load(bool gpu, struct driver *driver, struct replay_calls *calls, char *error,
                        size_t error_size) {
    struct loaded own = {.ready = false};
    if (gpu)
        load(&own, true);
    const struct loaded *loaded = gpu ? &own : &simulated;
    format(error, error_size, "%s", loaded->error);
    *driver = loaded->driver;
    *calls = loaded->calls;
    return loaded->ready;
}

/* --- streams without work --- */

static CUresult record_nothing(CUevent event, CUstream stream) {
    (void)event;
    (void)stream;
    return CUDA_SUCCESS;
}

static CUresult record_nothing_in_context(CUcontext context, CUevent event) {
    (void)context;
    (void)event;
    return CUDA_SUCCESS;
}

static CUresult wait_for_nothing(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}

static CUresult order_nothing(CUstream stream, CUevent event, unsigned int flags) {
    (void)stream;
    (void)event;
    (void)flags;
    return CUDA_SUCCESS;
}

void replay_driver_rest(struct driver *driver) {
    driver->event_record = record_nothing;
    driver->ctx_record_event = record_nothing_in_context;
    driver->event_synchronize = driver->event_query = wait_for_nothing;
    driver->stream_wait_event = order_nothing;
    driver->stream_get_ctx = NULL;
}

/* --- watching --- */

/* What is held changes in calls of these alone, as long as the pool keeps all of it itself. Asking
 * after it at each event would be the larger part of a replay. */
#define HOLDING_CALLS(X)                                                                           \
    X(mem_alloc, (CUdeviceptr * pointer, size_t bytes), (pointer, bytes))                          \
    X(mem_free, (CUdeviceptr pointer), (pointer))                                                  \
    X(mem_create,                                                                                  \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties, \
       unsigned long long flags),                                                                  \
      (handle, bytes, properties, flags))                                                          \
    X(mem_release, (CUmemGenericAllocationHandle handle), (handle))

static struct driver whole_driver;
static bool may_hold_other; /* than when this was last asked */

#define WATCH(field, parameters, arguments)                                                        \
    static CUresult watch_##field parameters {                                                     \
        may_hold_other = true;                                                                     \
        return whole_driver.field arguments;                                                       \
    }
HOLDING_CALLS(WATCH)
#undef WATCH

bool replay_driver_may_hold_other(void) {
    bool other = may_hold_other;
    may_hold_other = false;
    return other;
}

/* The pool asks for the current context in each of its calls. */
static CUcontext current;
static bool current_is_known;

void replay_driver_forget_current(void) {
    current_is_known = false;
}

static CUresult tell_current(CUcontext *context) {
    if (!current_is_known) {
        CUresult result = whole_driver.ctx_get_current(&current);
        if (result != CUDA_SUCCESS)
            return result;
        current_is_known = true;
    }
    *context = current;
    return CUDA_SUCCESS;
}

static CUresult watch_push(CUcontext context) {
    replay_driver_forget_current();
    return whole_driver.ctx_push_current(context);
}

static CUresult watch_pop(CUcontext *context) {
    replay_driver_forget_current();
    return whole_driver.ctx_pop_current(context);
}

void replay_driver_watch(struct driver *driver) {
    whole_driver = *driver;
#define SET(field, parameters, arguments)                                                          \
    if (driver->field)                                                                             \
        driver->field = watch_##field;
    HOLDING_CALLS(SET)
#undef SET
    driver->ctx_get_current = tell_current;
    driver->ctx_push_current = watch_push;
    driver->ctx_pop_current = watch_pop;
}
