/* Preloaded into frames.cu's program: stands where a hook of cuMemAlloc and cuMemFree stands and
 * says how many frames, and how many bytes of stack, lie between it and the program's own call.
 *
 * A measuring aid, for programs that look the driver up with dlsym and cuGetProcAddress_v2, as
 * NVIDIA's runtimes from 12.0 on do. With another such object loaded after it, it stays in front.
 */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

#define EXPORT __attribute__((visibility("default")))

/* A function of frames.cu spans less than this. */
enum { FUNCTION_BYTES = 256 };

typedef void *dlsym_function(void *handle, const char *name);
typedef CUresult get_proc_address_function(const char *, void **, int, cuuint64_t, void *);
typedef CUresult alloc_function(CUdeviceptr *, size_t);
typedef CUresult free_function(CUdeviceptr);

static get_proc_address_function *real_get_proc_address;
static alloc_function *real_alloc;
static free_function *real_free;

/* What the program is about to call, NULL when nothing is expected. */
static const char *label;
static uintptr_t expected;

struct walk {
    unsigned frames;    /* walked so far: `tell` is the first, the hook the second */
    uintptr_t bottom;   /* the hook's canonical frame address */
    uintptr_t previous; /* that of the last frame walked */
    bool found;
};

EXPORT void frame_probe_expect(const char *what, const void *function);
EXPORT void *dlsym(void *handle, const char *name);

/* Tells the probe which call, made by which function, comes next. */
void frame_probe_expect(const char *what, const void *function) {
    label = what;
    expected = (uintptr_t)function;
}

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *state) {
    struct walk *walk = state;
    uintptr_t address = _Unwind_GetIP(context);
    if (walk->frames == 1)
        walk->bottom = _Unwind_GetCFA(context);
    if (address >= expected && address < expected + FUNCTION_BYTES) {
        walk->found = true;
        /* Where the return address into this function lies: just below the frame that it called. */
        printf("measure 14: %s: %u frames between the hook and the program's call, its return "
               "address %ld bytes above the hook's\n",
               label, walk->frames - 2, (long)(walk->previous - walk->bottom));
        return _URC_END_OF_STACK;
    }
    walk->previous = _Unwind_GetCFA(context);
    walk->frames++;
    return walk->frames < 64 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* Called by the hooks themselves, so frame 0 is `tell`, frame 1 the hook. */
__attribute__((noinline)) static void tell(void) {
    if (!label)
        return;
    struct walk walk = {0};
    _Unwind_Backtrace(step, &walk);
    if (!walk.found)
        printf("measure 14: %s: the program's call was not found within %u frames\n", label,
               walk.frames);
    label = NULL;
}

static CUresult probe_alloc(CUdeviceptr *pointer, size_t bytes) {
    tell();
    return real_alloc(pointer, bytes);
}

static CUresult probe_free(CUdeviceptr pointer) {
    tell();
    return real_free(pointer);
}

static CUresult probe_get_proc_address(const char *name, void **function, int version,
                                       cuuint64_t flags, void *status) {
    CUresult code = real_get_proc_address(name, function, version, flags, status);
    if (code != CUDA_SUCCESS || !name || !function || !*function || version < 3020)
        return code;
    if (!strcmp(name, "cuMemAlloc")) {
        real_alloc = (alloc_function *)*function;
        *function = (void *)probe_alloc;
    } else if (!strcmp(name, "cuMemFree")) {
        real_free = (free_function *)*function;
        *function = (void *)probe_free;
    }
    return code;
}

/* The dlsym after ours: another preloaded object's, else libc's. */
static dlsym_function *next_dlsym(void) {
    static dlsym_function *next;
    if (!next) {
        static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
        dlsym_function *libc = NULL;
        for (size_t i = 0; i < 3 && !libc; i++)
            libc = (dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        next = libc ? (dlsym_function *)libc(RTLD_NEXT, "dlsym") : NULL;
    }
    return next;
}

void *dlsym(void *handle, const char *name) {
    dlsym_function *next = next_dlsym();
    void *found = next ? next(handle, name) : NULL;
    if (found && !strcmp(name, "cuGetProcAddress_v2")) {
        real_get_proc_address = (get_proc_address_function *)found;
        return (void *)probe_get_proc_address;
    }
    return found;
}
