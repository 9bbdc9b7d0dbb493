#include "entry.h"

#include "inject.h"
#include "lock.h"
#include "report.h"
#include "settings.h"
#include "stuck.h"
#include "unsimulated.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum phase { PHASE_NEW, PHASE_READY, PHASE_FORKED, PHASE_OVER };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread bool has_lock;
static __thread int cancel_state; /* the thread's, while it has the lock, and cannot be cancelled */
static _Atomic enum phase phase = PHASE_NEW;
static pthread_once_t registered = PTHREAD_ONCE_INIT;
static __thread bool in_host_function;
static __thread enum entry_point entered; /* last */

void sim_lock(void) {
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_mutex_lock(&mutex);
    cancel_state = state;
    has_lock = true;
}

void sim_unlock(void) {
    int state = cancel_state;
    has_lock = false;
    pthread_mutex_unlock(&mutex);
    pthread_setcancelstate(state, NULL);
}

void sim_wait(pthread_cond_t *condition) {
    sim_check_held();
    pthread_cond_wait(condition, &mutex);
}

void sim_check_held(void) {
    if (!has_lock)
        abort();
}

void sim_check_none(void) {
    if (has_lock)
        abort();
}

static void forget_after_fork(void) {
    if (phase != PHASE_NEW)
        phase = PHASE_FORKED; /* a CUDA context does not survive a fork */
    report_forget_after_fork();
}

bool entry_is_forked(void) {
    return phase == PHASE_FORKED;
}

static void deinitialize(void) {
    if (phase == PHASE_READY)
        phase = PHASE_OVER;
}

static void register_handlers(void) {
    pthread_atfork(NULL, NULL, forget_after_fork);
    atexit(deinitialize);
}

CUresult entry_initialize(void) {
    (void)settings();
    pthread_once(&registered, register_handlers);
    switch ((enum phase)atomic_load(&phase)) {
    case PHASE_NEW:
        phase = PHASE_READY;
        stuck_watch();
        return CUDA_SUCCESS;
    case PHASE_READY:
        return CUDA_SUCCESS;
    case PHASE_FORKED:
        return CUDA_ERROR_NOT_INITIALIZED;
    default:
        return CUDA_ERROR_DEINITIALIZED;
    }
}

int unsimulated_call(unsigned int row, uintptr_t caller) {
    CUresult refused = entry_begin((enum entry_point)(ENTRY_SIMULATED_COUNT + row), caller);

    return refused == CUDA_SUCCESS ? entry_not_simulated("") : refused;
}

CUresult entry_not_simulated(const char *what) {
    report_unserved(what);
    return CUDA_ERROR_NOT_SUPPORTED;
}

const char *entry_name(void) {
    return report_name(entered);
}

CUresult entry_count(enum entry_point entry, uintptr_t caller) {
    entered = entry;
    report_count_call(entry);
    return inject(entry, caller);
}

CUresult entry_begin(enum entry_point entry, uintptr_t caller) {
    CUresult injected = entry_count(entry, caller);

    if (injected != CUDA_SUCCESS)
        return injected;
    if (in_host_function)
        return CUDA_ERROR_NOT_PERMITTED;
    switch ((enum phase)atomic_load(&phase)) {
    case PHASE_READY:
        return CUDA_SUCCESS;
    case PHASE_OVER:
        return CUDA_ERROR_DEINITIALIZED;
    default:
        return CUDA_ERROR_NOT_INITIALIZED;
    }
}

bool entry_enter_host_function(bool inside) {
    bool before = in_host_function;

    in_host_function = inside;
    return before;
}

SIM_EXPORT CUresult cuInit(unsigned int flags) {
    ENTER_UNINITIALIZED(cuInit);
    if (in_host_function)
        return CUDA_ERROR_NOT_PERMITTED;
    return flags == 0 ? entry_initialize() : CUDA_ERROR_INVALID_VALUE;
}
