/* The driver that a replay calls: loaded once, and spared what would only take a replay's time. */
#ifndef POOLCUDA_CLI_REPLAY_DRIVER_H
#define POOLCUDA_CLI_REPLAY_DRIVER_H

#include "driver/driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a replay calls besides the pool's own calls: what the recorded program would. */
#define REPLAY_CALLS(X)                                                                            \
    X(init, cuInit, (unsigned int flags))                                                          \
    X(device_count, cuDeviceGetCount, (int *count))                                                \
    X(retain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                    \
    X(set_current, cuCtxSetCurrent, (CUcontext context))                                           \
    X(stream_create, cuStreamCreate, (CUstream * stream, unsigned int flags))                      \
    X(stream_wait, cuStreamSynchronize, (CUstream stream))                                         \
    X(device_wait, cuCtxSynchronize, (void))                                                       \
    X(memset, cuMemsetD8Async, (CUdeviceptr pointer, unsigned char value, size_t bytes, CUstream s))

struct replay_calls {
#define FIELD(field, name, parameters) CUresult(*field) parameters;
    REPLAY_CALLS(FIELD)
#undef FIELD
    uint64_t (*modelled_ns)(void); /* NULL on a GPU */
};

/* In the parent of processes that will replay on the simulated GPU: loads its driver for all. */
void replay_driver_load_for_children(void);

/* The real driver with `gpu`, else what was loaded for the children; not started yet. Returns false
 * after one line in `error`. */
bool replay_driver_load(bool gpu, struct driver *driver, struct replay_calls *calls, char *error,
                        size_t error_size);

/* For streams that are given no work: what the pool asks of them takes no call of the driver. */
void replay_driver_rest(struct driver *driver);

/* From now on it is known whether the pool has called what changes held memory since this was last
 * asked, and the driver is asked for the current context only after a change: by the pool itself,
 * or one that replay_driver_forget_current tells of. One driver in each process. */
void replay_driver_watch(struct driver *driver);
bool replay_driver_may_hold_other(void);
void replay_driver_forget_current(void);

#endif
