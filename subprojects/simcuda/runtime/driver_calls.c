/* Resolution as NVIDIA's runtimes do it: dlopen, then by name, in the way of RESOLVE_BY. */
#include "driver_calls.h"

#include <dlfcn.h>
#include <pthread.h>

struct driver_calls driver;
void (*driver_owner_begin)(CUdeviceptr pointer, size_t bytes, uintptr_t site);
void (*driver_owner_end)(CUdeviceptr pointer, uintptr_t site);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t loaded;

#if RESOLVE_BY != 0
#if RESOLVE_BY == 5
static CUresult (*get)(const char *, void **, int, cuuint64_t, void *);
#define LOOKUP(name, function, version, flags) get(name, function, version, flags, NULL)
#else
static CUresult (*get)(const char *, void **, int, cuuint64_t);
#define LOOKUP(name, function, version, flags) get(name, function, version, flags)
#endif

static void *find(const char *name, int version, cuuint64_t flags) {
    void *function = NULL;
    return LOOKUP(name, &function, version, flags) == CUDA_SUCCESS ? function : NULL;
}
#endif

/* Stands for what the driver is too old to have. Its caller passes arguments, which it leaves
 * alone. */
static CUresult not_there(void) {
    return (CUresult)cudaErrorCallRequiresNewerDriver;
}

// NOLINTBEGIN(bugprone-macro-parentheses): names, not expressions
static void fill_gaps(void) {
#define CALL(name, version, symbol, parameters)                                                    \
    if (!driver.name)                                                                              \
        *(void **)&driver.name = (void *)not_there;
#define STREAM_CALL(name, version, symbol, suffix, parameters)                                     \
    for (int i = 0; i < 2; i++)                                                                    \
        if (!driver.name[i])                                                                       \
            *(void **)&driver.name[i] = (void *)not_there;
#include "driver_calls.def"
#undef CALL
#undef STREAM_CALL
}

static void resolve(void) {
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    loaded = cudaErrorInsufficientDriver;
    if (!handle)
        return;
#if RESOLVE_BY == 0
#define CALL(name, version, symbol, parameters) *(void **)&driver.name = dlsym(handle, #symbol);
#define STREAM_CALL(name, version, symbol, suffix, parameters)                                     \
    *(void **)&driver.name[0] = dlsym(handle, #symbol);                                            \
    *(void **)&driver.name[1] = dlsym(handle, #symbol #suffix);
#else
    void *function = NULL;
    *(void **)&get = dlsym(handle, RESOLVE_BY == 5 ? "cuGetProcAddress_v2" : "cuGetProcAddress");
    if (!get)
        return;
    LOOKUP("", &function, 0, 0); /* a probe, whatever it answers */
#define CALL(name, version, symbol, parameters) *(void **)&driver.name = find(#name, version, 0);
#define STREAM_CALL(name, version, symbol, suffix, parameters)                                     \
    *(void **)&driver.name[0] = find(#name, version, 0);                                           \
    *(void **)&driver.name[1] = find(#name, version > 7000 ? version : 7000,                       \
                                     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
#endif
#include "driver_calls.def"
#undef CALL
#undef STREAM_CALL
    *(void **)&driver_owner_begin = dlsym(handle, "simcuda_owner_begin");
    *(void **)&driver_owner_end = dlsym(handle, "simcuda_owner_end");
    if (!driver.cuInit)
        return;
    fill_gaps();
    loaded = (cudaError_t)driver.cuInit(0);
}

// NOLINTEND(bugprone-macro-parentheses)

cudaError_t driver_load(void) {
    pthread_once(&once, resolve);
    return loaded;
}
