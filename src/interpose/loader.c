#include "interpose/loader.h"

#include "interpose/own_object.h"

#include <dlfcn.h>
#include <stddef.h>

/* glibc 2.34 moved these from libdl into libc under a new version. The old version exists in every
 * glibc; before 2.34 it is found only in a process that has libdl, hence weak: a process without it
 * cannot load CUDA either. */
#if defined(__x86_64__)
#define BASE_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define BASE_VERSION "GLIBC_2.17"
#else
#error "unsupported architecture"
#endif
#define WEAK_BASE(name) __asm__(".symver " #name ", " #name "@" BASE_VERSION)
#pragma weak dlopen
#pragma weak dlclose
#pragma weak dlvsym
#pragma weak dlerror
WEAK_BASE(dlopen);
WEAK_BASE(dlvsym);
WEAK_BASE(dlerror);

typedef void *dlsym_function(void *handle, const char *name);

dlsym_function *loader_real_dlsym;
pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic uint64_t loader_unloads;

dlsym_function *loader_resolve_dlsym(void) {
    if (!loader_real_dlsym && dlvsym) {
        void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (!found)
            found = dlvsym(RTLD_NEXT, "dlsym", BASE_VERSION);
        dlerror();
        /* Several threads may get here at once: they all store the same pointer. */
        __atomic_store_n((void **)&loader_real_dlsym, found, __ATOMIC_RELEASE);
    }
    return loader_real_dlsym;
}

static void *not_ours(void *address) {
    dlerror(); /* the program must not see an error of a lookup that it did not make */
    return address && own_object_contains((uintptr_t)address) ? NULL : address;
}

void *loader_find(void *handle, const char *name) {
    dlsym_function *real = loader_resolve_dlsym();
    return real ? not_ours(real(handle, name)) : NULL;
}

void *loader_find_version(void *handle, const char *name, const char *version) {
    return dlvsym ? not_ours(dlvsym(handle, name, version)) : NULL;
}

void *loader_open_loaded(const char *path) {
    if (!dlopen)
        return NULL;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    dlerror();
    return handle;
}

/* The C library's dlclose: ours below is the one that this name denotes in this file. */
static int real_dlclose(void *handle) {
    static int (*real)(void *);
    int (*function)(void *) = __atomic_load_n(&real, __ATOMIC_ACQUIRE);
    if (!function) {
        *(void **)&function = loader_find(RTLD_NEXT, "dlclose");
        __atomic_store_n(&real, function, __ATOMIC_RELEASE);
    }
    return function ? function(handle) : -1;
}

void loader_close(void *handle) {
    if (handle)
        real_dlclose(handle);
}

/* Before, because nothing learnt so far may be trusted while the module goes; after, because its
 * destructors may have run code of ours that learnt something about it meanwhile. */
__attribute__((visibility("default"))) int dlclose(void *handle) {
    atomic_fetch_add_explicit(&loader_unloads, 1, memory_order_release);
    int result = real_dlclose(handle);
    atomic_fetch_add_explicit(&loader_unloads, 1, memory_order_release);
    return result;
}
