/* Devices that reach each other's memory. A device stands for its primary context here. */
#include "state.h"

#define POINTER(p) ((CUdeviceptr)(uintptr_t)(p))

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    ENTER();
    return DRIVER(driver.cuDeviceCanAccessPeer(can, device, peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
    CUcontext context;
    ENTER();
    cudaError_t result = state_primary(peer, &context);
    return result != cudaSuccess ? state_result(result)
                                 : DRIVER(driver.cuCtxEnablePeerAccess(context, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    CUcontext context;
    ENTER();
    cudaError_t result = state_primary(peer, &context);
    return result != cudaSuccess ? state_result(result)
                                 : DRIVER(driver.cuCtxDisablePeerAccess(context));
}

static cudaError_t both_contexts(int to_device, int from_device, CUcontext *to, CUcontext *from) {
    cudaError_t result = state_primary(to_device, to);
    return result != cudaSuccess ? result : state_primary(from_device, from);
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device,
                           size_t bytes) {
    CUcontext to_context, from_context;
    ENTER();
    cudaError_t result = both_contexts(to_device, from_device, &to_context, &from_context);
    if (result != cudaSuccess)
        return state_result(result);
    return DRIVER(
        driver.cuMemcpyPeer[0](POINTER(to), to_context, POINTER(from), from_context, bytes));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t stream) {
    CUcontext to_context, from_context;
    ENTER();
    cudaError_t result = both_contexts(to_device, from_device, &to_context, &from_context);
    if (result != cudaSuccess)
        return state_result(result);
    return DRIVER(driver.cuMemcpyPeerAsync[0](POINTER(to), to_context, POINTER(from), from_context,
                                              bytes, stream));
}
