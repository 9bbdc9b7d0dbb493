/* beyond LIBRARY...: allocates from functions whose names a test knows, by way of each library,
 * which is go_between_library under some name or libffi. */
#include "program.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#define KEEP __attribute__((noinline))

typedef CUdeviceptr allocate_form(size_t);
typedef void free_form(CUdeviceptr);

KEEP CUdeviceptr site_alpha(allocate_form *allocate);
KEEP CUdeviceptr site_beta(allocate_form *allocate);

/* The frames between differ in size from one caller to the other. */
KEEP CUdeviceptr site_alpha(allocate_form *allocate) {
    CUdeviceptr pointer = allocate(20000);
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return pointer;
}

KEEP CUdeviceptr site_beta(allocate_form *allocate) {
    char room[500];
    __asm__ volatile("" : : "r"(room) : "memory");
    CUdeviceptr pointer = allocate(20000);
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return pointer;
}

/* As libffi has them, whose headers are not needed for the little that is used here. */
#if defined(__x86_64__)
enum { UNIX_ABI = 2 };
#else
enum { UNIX_ABI = 1 };
#endif
static struct {
    int (*prepare)(void *call, int abi, unsigned arguments, void *result, void **types);
    void (*call)(void *call, void (*function)(void), void *result, void **arguments);
    void *integer, *pointer;
    void (*allocate)(void), (*release)(void);
} ffi;

static void *find(void *library, const char *name) {
    void *found = dlsym(library, name);
    REQUIRE(found);
    return found;
}

static void call_ffi(void (*function)(void), CUdeviceptr *pointer, size_t bytes) {
    void *allocating[] = {ffi.pointer, ffi.integer}, *freeing[] = {ffi.integer};
    void *call[16], *arguments[] = {&pointer, &bytes};
    unsigned long result = 0;
    bool frees = function == ffi.release;
    REQUIRE(!ffi.prepare(call, UNIX_ABI, frees ? 1 : 2, ffi.integer, frees ? freeing : allocating));
    if (frees)
        arguments[0] = pointer;
    ffi.call(call, function, &result, arguments);
    REQUIRE((int)result == CUDA_SUCCESS);
}

/* Where ctypes would be: it is a go-between only by POOLCUDA_SITE_SKIP. */
KEEP CUdeviceptr ffi_allocate(size_t bytes);
KEEP void ffi_free(CUdeviceptr pointer);

KEEP CUdeviceptr ffi_allocate(size_t bytes) {
    CUdeviceptr pointer;
    call_ffi(ffi.allocate, &pointer, bytes);
    return pointer;
}

KEEP void ffi_free(CUdeviceptr pointer) {
    call_ffi(ffi.release, &pointer, 0);
}

int main(int argc, char **argv) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver);
    CUresult (*start)(unsigned);
    CUresult (*retain)(CUcontext *, CUdevice), (*set)(CUcontext);
    CUcontext context;
    *(void **)&start = find(driver, "cuInit");
    *(void **)&retain = find(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&set = find(driver, "cuCtxSetCurrent");
    REQUIRE(!start(0) && !retain(&context, 0) && !set(context));
    for (int i = 1; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW);
        REQUIRE(library);
        allocate_form *allocate = ffi_allocate;
        free_form *release = ffi_free;
        if (strstr(argv[i], "libffi.so")) {
            *(void **)&ffi.prepare = find(library, "ffi_prep_cif");
            *(void **)&ffi.call = find(library, "ffi_call");
            ffi.integer = find(library, "ffi_type_uint64");
            ffi.pointer = find(library, "ffi_type_pointer");
            *(void **)&ffi.allocate = find(driver, "cuMemAlloc_v2");
            *(void **)&ffi.release = find(driver, "cuMemFree_v2");
        } else {
            *(void **)&allocate = find(library, "between_allocate");
            *(void **)&release = find(library, "between_free");
        }
        for (int n = 0; n < ROUNDS; n++) {
            CUdeviceptr alpha = site_alpha(allocate), beta = site_beta(allocate);
            release(alpha);
            release(beta);
        }
    }
    puts("done");
    return 0;
}
