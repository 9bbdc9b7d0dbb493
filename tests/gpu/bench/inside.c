/* Preloaded in front of everything: the time that a program spends in cudaMalloc and cudaFree of
 * the shared runtime, of all threads together. The program calls inside_begin() where counting
 * begins, and asks inside_seconds() for the sum. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define PUBLIC __attribute__((visibility("default")))

static _Atomic uint64_t spent_ns;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The runtime's own function, or that of the pool preloaded behind this. A runtime that came by
 * dlopen is out of sight of RTLD_NEXT. */
static void *next(const char *name) {
    static const char *const runtimes[] = {"libcudart.so.13", "libcudart.so.12",
                                           "libcudart.so.11.0"};
    void *found = dlsym(RTLD_NEXT, name);
    for (size_t i = 0; !found && i < sizeof runtimes / sizeof *runtimes; i++) {
        void *runtime = dlopen(runtimes[i], RTLD_NOLOAD | RTLD_LAZY);
        found = runtime ? dlsym(runtime, name) : NULL;
    }
    if (!found)
        abort();
    return found;
}

PUBLIC int cudaMalloc(void **pointer, size_t bytes) {
    static int (*real)(void **, size_t);
    if (!real)
        *(void **)&real = next("cudaMalloc");
    uint64_t started = now_ns();
    int result = real(pointer, bytes);
    atomic_fetch_add(&spent_ns, now_ns() - started);
    return result;
}

PUBLIC int cudaFree(void *pointer) {
    static int (*real)(void *);
    if (!real)
        *(void **)&real = next("cudaFree");
    uint64_t started = now_ns();
    int result = real(pointer);
    atomic_fetch_add(&spent_ns, now_ns() - started);
    return result;
}

PUBLIC void inside_begin(void) {
    atomic_store(&spent_ns, 0);
}

PUBLIC double inside_seconds(void) {
    return (double)atomic_load(&spent_ns) * 1e-9;
}
