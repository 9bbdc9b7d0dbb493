/* Another tool's quota of device memory, which hooks as such tools do: it exports the driver's
 * names and dlsym without a version, and hands its hooks out in answer to dlsym and
 * cuGetProcAddress.
 *
 * WITHOUT_DLSYM: it leaves dlsym alone. HIDDEN: its hooks are no symbols, only answers. BY_NAME: it
 * finds the driver by the dlsym that its own call is bound to, not by the C library's. WIDE: it
 * hooks stream-ordered allocation and what programs ask about memory, too, and answers -1, which is
 * no error of CUDA's, where it refuses such an allocation or is given what it has not counted;
 * allocations from memory pools it does not know. The functions of CUDA's IPC it hands on.
 *
 * QUOTA_BYTES=n: more is refused, and is not there for who asks; without it the device has 0 bytes
 * in all, by cuDeviceTotalMem. QUOTA_REPORT=path: where it says at exit what it has seen. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_CODE = -1, BLOCKS = 4096 };

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
#ifdef WIDE
HOOK int cuMemAllocAsync(pointer_t *pointer, size_t bytes, void *stream);
HOOK int cuMemFreeAsync(pointer_t pointer, void *stream);
HOOK int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
HOOK int cuDeviceTotalMem_v2(size_t *bytes, int device);
HOOK int cuIpcGetMemHandle(void *handle, pointer_t pointer);
#endif

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

/* Hooks by the symbol, and by the name that cuGetProcAddress has for it. */
static const struct hook {
    const char *symbol, *base;
    void *hook;
} hooks[] = {
    {"cuMemAlloc_v2", "cuMemAlloc", (void *)cuMemAlloc_v2},
    {"cuMemFree_v2", "cuMemFree", (void *)cuMemFree_v2},
    {"cuGetProcAddress_v2", "cuGetProcAddress_v2", (void *)cuGetProcAddress_v2},
    {"cuGetProcAddress", "", (void *)cuGetProcAddress},
#ifdef WIDE
    {"cuMemAllocAsync", "cuMemAllocAsync", (void *)cuMemAllocAsync},
    {"cuMemFreeAsync", "cuMemFreeAsync", (void *)cuMemFreeAsync},
    {"cuMemGetInfo_v2", "cuMemGetInfo", (void *)cuMemGetInfo_v2},
    {"cuDeviceTotalMem_v2", "cuDeviceTotalMem", (void *)cuDeviceTotalMem_v2},
    {"cuIpcGetMemHandle", "cuIpcGetMemHandle", (void *)cuIpcGetMemHandle},
#endif
};

static void *ours(const char *name, int by_base) {
    for (size_t i = 0; i < sizeof hooks / sizeof hooks[0]; i++)
        if (strcmp(name, by_base ? hooks[i].base : hooks[i].symbol) == 0)
            return hooks[i].hook;
    return NULL;
}

#if !defined(WITHOUT_DLSYM) && !defined(BY_NAME)
void *dlsym(void *handle, const char *name) {
    void *found = real_dlsym(handle, name);
    void *hook = handle != RTLD_NEXT && found ? ours(name, 0) : NULL;
    return hook ? hook : found;
}
#endif

static size_t limit(void) {
    const char *bytes = getenv("QUOTA_BYTES");
    return bytes ? strtoull(bytes, NULL, 10) : SIZE_MAX;
}

/* Whether so much may be allocated; from then on it is used. */
static int reserve(size_t bytes) {
    pthread_mutex_lock(&lock);
    int within = bytes <= limit() - used;
    used += within ? bytes : 0;
    refused += !within;
    allocations += within;
    pthread_mutex_unlock(&lock);
    return within;
}

/* What became of the allocation. */
static int allocated(int result, const pointer_t *pointer, size_t bytes) {
    pthread_mutex_lock(&lock);
    int place = 0;
    while (blocks[place].pointer && place < BLOCKS - 1)
        place++;
    if (result == 0)
        blocks[place] = (struct block){*pointer, bytes};
    else
        used -= bytes;
    pthread_mutex_unlock(&lock);
    return result;
}

/* Counts the free; returns whether the memory was counted. */
static int give_back(pointer_t pointer) {
    int known = 0;
    pthread_mutex_lock(&lock);
    frees++;
    for (int place = 0; pointer && place < BLOCKS; place++)
        if (blocks[place].pointer == pointer) {
            used -= blocks[place].bytes;
            blocks[place].pointer = 0;
            known = 1;
        }
    pthread_mutex_unlock(&lock);
    return known;
}

HOOK int cuMemAlloc_v2(pointer_t *pointer, size_t bytes) {
    int (*allocate)(pointer_t *, size_t);
    *(void **)&allocate = real("cuMemAlloc_v2");
    if (!allocate)
        return NOT_INITIALIZED;
    return reserve(bytes) ? allocated(allocate(pointer, bytes), pointer, bytes) : OUT_OF_MEMORY;
}

HOOK int cuMemFree_v2(pointer_t pointer) {
    int (*release)(pointer_t);
    *(void **)&release = real("cuMemFree_v2");
    if (!release)
        return NOT_INITIALIZED;
    give_back(pointer);
    return release(pointer);
}

#ifdef WIDE
HOOK int cuMemAllocAsync(pointer_t *pointer, size_t bytes, void *stream) {
    int (*allocate)(pointer_t *, size_t, void *);
    *(void **)&allocate = real("cuMemAllocAsync");
    if (!allocate)
        return NOT_INITIALIZED;
    return reserve(bytes) ? allocated(allocate(pointer, bytes, stream), pointer, bytes) : NO_CODE;
}

HOOK int cuMemFreeAsync(pointer_t pointer, void *stream) {
    int (*release)(pointer_t, void *);
    *(void **)&release = real("cuMemFreeAsync");
    if (!release)
        return NOT_INITIALIZED;
    return give_back(pointer) ? release(pointer, stream) : NO_CODE;
}

HOOK int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    int (*ask)(size_t *, size_t *);
    *(void **)&ask = real("cuMemGetInfo_v2");
    int result = ask ? ask(free_bytes, total_bytes) : NOT_INITIALIZED;
    if (result != 0 || limit() == SIZE_MAX)
        return result;
    pthread_mutex_lock(&lock);
    *free_bytes = limit() - used;
    *total_bytes = limit();
    pthread_mutex_unlock(&lock);
    return result;
}

HOOK int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = limit() == SIZE_MAX ? 0 : limit();
    return 0;
}

HOOK int cuIpcGetMemHandle(void *handle, pointer_t pointer) {
    int (*get)(void *, pointer_t);
    *(void **)&get = real("cuIpcGetMemHandle");
    return get ? get(handle, pointer) : NOT_INITIALIZED;
}
#endif

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
