/* The runtime's own state: last error, device of the thread, primary contexts. */
#ifndef SIMCUDA_RUNTIME_STATE_H
#define SIMCUDA_RUNTIME_STATE_H

#include "driver_calls.h"

/* Makes sure that the driver is loaded and this thread has a context: the current one if the
 * program has set one, else the primary context of the thread's device. */
cudaError_t state_enter(void);

/* Records a failure as the thread's last error. Returns `error`. */
cudaError_t state_result(cudaError_t error);

/* The primary context of a device, retained once per process. INVALID_DEVICE if there is none such.
 */
cudaError_t state_primary(int device, CUcontext *context);

int state_device(void);
cudaError_t state_set_device(int device);
/* To be called after a reset: the primary context has to be asked for anew. */
void state_forget_primary(int device);

/* What a launch is to the driver. Its shared memory has to fit. */
CUlaunchConfig launch_configuration(const cudaLaunchConfig_t *configuration);

/* Ends a runtime function with the driver's answer; driver and runtime number errors alike. */
#define DRIVER(call) state_result((cudaError_t)(call))

/* Begins a runtime function. */
#define ENTER()                                                                                    \
    do {                                                                                           \
        cudaError_t entered = state_enter();                                                       \
        if (entered != cudaSuccess)                                                                \
            return state_result(entered);                                                          \
    } while (0)

#endif
