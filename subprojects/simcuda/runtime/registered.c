/* The functions with two underscores are what the code calls that nvcc 12 and 13 write into each
 * object: crt/host_runtime.h of CUDA's headers declares them and has the calls. */
#include "registered.h"

#include "state.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* What __cudaRegisterFatBinary is given. Of version 2: sources that were compiled apart, whose
 * fatbins the driver is to link. */
struct fatbin_wrapper {
    int magic;
    int version;
    const void *image;
    void **parts; /* of version 2, with NULL behind the last */
};

enum { VERSION_OF_PARTS = 2 };

/* What a fatbin begins with. */
struct fatbin_header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_size; /* bytes */
    uint64_t size;        /* bytes behind the header */
};

/* One registered kernel. It is its own handle: __cudaGetKernel gives its address. */
struct kernel {
    struct image *image;
    const void *host; /* the key of by_host */
    const char *name;
    CUkernel found;      /* NULL before its first use */
    struct kernel *self; /* the key of by_handle */
    struct kernel *next;
    UT_hash_handle by_host, by_handle;
};

struct variable {
    struct image *image;
    const void *host;    /* the key of by_host */
    void **managed_host; /* where the host's code finds a managed one; NULL: it is not managed */
    const char *name;
    struct variable *next;
    UT_hash_handle by_host;
};

/* Invariant: what is in `kernels` and `variables` is in the tables below, too, unless another image
 * had the same address there before. */
struct image {
    const void *code;
    void **parts;      /* instead of `code`: fatbins to be linked, with NULL behind the last */
    CUlibrary library; /* NULL before its first use */
    struct kernel *kernels;
    struct variable *variables;
    struct image *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of the above */
static struct image *images;
static struct kernel *kernels_by_host, *kernels_by_handle;
static struct variable *variables_by_host;

static struct kernel *find_kernel(const void *entry) {
    struct kernel *kernel;

    HASH_FIND(by_host, kernels_by_host, &entry, sizeof entry, kernel);
    if (!kernel)
        HASH_FIND(by_handle, kernels_by_handle, &entry, sizeof entry, kernel);
    return kernel;
}

/* The host's code names a managed variable by what it points to. */
static struct variable *find_variable(const void *symbol) {
    struct variable *variable;

    HASH_FIND(by_host, variables_by_host, &symbol, sizeof symbol, variable);
    if (variable)
        return variable;
    for (struct image *image = images; image; image = image->next)
        for (variable = image->variables; variable; variable = variable->next)
            if (variable->managed_host && *variable->managed_host == symbol)
                return variable;
    return NULL;
}

static CUresult load_code(struct image *image, const void *code) {
    return driver.cuLibraryLoadData(&image->library, code, NULL, NULL, 0, NULL, NULL, 0);
}

static CUresult add_part(CUlinkState linker, void *part) {
    struct fatbin_header header;

    memcpy(&header, part, sizeof header);
    return driver.cuLinkAddData(linker, CU_JIT_INPUT_FATBINARY, part,
                                header.header_size + header.size, NULL, 0, NULL, NULL);
}

static CUresult link_parts(struct image *image) {
    CUlinkState linker;
    void *cubin;
    size_t size;
    CUresult result = driver.cuLinkCreate(0, NULL, NULL, &linker);

    if (result != CUDA_SUCCESS)
        return result;
    for (void **part = image->parts; *part && result == CUDA_SUCCESS; part++)
        result = add_part(linker, *part);
    if (result == CUDA_SUCCESS)
        result = driver.cuLinkComplete(linker, &cubin, &size);
    if (result == CUDA_SUCCESS)
        result = load_code(image, cubin);
    driver.cuLinkDestroy(linker);
    return result;
}

static CUresult load(struct image *image) {
    if (image->library)
        return CUDA_SUCCESS;
    return image->parts ? link_parts(image) : load_code(image, image->code);
}

cudaError_t registered_kernel(const void *entry, CUkernel *kernel) {
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&lock);
    struct kernel *known = find_kernel(entry);
    if (known && !known->found) {
        result = load(known->image);
        if (result == CUDA_SUCCESS)
            result = driver.cuLibraryGetKernel(&known->found, known->image->library, known->name);
    }
    *kernel = known ? known->found : (CUkernel)(uintptr_t)entry;
    pthread_mutex_unlock(&lock);
    return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : (cudaError_t)result;
}

cudaError_t registered_function(const void *entry, CUfunction *function) {
    CUkernel kernel;
    cudaError_t found = registered_kernel(entry, &kernel);

    if (found != cudaSuccess)
        return found;
    CUresult result = driver.cuKernelGetFunction(function, kernel);
    return result == CUDA_ERROR_INVALID_HANDLE ? cudaErrorInvalidDeviceFunction
                                               : (cudaError_t)result;
}

const void *registered_entry(CUfunction function, CUkernel kernel) {
    const void *entry = kernel ? (const void *)kernel : (const void *)function;

    pthread_mutex_lock(&lock);
    for (const struct kernel *each = kernels_by_handle; each; each = each->by_handle.next) {
        CUfunction of_each;
        if (!each->found)
            continue;
        if (each->found == kernel ||
            (driver.cuKernelGetFunction(&of_each, each->found) == CUDA_SUCCESS &&
             of_each == function)) {
            entry = each->host;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return entry;
}

static CUresult find_memory(const struct variable *variable, CUdeviceptr *pointer, size_t *bytes) {
    CUresult result = load(variable->image);

    if (result != CUDA_SUCCESS)
        return result;
    return variable->managed_host
               ? driver.cuLibraryGetManaged(pointer, bytes, variable->image->library,
                                            variable->name)
               : driver.cuLibraryGetGlobal(pointer, bytes, variable->image->library,
                                           variable->name);
}

cudaError_t registered_variable(const void *symbol, CUdeviceptr *pointer, size_t *bytes) {
    CUresult result = CUDA_ERROR_NOT_FOUND;

    pthread_mutex_lock(&lock);
    const struct variable *variable = find_variable(symbol);
    if (variable)
        result = find_memory(variable, pointer, bytes);
    pthread_mutex_unlock(&lock);
    return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : (cudaError_t)result;
}

/* --- what the host's code calls --- */

void **__cudaRegisterFatBinary(void *given) {
    const struct fatbin_wrapper *wrapper = given;
    struct image *image = calloc(1, sizeof *image);

    if (!image)
        return NULL;
    image->code = wrapper->image;
    image->parts = wrapper->version == VERSION_OF_PARTS ? wrapper->parts : NULL;
    pthread_mutex_lock(&lock);
    image->next = images;
    images = image;
    pthread_mutex_unlock(&lock);
    return (void **)image;
}

void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle; /* nothing is loaded before it is used */
}

static void forget(struct image *image) {
    for (struct kernel *kernel = image->kernels, *next; kernel; kernel = next) {
        struct kernel *of_host;
        next = kernel->next;
        HASH_FIND(by_host, kernels_by_host, &kernel->host, sizeof kernel->host, of_host);
        if (of_host == kernel)
            HASH_DELETE(by_host, kernels_by_host, kernel);
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in the table
        HASH_DELETE(by_handle, kernels_by_handle, kernel);
        free(kernel);
    }
    for (struct variable *variable = image->variables, *next; variable; variable = next) {
        struct variable *of_host;
        next = variable->next;
        HASH_FIND(by_host, variables_by_host, &variable->host, sizeof variable->host, of_host);
        if (of_host == variable)
            HASH_DELETE(by_host, variables_by_host, variable);
        free(variable);
    }
    free(image);
}

/* At the process's end the driver may be gone before: it says so, and nobody asks. */
void __cudaUnregisterFatBinary(void **handle) {
    CUlibrary library = NULL;

    pthread_mutex_lock(&lock);
    struct image **link = &images;
    while (*link && *link != (struct image *)handle)
        link = &(*link)->next;
    struct image *image = *link;
    if (image) {
        *link = image->next;
        library = image->library;
        forget(image);
    }
    pthread_mutex_unlock(&lock);
    if (library)
        driver.cuLibraryUnload(library);
}

/* The bounds of blocks are NULL and -1 in all that nvcc writes. */
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int threads, uint3 *thread, uint3 *block, dim3 *block_size,
                            dim3 *grid_size, int *warp_size) {
    struct image *image = (struct image *)handle;
    struct kernel *kernel = calloc(1, sizeof *kernel), *before;

    (void)device, (void)threads, (void)thread, (void)block, (void)block_size, (void)grid_size,
        (void)warp_size;
    if (!image || !kernel) {
        free(kernel);
        return;
    }
    *kernel = (struct kernel){.image = image, .host = host, .name = name, .self = kernel};
    pthread_mutex_lock(&lock);
    kernel->next = image->kernels;
    image->kernels = kernel;
    HASH_ADD(by_handle, kernels_by_handle, self, sizeof(void *), kernel);
    HASH_FIND(by_host, kernels_by_host, &kernel->host, sizeof kernel->host, before);
    if (!before)
        HASH_ADD(by_host, kernels_by_host, host, sizeof kernel->host, kernel);
    pthread_mutex_unlock(&lock);
}

static void add_variable(void **handle, const void *host, void **managed_host, const char *name) {
    struct image *image = (struct image *)handle;
    struct variable *variable = calloc(1, sizeof *variable), *before;

    if (!image || !variable) {
        free(variable);
        return;
    }
    *variable =
        (struct variable){.image = image, .host = host, .managed_host = managed_host, .name = name};
    pthread_mutex_lock(&lock);
    variable->next = image->variables;
    image->variables = variable;
    HASH_FIND(by_host, variables_by_host, &variable->host, sizeof variable->host, before);
    if (!before)
        HASH_ADD(by_host, variables_by_host, host, sizeof variable->host, variable);
    pthread_mutex_unlock(&lock);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t bytes, int constant, int global) {
    (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    add_variable(handle, host, NULL, name);
}

void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                              int external, size_t bytes, int constant, int global) {
    (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    add_variable(handle, host, host, name);
}

/* Called before the host's code first uses a managed variable of the image. A host that gets no
 * address has none to use; the error stays for cudaGetLastError. */
char __cudaInitModule(void **handle) {
    struct image *image = (struct image *)handle;
    CUresult result = CUDA_SUCCESS;
    cudaError_t entered = state_enter();

    if (entered != cudaSuccess || !image) {
        state_result(entered);
        return 0;
    }
    pthread_mutex_lock(&lock);
    for (struct variable *variable = image->variables; variable; variable = variable->next) {
        CUdeviceptr pointer = 0;
        size_t bytes;
        if (!variable->managed_host || result != CUDA_SUCCESS)
            continue;
        result = find_memory(variable, &pointer, &bytes);
        if (result == CUDA_SUCCESS)
            *variable->managed_host = (void *)pointer;
    }
    pthread_mutex_unlock(&lock);
    state_result((cudaError_t)result);
    return result == CUDA_SUCCESS;
}

/* The handle loads nothing: a launch does, and says what is wrong. */
cudaError_t __cudaGetKernel(cudaKernel_t *handle, const void *host) {
    pthread_mutex_lock(&lock);
    struct kernel *kernel = find_kernel(host);
    pthread_mutex_unlock(&lock);
    if (!handle)
        return state_result(cudaErrorInvalidValue);
    if (!kernel)
        return state_result(cudaErrorInvalidDeviceFunction);
    *handle = (cudaKernel_t)kernel;
    return cudaSuccess;
}

/* Programs hand this one to the driver. */
cudaError_t cudaGetKernel(cudaKernel_t *handle, const void *host) {
    CUkernel kernel;
    ENTER();
    if (!handle)
        return state_result(cudaErrorInvalidValue);
    cudaError_t result = registered_kernel(host, &kernel);
    if (result == cudaSuccess)
        *handle = (cudaKernel_t)kernel;
    return state_result(result);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *host) {
    ENTER();
    if (!function)
        return state_result(cudaErrorInvalidValue);
    return state_result(registered_function(host, (CUfunction *)function));
}
