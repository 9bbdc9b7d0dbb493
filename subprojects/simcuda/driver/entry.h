/* What every exported function does first: count the call and refuse it where the driver would. */
#ifndef SIMCUDA_ENTRY_H
#define SIMCUDA_ENTRY_H

#include "cuda_symbols.h"

#include <stdbool.h>

enum entry_point {
#define ENTRY(symbol, base, since, form) ENTRY_##symbol,
#include "entry_points.def"
    ENTRY_SIMULATED_COUNT,
    ENTRY_BEFORE_UNSIMULATED = ENTRY_SIMULATED_COUNT - 1,
#include "unsimulated.def"
#undef ENTRY
    ENTRY_POINT_COUNT
};

/* Which stream a NULL handle names: the two forms of a function differ in nothing else. */
enum null_stream { NULL_IS_LEGACY, NULL_IS_PER_THREAD };

/* The code address behind a call of the exported function that uses it. */
#define CALLER ((uintptr_t)__builtin_return_address(0))

/* Counts a call of `entry`. Not CUDA_SUCCESS: the call is to fail so (inject.h). */
CUresult entry_count(enum entry_point entry, uintptr_t caller);

/* As entry_count, and CUDA_SUCCESS only when calls are allowed now; NOT_INITIALIZED before cuInit
 * and in a forked child, DEINITIALIZED late at exit, NOT_PERMITTED inside a host function (which
 * may not call CUDA: cuLaunchHostFunc's documentation). */
CUresult entry_begin(enum entry_point entry, uintptr_t caller);

/* NOT_SUPPORTED, for a call of what the thread called last with an argument that is not simulated:
 * `what` says which, and stands in the report. */
CUresult entry_not_simulated(const char *what);

const char *entry_name(void);    /* the function that this thread called last */
CUresult entry_initialize(void); /* cuInit's work */
bool entry_is_forked(void); /* what the process has of the driver is its parent's, its lock too */
bool entry_enter_host_function(bool inside); /* for this thread; returns the previous state */

#define ENTER_WITH(function, symbol)                                                               \
    do {                                                                                           \
        CUresult refused = (function)(ENTRY_##symbol, CALLER);                                     \
        if (refused != CUDA_SUCCESS)                                                               \
            return refused;                                                                        \
    } while (0)

#define ENTER(symbol)               ENTER_WITH(entry_begin, symbol)
#define ENTER_UNINITIALIZED(symbol) ENTER_WITH(entry_count, symbol)

/* Defines the legacy and the per-thread form of one function. `call` may use null_stream. */
#define EXPORT_FORMS(symbol, suffix, parameters, call)                                             \
    SIM_EXPORT CUresult symbol parameters {                                                        \
        const enum null_stream null_stream = NULL_IS_LEGACY;                                       \
        ENTER(symbol);                                                                             \
        return call;                                                                               \
    }                                                                                              \
    SIM_EXPORT CUresult symbol##suffix parameters {                                                \
        const enum null_stream null_stream = NULL_IS_PER_THREAD;                                   \
        ENTER(symbol##suffix);                                                                     \
        return call;                                                                               \
    }

#endif
