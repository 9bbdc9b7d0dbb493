/* What statically linked parts of the toolchain ask for and would otherwise get in a form that is
 * not wanted here.
 *
 * libgcc's unwinder asks the C library for functions in their newest version, which would keep this
 * object from loading with a glibc before 2.35. Defined here, hidden, they concern nobody else. */
#include "base/modules.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* By this pthread_atfork tells whose handlers it registers; the start files, which this object is
 * linked without, would define it so. */
extern void *__dso_handle HIDDEN;
void *__dso_handle = &__dso_handle;

/* The C library's static part has this function, too, but does not say of itself that it keeps to
 * what assembly.h is about. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);
HIDDEN int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
    return __register_atfork(prepare, parent, child, __dso_handle);
}

/* Runs `routine` once. Threads that come meanwhile wait for it, as POSIX demands. */
HIDDEN int pthread_once(pthread_once_t *control, void (*routine)(void)) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    enum { DONE = PTHREAD_ONCE_INIT + 1 };
    if (__atomic_load_n(control, __ATOMIC_ACQUIRE) == DONE)
        return 0;
    pthread_mutex_lock(&lock);
    if (*control != DONE) {
        routine();
        __atomic_store_n(control, DONE, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

/* libgcc takes this function's address to learn that threads exist; it never calls it. */
HIDDEN int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
HIDDEN int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    (void)key;
    (void)destructor;
    return -1;
}

/* What libgcc calls if its tables make no sense. */
HIDDEN void abort(void) {
    for (;;) {
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGABRT);
        __builtin_trap();
    }
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* The unwind index of the module that holds `pc`: glibc 2.35's function, over dl_iterate_phdr. */
HIDDEN int _dl_find_object(void *pc, struct dl_find_object *result) {
    struct module module;
    if (!modules_find((uintptr_t)pc, &module) || !module.eh_frame_header)
        return -1;
    memset(result, 0, sizeof *result);
    result->dlfo_map_start = (void *)module.text_low;
    result->dlfo_map_end = (void *)module.text_high;
    result->dlfo_eh_frame = (void *)module.eh_frame_header;
    return 0;
}
#endif
