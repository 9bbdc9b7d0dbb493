#include "interpose/record.h"

#include "interpose/real_entries.h"

#include <stdatomic.h>

/* Mostly there is one device, and then the driver need not be asked each time. */
int record_device(void) {
    static atomic_int devices; /* 0: not known yet */
    static _Atomic(void *) get_device;
    CUresult (*ask)(int *);
    int count = atomic_load_explicit(&devices, memory_order_acquire), device = 0;
    if (!count) {
        *(void **)&ask = real_find("cuDeviceGetCount");
        if (!ask || ask(&count) != CUDA_SUCCESS)
            return 0;
        atomic_store(&get_device, real_find("cuCtxGetDevice"));
        atomic_store_explicit(&devices, count, memory_order_release);
    }
    *(void **)&ask = atomic_load_explicit(&get_device, memory_order_relaxed);
    return count > 1 && ask && ask(&device) == CUDA_SUCCESS ? device : 0;
}
