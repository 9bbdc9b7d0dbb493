/* An interposer of others, to be preloaded before or after the pool: WRAP_DLSYM, WRAP_DRIVER or
 * WRAP_RUNTIME. Says at exit how many calls it saw. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int seen;

__attribute__((destructor)) static void tell(void) {
    fprintf(stderr, "interposer saw %d\n", seen);
}

#if defined(WRAP_DLSYM)
void *dlsym(void *handle, const char *name) {
    static void *(*real)(void *, const char *);
    if (!real) {
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (!real)
            *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    }
    seen++;
    return real(handle, name);
}
#elif defined(WRAP_DRIVER)
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
    int (*real)(unsigned long long *, size_t);
    *(void **)&real = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    seen++;
    return real ? real(pointer, bytes) : 3;
}
#elif defined(WRAP_RUNTIME)
int cudaMalloc(void **pointer, size_t bytes);
int cudaMalloc(void **pointer, size_t bytes) {
    int (*real)(void **, size_t);
    *(void **)&real = dlsym(RTLD_NEXT, "cudaMalloc");
    seen++;
    return real ? real(pointer, bytes) : 3;
}
#endif
