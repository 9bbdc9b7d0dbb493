#include "library.h"

#include "allocate.h"
#include "image.h"
#include "jit.h"
#include "kernels.h"
#include "lock.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct CUkern_st {
    struct CUlib_st *library;
    const struct image_kernel *declared; /* the image's */
    struct kernel_settings settings[DEVICES_MAX];
    struct CUkern_st *next;
    struct CUkern_st *self; /* the key of by_handle */
    UT_hash_handle by_handle;
};

struct library_module {
    struct CUmod_st *module;
    struct library_module *next;
};

/* Invariant: at most one of `modules` lives in a context; each is made when something of the
 * library is first used there, which is CUDA's lazy loading. */
struct CUlib_st {
    struct image *image; /* a reference of its own */
    struct CUkern_st *kernels;
    struct library_module *modules;
    struct CUlib_st *next;
};

static struct CUlib_st *libraries;
static struct CUkern_st *kernels; /* of all libraries, by handle */

static struct CUlib_st *find(CUlibrary handle) {
    struct CUlib_st *library;

    LL_FOREACH(libraries, library)
    if (library == handle)
        return library;
    return NULL;
}

static struct CUkern_st *find_kernel(CUkernel handle) {
    struct CUkern_st *kernel;

    HASH_FIND(by_handle, kernels, &handle, sizeof(void *), kernel);
    return kernel;
}

static CUresult load_into(struct CUlib_st *library, struct CUctx_st *context,
                          struct CUmod_st **module) {
    struct library_module *loaded;
    CUresult result;

    LL_FOREACH(library->modules, loaded) {
        if (loaded->module->context == context) {
            *module = loaded->module;
            return CUDA_SUCCESS;
        }
    }
    result = module_load(context, library->image, library, module);
    if (result != CUDA_SUCCESS)
        return result;
    loaded = allocate_zeroed(sizeof *loaded);
    loaded->module = *module;
    LL_PREPEND(library->modules, loaded);
    return CUDA_SUCCESS;
}

/* The library's module in the current context. */
static CUresult current_module(CUlibrary handle, struct CUmod_st **module) {
    struct CUctx_st *context;
    CUresult result = find(handle) != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;

    if (result == CUDA_SUCCESS)
        result = context_current(&context);
    return result == CUDA_SUCCESS ? load_into(handle, context, module) : result;
}

CUresult library_function(CUfunction handle, struct CUctx_st *context,
                          struct CUfunc_st **function) {
    sim_check_held();
    struct CUkern_st *kernel = find_kernel((CUkernel)handle);
    struct CUmod_st *module;
    CUresult result;

    if (kernel == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    result = load_into(kernel->library, context, &module);
    return result == CUDA_SUCCESS ? module_function(module, kernel->declared->name, function)
                                  : result;
}

CUresult library_resolve(CUfunction handle, struct CUctx_st *context, struct CUfunc_st **function) {
    sim_check_held();
    CUresult result = library_function(handle, context, function);

    if (result != CUDA_ERROR_INVALID_HANDLE)
        return result;
    *function = module_find_function(handle);
    return *function != NULL && (*function)->module->context == context
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_HANDLE; /* or of a module in another context */
}

const struct image_kernel *library_kernel(CUkernel handle, const struct image **image) {
    sim_check_held();
    const struct CUkern_st *kernel = find_kernel(handle);

    if (kernel == NULL)
        return NULL;
    *image = kernel->library->image;
    return kernel->declared;
}

struct kernel_settings *library_kernel_settings(CUkernel handle, CUdevice device) {
    sim_check_held();
    return &find_kernel(handle)->settings[device];
}

const struct kernel_settings *library_settings_of(const struct CUfunc_st *function) {
    sim_check_held();
    const struct CUkern_st *kernel = NULL;

    if (function->module->library != NULL)
        LL_FOREACH(function->module->library->kernels, kernel)
    if (kernel->declared == function->declared)
        break;
    return kernel != NULL ? &kernel->settings[function->module->context->device] : NULL;
}

/* --- entry points --- */

/* The image comes with a reference, which the library takes. */
static void add_library(CUlibrary *out, struct image *image) {
    struct CUlib_st *library = allocate_zeroed(sizeof *library);

    library->image = image;
    sim_lock();
    LL_PREPEND(libraries, library);
    sim_unlock();
    *out = library;
}

/* The options of a library (CUlibraryOption) change where its code lies, which nobody sees. */
SIM_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code,
                                      CUjit_option *jit_options, void **jit_values,
                                      unsigned int jit_count, CUlibraryOption *options,
                                      void **values, unsigned int count) {
    struct image *image;
    struct jit jit;
    CUresult result;

    ENTER(cuLibraryLoadData);
    if (library == NULL || (count != 0 && options == NULL && values == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    result = jit_read(&jit, JIT_LOAD, jit_count, jit_options, jit_values);
    if (result == CUDA_SUCCESS)
        result = jit_load(&jit, code, &image);
    if (result == CUDA_SUCCESS)
        add_library(library, image);
    return result;
}

SIM_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path,
                                          CUjit_option *jit_options, void **jit_values,
                                          unsigned int jit_count, CUlibraryOption *options,
                                          void **values, unsigned int count) {
    struct image *image;
    struct jit jit;
    CUresult result;

    ENTER(cuLibraryLoadFromFile);
    if (library == NULL || path == NULL || (count != 0 && options == NULL && values == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    result = jit_read(&jit, JIT_LOAD, jit_count, jit_options, jit_values);
    if (result == CUDA_SUCCESS)
        result = jit_load_file(&jit, path, &image);
    if (result == CUDA_SUCCESS)
        add_library(library, image);
    return result;
}

static CUresult unload(struct CUlib_st *library) {
    struct library_module *loaded, *next_loaded;
    struct CUkern_st *kernel, *next_kernel;
    CUresult result = CUDA_SUCCESS;

    LL_DELETE(libraries, library);
    LL_FOREACH(library->kernels, kernel)
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in the table
    HASH_DELETE(by_handle, kernels, kernel);
    LL_FOREACH_SAFE(library->modules, loaded, next_loaded) { /* their functions know the kernels */
        CUresult of_context = module_unload(loaded->module);

        result = result == CUDA_SUCCESS ? of_context : result;
        free(loaded);
    }
    LL_FOREACH_SAFE(library->kernels, kernel, next_kernel)
    free(kernel);
    image_drop(library->image);
    free(library);
    return result;
}

SIM_EXPORT CUresult cuLibraryUnload(CUlibrary handle) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuLibraryUnload);
    sim_lock();
    if (find(handle) != NULL)
        result = unload(handle);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    CUresult result;

    ENTER(cuLibraryGetModule);
    if (module == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = current_module(library, module);
    sim_unlock();
    return result;
}

static bool can_be_launched(const struct image *image, const struct image_kernel *declared) {
    return settings()->skips_kernels || image->program != NULL ||
           kernel_find(declared->name, strlen(declared->name)) != NULL;
}

/* Handles are made when they are first asked for, in no context. */
static struct CUkern_st *handle_of(struct CUlib_st *library, const struct image_kernel *declared) {
    struct CUkern_st *kernel;

    LL_FOREACH(library->kernels, kernel)
    if (kernel->declared == declared)
        return kernel;
    kernel = allocate_zeroed(sizeof *kernel);
    kernel->library = library;
    kernel->declared = declared;
    LL_PREPEND(library->kernels, kernel);
    kernel->self = kernel;
    HASH_ADD(by_handle, kernels, self, sizeof(void *), kernel);
    return kernel;
}

static CUresult get_kernel(CUkernel *out, struct CUlib_st *library, const char *name) {
    const struct image_kernel *declared = image_find_kernel(library->image, name);

    if (declared == NULL || !can_be_launched(library->image, declared))
        return CUDA_ERROR_NOT_FOUND;
    *out = handle_of(library, declared);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    CUresult result = CUDA_ERROR_INVALID_HANDLE;

    ENTER(cuLibraryGetKernel);
    if (kernel == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (find(library) != NULL)
        result = get_kernel(kernel, library, name);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuKernelGetFunction);
    if (function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = library_function((CUfunction)kernel, context, function);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuKernelGetName(const char **name, CUkernel handle) {
    const struct CUkern_st *kernel;

    ENTER(cuKernelGetName);
    if (name == NULL || handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    kernel = find_kernel(handle);
    if (kernel != NULL)
        *name = kernel->declared->name;
    sim_unlock();
    return kernel != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel handle) {
    const struct CUkern_st *kernel;

    ENTER(cuKernelGetLibrary);
    if (library == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    kernel = find_kernel(handle);
    if (kernel != NULL)
        *library = kernel->library;
    sim_unlock();
    return kernel != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* The first `room` kernels that can be launched; returns how many there are. */
static unsigned int get_kernels(struct CUlib_st *library, CUkernel *out, unsigned int room) {
    const struct image_kernel *declared;
    unsigned int count = 0;

    LL_FOREACH(library->image->kernels, declared) {
        if (!can_be_launched(library->image, declared))
            continue;
        if (count < room)
            out[count] = handle_of(library, declared);
        count++;
    }
    return count;
}

SIM_EXPORT CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library) {
    CUresult result = CUDA_ERROR_INVALID_HANDLE;

    ENTER(cuLibraryGetKernelCount);
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (find(library) != NULL) {
        *count = get_kernels(library, NULL, 0);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned int room, CUlibrary library) {
    CUresult result = CUDA_ERROR_INVALID_HANDLE;

    ENTER(cuLibraryEnumerateKernels);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (find(library) != NULL) {
        get_kernels(library, out, room);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

/* The devices have none: CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS is 0. */
SIM_EXPORT CUresult cuLibraryGetUnifiedFunction(void **function, CUlibrary library,
                                                const char *name) {
    bool known;

    ENTER(cuLibraryGetUnifiedFunction);
    if (function == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    known = find(library) != NULL;
    sim_unlock();
    return known ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult get_variable(CUdeviceptr *pointer, size_t *size, CUlibrary library,
                             const char *name, bool managed) {
    const struct module_variable *variable;
    struct CUmod_st *module;
    CUresult result;

    if ((pointer == NULL && size == NULL) || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = current_module(library, &module);
    if (result == CUDA_SUCCESS)
        result = module_variable(module, name, &variable);
    if (result == CUDA_SUCCESS && variable->declared->managed != managed)
        result = CUDA_ERROR_NOT_FOUND;
    if (result == CUDA_SUCCESS && pointer != NULL)
        *pointer = variable->address;
    if (result == CUDA_SUCCESS && size != NULL)
        *size = variable->declared->size;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *size, CUlibrary library,
                                       const char *name) {
    ENTER(cuLibraryGetGlobal);
    return get_variable(pointer, size, library, name, false);
}

SIM_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *pointer, size_t *size, CUlibrary library,
                                        const char *name) {
    ENTER(cuLibraryGetManaged);
    return get_variable(pointer, size, library, name, true);
}
