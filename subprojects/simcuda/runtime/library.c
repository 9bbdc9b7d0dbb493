/* Kernels from PTX text through the runtime alone: cudaLibraryLoadData and what belongs to it, and
 * cudaLaunchKernel of such a kernel.
 *
 * A library belongs to no context. Its module is loaded into a context when a kernel of it is first
 * launched there, and again after that context was reset. */
#include "state.h"

#if CUDART_VERSION >= 12080 /* which introduced them */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One kernel in one context. Contexts are told apart by their id, because a context keeps its
 * handle when it is reset. */
struct loaded_kernel {
    CUfunction function;
    unsigned long long context_id;
    struct loaded_kernel *next;
};

struct library_kernel {
    struct library *library;
    char *name;
    struct loaded_kernel *loaded;
    struct library_kernel *next;
};

struct library_module {
    CUmodule module;
    unsigned long long context_id;
    struct library_module *next;
};

/* Invariant: every library in `libraries` has a copy of its text, and at most one module and per
 * kernel one function for a context id. */
struct library {
    char *text;
    struct library_module *modules;
    struct library_kernel *kernels;
    struct library *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of the above */
static struct library *libraries;

static struct library *find_library(cudaLibrary_t handle) {
    for (struct library *library = libraries; library; library = library->next)
        if ((cudaLibrary_t)library == handle)
            return library;
    return NULL;
}

static struct library_kernel *find_kernel(const void *handle) {
    for (struct library *library = libraries; library; library = library->next)
        for (struct library_kernel *kernel = library->kernels; kernel; kernel = kernel->next)
            if (kernel == handle)
                return kernel;
    return NULL;
}

static CUresult current_context_id(unsigned long long *id) {
    return driver.cuCtxGetId(NULL, id);
}

static CUresult module_in(struct library *library, unsigned long long context_id,
                          CUmodule *module) {
    struct library_module *entry;
    for (entry = library->modules; entry; entry = entry->next)
        if (entry->context_id == context_id) {
            *module = entry->module;
            return CUDA_SUCCESS;
        }
    entry = calloc(1, sizeof *entry);
    if (!entry)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = driver.cuModuleLoadData(&entry->module, library->text);
    if (result != CUDA_SUCCESS) {
        free(entry);
        return result;
    }
    entry->context_id = context_id;
    entry->next = library->modules;
    library->modules = entry;
    *module = entry->module;
    return CUDA_SUCCESS;
}

static CUresult function_in_current(struct library_kernel *kernel, CUfunction *function) {
    unsigned long long id;
    CUmodule module;
    CUresult result = current_context_id(&id);
    if (result != CUDA_SUCCESS)
        return result;
    for (struct loaded_kernel *known = kernel->loaded; known; known = known->next)
        if (known->context_id == id) {
            *function = known->function;
            return CUDA_SUCCESS;
        }
    result = module_in(kernel->library, id, &module);
    if (result == CUDA_SUCCESS)
        result = driver.cuModuleGetFunction(function, module, kernel->name);
    if (result != CUDA_SUCCESS)
        return result;
    struct loaded_kernel *known = calloc(1, sizeof *known);
    if (!known)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *known = (struct loaded_kernel){*function, id, kernel->loaded};
    kernel->loaded = known;
    return CUDA_SUCCESS;
}

static void dispose_kernel(struct library_kernel *kernel) {
    for (struct loaded_kernel *known = kernel->loaded, *next; known; known = next) {
        next = known->next;
        free(known);
    }
    free(kernel->name);
    free(kernel);
}

static void dispose(struct library *library) {
    for (struct library_kernel *kernel = library->kernels, *next; kernel; kernel = next) {
        next = kernel->next;
        dispose_kernel(kernel);
    }
    for (struct library_module *entry = library->modules, *next; entry; entry = next) {
        next = entry->next;
        free(entry);
    }
    free(library->text);
    free(library);
}

/* The image must be PTX text; no compiled image runs on a simulated device. The module is loaded
 * into the current context at once, so that bad text is reported here. */
cudaError_t cudaLibraryLoadData(cudaLibrary_t *handle, const void *code,
                                enum cudaJitOption *jit_options, void **jit_values,
                                unsigned int jit_count, enum cudaLibraryOption *options,
                                void **values, unsigned int count) {
    unsigned long long id;
    CUmodule module;
    ENTER();
    if (!handle || !code || (jit_count && (!jit_options || !jit_values)) ||
        (count && (!options || !values)))
        return state_result(cudaErrorInvalidValue);
    struct library *library = calloc(1, sizeof *library);
    if (!library || !(library->text = strdup(code))) {
        free(library);
        return state_result(cudaErrorMemoryAllocation);
    }
    pthread_mutex_lock(&lock);
    CUresult result = current_context_id(&id);
    if (result == CUDA_SUCCESS)
        result = module_in(library, id, &module);
    if (result == CUDA_SUCCESS) {
        library->next = libraries;
        libraries = library;
        *handle = (cudaLibrary_t)library;
    } else {
        dispose(library);
    }
    pthread_mutex_unlock(&lock);
    return DRIVER(result);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *handle, cudaLibrary_t library_handle,
                                 const char *name) {
    CUfunction function;
    CUresult result = CUDA_SUCCESS;
    ENTER();
    if (!handle || !name)
        return state_result(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    struct library *library = find_library(library_handle);
    struct library_kernel *kernel = library ? library->kernels : NULL;
    while (kernel && strcmp(kernel->name, name) != 0)
        kernel = kernel->next;
    if (!library) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (!kernel) {
        kernel = calloc(1, sizeof *kernel);
        if (!kernel || !(kernel->name = strdup(name))) {
            free(kernel);
            pthread_mutex_unlock(&lock);
            return state_result(cudaErrorMemoryAllocation);
        }
        kernel->library = library;
        result = function_in_current(kernel, &function); /* does the library have it? */
        if (result == CUDA_SUCCESS) {
            kernel->next = library->kernels;
            library->kernels = kernel;
        } else {
            dispose_kernel(kernel);
        }
    }
    if (result == CUDA_SUCCESS)
        *handle = (cudaKernel_t)kernel;
    pthread_mutex_unlock(&lock);
    return DRIVER(result);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t handle) {
    unsigned long long id;
    ENTER();
    pthread_mutex_lock(&lock);
    struct library *library = find_library(handle);
    CUresult result = library ? current_context_id(&id) : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        struct library **link = &libraries;
        while (*link != library)
            link = &(*link)->next;
        *link = library->next;
        /* modules of other contexts go with those contexts */
        for (struct library_module *entry = library->modules; entry; entry = entry->next)
            if (entry->context_id == id)
                result = driver.cuModuleUnload(entry->module);
        dispose(library);
    }
    pthread_mutex_unlock(&lock);
    return DRIVER(result);
}

static cudaError_t launch(const void *handle, dim3 grid, dim3 block, void **arguments,
                          size_t shared, cudaStream_t stream, bool per_thread) {
    CUfunction function = NULL;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    ENTER();
    pthread_mutex_lock(&lock);
    struct library_kernel *kernel = find_kernel(handle);
    if (kernel)
        result = function_in_current(kernel, &function);
    pthread_mutex_unlock(&lock);
    if (!kernel)
        return state_result(cudaErrorInvalidDeviceFunction);
    if (result != CUDA_SUCCESS)
        return DRIVER(result);
    return DRIVER(driver.cuLaunchKernel[per_thread](function, grid.x, grid.y, grid.z, block.x,
                                                    block.y, block.z, (unsigned int)shared, stream,
                                                    arguments, NULL));
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream) {
    return launch(kernel, grid, block, arguments, shared, stream, false);
}

cudaError_t cudaLaunchKernel_ptsz(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                  size_t shared, cudaStream_t stream);
cudaError_t cudaLaunchKernel_ptsz(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                  size_t shared, cudaStream_t stream) {
    return launch(kernel, grid, block, arguments, shared, stream, true);
}

#endif
