/* Another tool's quota of device memory, which hooks as such tools do: it exports the driver's
 * names and dlsym without a version, and hands its hooks out in answer to dlsym and
 * cuGetProcAddress.
 *
 * WITHOUT_DLSYM: it leaves dlsym alone. HIDDEN: its hooks are no symbols, only answers. BY_NAME: it
 * finds the driver by the dlsym that its own call is bound to, not by the C library's.
 * QUOTA_BYTES=n: more is refused. QUOTA_REPORT=path: where it says at exit what it has seen. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, BLOCKS = 4096 };

#ifdef HIDDEN
#define HOOK static
#else
#define HOOK
#endif

typedef unsigned long long pointer_t;
HOOK int cuMemAlloc_v2(pointer_t *pointer, size_t bytes);
HOOK int cuMemFree_v2(pointer_t pointer);
HOOK int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags);
HOOK int cuGetProcAddress_v2(const char *name, void **function, int version,
                             unsigned long long flags, void *status);

static struct block {
    pointer_t pointer;
    size_t bytes;
} blocks[BLOCKS];
static size_t used;
static int allocations, frees, refused;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("QUOTA_REPORT");
    FILE *report = path ? fopen(path, "w") : NULL;
    if (!report)
        return;
    fprintf(report, "allocations %d\nfrees %d\nrefused %d\n", allocations, frees, refused);
    fclose(report);
}

#if defined(WITHOUT_DLSYM) || defined(BY_NAME)
#define real_dlsym dlsym
#else
static void *real_dlsym(void *handle, const char *name) {
    static void *(*real)(void *, const char *);
    if (!real)
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!real)
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real(handle, name);
}
#endif

static void *real(const char *name) {
    static void *driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_LAZY);
    return driver ? real_dlsym(driver, name) : NULL;
}

/* What is ours of that name, in the forms that programs look up. */
static void *ours(const char *name, int by_base) {
    if (strcmp(name, by_base ? "cuMemAlloc" : "cuMemAlloc_v2") == 0)
        return (void *)cuMemAlloc_v2;
    if (strcmp(name, by_base ? "cuMemFree" : "cuMemFree_v2") == 0)
        return (void *)cuMemFree_v2;
    if (strcmp(name, "cuGetProcAddress_v2") == 0)
        return (void *)cuGetProcAddress_v2;
    return strcmp(name, "cuGetProcAddress") == 0 && !by_base ? (void *)cuGetProcAddress : NULL;
}

#if !defined(WITHOUT_DLSYM) && !defined(BY_NAME)
void *dlsym(void *handle, const char *name) {
    void *found = real_dlsym(handle, name);
    void *hook = handle != RTLD_NEXT && found ? ours(name, 0) : NULL;
    return hook ? hook : found;
}
#endif

HOOK int cuMemAlloc_v2(pointer_t *pointer, size_t bytes) {
    int (*allocate)(pointer_t *, size_t);
    *(void **)&allocate = real("cuMemAlloc_v2");
    const char *limit = getenv("QUOTA_BYTES");
    if (!allocate)
        return NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    int over = limit && used + bytes > strtoull(limit, NULL, 10);
    refused += over;
    allocations += !over;
    pthread_mutex_unlock(&lock);
    if (over)
        return OUT_OF_MEMORY;
    int result = allocate(pointer, bytes);
    if (result)
        return result;
    pthread_mutex_lock(&lock);
    int place = 0;
    while (blocks[place].pointer && place < BLOCKS - 1)
        place++;
    blocks[place] = (struct block){*pointer, bytes};
    used += bytes;
    pthread_mutex_unlock(&lock);
    return result;
}

HOOK int cuMemFree_v2(pointer_t pointer) {
    int (*release)(pointer_t);
    *(void **)&release = real("cuMemFree_v2");
    if (!release)
        return NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    frees++;
    for (int place = 0; pointer && place < BLOCKS; place++)
        if (blocks[place].pointer == pointer) {
            used -= blocks[place].bytes;
            blocks[place].pointer = 0;
        }
    pthread_mutex_unlock(&lock);
    return release(pointer);
}

static int answer(int result, const char *name, void **function, int version) {
    void *hook = result == 0 && function && *function && version >= 3020 ? ours(name, 1) : NULL;
    if (hook)
        *function = hook;
    return result;
}

HOOK int cuGetProcAddress(const char *name, void **function, int version,
                          unsigned long long flags) {
    int (*ask)(const char *, void **, int, unsigned long long);
    *(void **)&ask = real("cuGetProcAddress");
    return ask ? answer(ask(name, function, version, flags), name, function, version)
               : NOT_INITIALIZED;
}

HOOK int cuGetProcAddress_v2(const char *name, void **function, int version,
                             unsigned long long flags, void *status) {
    int (*ask)(const char *, void **, int, unsigned long long, void *);
    *(void **)&ask = real("cuGetProcAddress_v2");
    return ask ? answer(ask(name, function, version, flags, status), name, function, version)
               : NOT_INITIALIZED;
}
