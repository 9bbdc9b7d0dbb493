/* Functions of the runtime, written down with little around their calls of the driver. */
#ifndef SIMCUDA_RUNTIME_FORMS_H
#define SIMCUDA_RUNTIME_FORMS_H

#include "state.h"

/* Both forms of one function: `body` sees in `per_thread` which default stream is meant. The form
 * of the thread's own has a suffix, _ptsz or _ptds. */
#define FORMS(name, suffix, parameters, body)                                                      \
    cudaError_t name parameters;                                                                   \
    cudaError_t name##suffix parameters;                                                           \
    cudaError_t name parameters {                                                                  \
        const bool per_thread = false;                                                             \
        return body;                                                                               \
    }                                                                                              \
    cudaError_t name##suffix parameters {                                                          \
        const bool per_thread = true;                                                              \
        return body;                                                                               \
    }

/* Both forms of a function that is one call of the driver. */
#define FORWARD_FORMS(name, suffix, parameters, call)                                              \
    cudaError_t name parameters;                                                                   \
    cudaError_t name##suffix parameters;                                                           \
    cudaError_t name parameters {                                                                  \
        const bool per_thread = false;                                                             \
        ENTER();                                                                                   \
        return DRIVER(call);                                                                       \
    }                                                                                              \
    cudaError_t name##suffix parameters {                                                          \
        const bool per_thread = true;                                                              \
        ENTER();                                                                                   \
        return DRIVER(call);                                                                       \
    }

/* A function that is one call of the driver, and has one form. */
#define FORWARD(name, parameters, call)                                                            \
    cudaError_t name parameters;                                                                   \
    cudaError_t name parameters {                                                                  \
        ENTER();                                                                                   \
        return DRIVER(call);                                                                       \
    }

#endif
