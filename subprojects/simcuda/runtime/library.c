/* Kernels from PTX text or a fatbin through the runtime alone. Handles of the runtime are the
 * driver's. */
#include "registered.h"
#include "state.h"

#if CUDART_VERSION >= 12080 /* which introduced them */

cudaError_t cudaLibraryLoadData(cudaLibrary_t *handle, const void *code,
                                enum cudaJitOption *jit_options, void **jit_values,
                                unsigned int jit_count, enum cudaLibraryOption *options,
                                void **values, unsigned int count) {
    ENTER();
    return DRIVER(driver.cuLibraryLoadData((CUlibrary *)handle, code, (CUjit_option *)jit_options,
                                           jit_values, jit_count, (CUlibraryOption *)options,
                                           values, count));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t handle) {
    ENTER();
    return DRIVER(driver.cuLibraryUnload((CUlibrary)handle));
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *handle, cudaLibrary_t library, const char *name) {
    ENTER();
    return DRIVER(driver.cuLibraryGetKernel((CUkernel *)handle, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetGlobal(void **pointer, size_t *bytes, cudaLibrary_t library,
                                 const char *name) {
    ENTER();
    return DRIVER(
        driver.cuLibraryGetGlobal((CUdeviceptr *)pointer, bytes, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetManaged(void **pointer, size_t *bytes, cudaLibrary_t library,
                                  const char *name) {
    ENTER();
    return DRIVER(
        driver.cuLibraryGetManaged((CUdeviceptr *)pointer, bytes, (CUlibrary)library, name));
}

#endif
