#include "interpose/loader.h"

#include "base/modules.h"
#include "interpose/image.h"
#include "interpose/own_object.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* glibc 2.34 moved these functions from libdl into libc under a new version. The old version exists
 * in every glibc; before 2.34 it is found only in a process that starts with libdl, hence weak.
 * dlvsym is the only one imported; it finds the others. A process that gets libdl later, with the
 * modules of the name service for one, has them from libdl's own table: RTLD_NEXT does not see what
 * was opened for others. */
#if defined(__x86_64__)
#define BASE_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define BASE_VERSION "GLIBC_2.17"
#else
#error "unsupported architecture"
#endif
#pragma weak dlvsym
__asm__(".symver dlvsym, dlvsym@" BASE_VERSION);

typedef void *dlsym_function(void *handle, const char *name);
typedef void *dlvsym_function(void *handle, const char *name, const char *version);

dlsym_function *loader_real_dlsym;
static dlsym_function *libc_dlsym;
static dlvsym_function *real_dlvsym;
void *(*loader_real_dlopen)(const char *path, int flags);
unsigned char loader_deep;
uint64_t loader_opens;
static int (*real_dlclose)(void *handle);
static loader_dlerror_function *real_dlerror;
static const char libdl_name[] = "libdl.so.2";

pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic uint64_t loader_unloads;
_Atomic(void (*)(void)) loader_before_unload;

static bool visit_libdl(const struct module *module, void *state) {
    if (strcmp(image_soname(module), libdl_name) != 0)
        return true;
    *(struct module *)state = *module;
    return false;
}

/* The definition behind ours in symbol order: libc's, or that of an interposer that comes next,
 * which seldom has a version. libdl: NULL, or where to look without dlvsym. */
static void *next(const char *name, const struct module *libdl) {
    if (libdl)
        return (void *)image_find_function(libdl, name, /* the default version */
                                           NULL);       // NOLINT(performance-no-int-to-ptr)
    return libc_dlsym(RTLD_NEXT, name);
}

/* The C library's own, which no interposer has under that version. */
static void *find_libc_dlsym(const struct module *libdl) {
    if (libdl)
        return next("dlsym", libdl);
    void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return found ? found : dlvsym(RTLD_NEXT, "dlsym", BASE_VERSION);
}

dlsym_function *loader_resolve_dlsym(void) {
    dlsym_function *real = __atomic_load_n(&loader_real_dlsym, __ATOMIC_ACQUIRE);
    struct module libdl;
    libdl.text_high = 0;
    if (real)
        return real;
    if (!dlvsym)
        modules_each(visit_libdl, &libdl);
    if (!dlvsym && !libdl.text_high)
        return NULL;
    const struct module *where = dlvsym ? NULL : &libdl;
    /* Several threads may get here at once: they all store the same pointers. */
    __atomic_store_n((void **)&libc_dlsym, find_libc_dlsym(where), __ATOMIC_RELAXED);
    if (!libc_dlsym)
        return NULL;
    void *(*open)(const char *, int) = NULL;
    *(void **)&open = next("dlopen", where);
    if (where && open) /* it stays: our pointers are into it */
        open(libdl_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    __atomic_store_n(&loader_real_dlopen, open, __ATOMIC_RELAXED);
    __atomic_store_n((void **)&real_dlclose, next("dlclose", where), __ATOMIC_RELAXED);
    __atomic_store_n((void **)&real_dlerror, next("dlerror", where), __ATOMIC_RELAXED);
    __atomic_store_n((void **)&real_dlvsym, where ? next("dlvsym", where) : (void *)dlvsym,
                     __ATOMIC_RELAXED);
    *(void **)&real = next("dlsym", where);
    __atomic_store_n(&loader_real_dlsym, real, __ATOMIC_RELEASE);
    return real;
}

/* The program must not see the error of a lookup that it did not make. */
static void forget_error(void) {
    if (real_dlerror)
        real_dlerror();
}

static void *not_ours(void *address) {
    forget_error();
    return own_object_contains((uintptr_t)address) ? NULL : address;
}

void *loader_find(void *handle, const char *name) {
    return loader_resolve_dlsym() ? not_ours(libc_dlsym(handle, name)) : NULL;
}

void *loader_ask_next(void *handle, const char *name) {
    dlsym_function *real = loader_resolve_dlsym();
    return real ? not_ours(real(handle, name)) : NULL;
}

void *loader_find_first(const char *name) {
    dlsym_function *real = loader_resolve_dlsym();
    void *found = real ? real(RTLD_DEFAULT, name) : NULL;
    forget_error();
    return found;
}

void loader_fail(const char *name) {
    dlsym_function *real = loader_resolve_dlsym();
    if (real)
        real(RTLD_NEXT, name);
}

void *loader_find_version(void *handle, const char *name, const char *version) {
    return loader_resolve_dlsym() ? not_ours(real_dlvsym(handle, name, version)) : NULL;
}

void *loader_open_loaded(const char *path) {
    if (!loader_resolve_dlsym() || !loader_real_dlopen)
        return NULL;
    void *handle = loader_real_dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    forget_error();
    return handle;
}

void loader_close(void *handle) {
    if (handle)
        real_dlclose(handle);
}

/* Before, because nothing learnt so far may be trusted while the module goes; after, because its
 * destructors may have run code of ours that learnt something about it meanwhile. */
__attribute__((visibility("default"))) int dlclose(void *handle) {
    void (*note)(void) = atomic_load(&loader_before_unload);
    if (note)
        note();
    atomic_fetch_add_explicit(&loader_unloads, 1, memory_order_release);
    int result = loader_resolve_dlsym() && real_dlclose ? real_dlclose(handle) : -1;
    atomic_fetch_add_explicit(&loader_unloads, 1, memory_order_release);
    return result;
}

struct next_definition {
    const char *name;
    bool past_us;
    uintptr_t address;
};

static bool visit_for_definition(const struct module *module, void *state) {
    struct next_definition *next = state;
    if (next->past_us)
        next->address = image_find_function(module, next->name, NULL);
    next->past_us = next->past_us || own_object_contains(module->text_low);
    return !next->address;
}

void *loader_find_unasked(const char *name) {
    struct next_definition next = {.name = name};
    modules_each(visit_for_definition, &next);
    return (void *)next.address; // NOLINT(performance-no-int-to-ptr)
}

loader_dlerror_function *loader_find_dlerror(void) {
    loader_dlerror_function *found = __atomic_load_n(&real_dlerror, __ATOMIC_RELAXED);
    if (!found)
        *(void **)&found = loader_find_unasked("dlerror");
    return found;
}
