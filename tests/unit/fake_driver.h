/* A driver for unit tests: memory is a number of bytes, calls are counted, failures are set. */
#ifndef TESTS_FAKE_DRIVER_H
#define TESTS_FAKE_DRIVER_H

#include "driver/driver.h"

#include <stdint.h>

enum { FAKE_PITCH = 256, FAKE_DEVICES = 3 };

/* Set and read by tests. Invariant: used is the sum of the live allocations of all devices. */
struct fake_state {
    uint64_t capacity, used; /* of device 0; the others are as large */
    uint64_t total;          /* of a device, where others use part of it; 0: capacity */
    uint64_t used_by[FAKE_DEVICES];
    bool pages; /* what is larger than 1 MiB takes whole pages of 2 MiB, the rest units of 512 B */
    int infos;  /* how often it was asked what is free */
    bool integrated; /* whether the devices have the host's memory */
    int allocs, frees, waits;
    uint64_t host_capacity, host_used;
    int host_allocs, host_frees;
    unsigned int host_flags; /* of the last cuMemHostAlloc; FAKE_PLAIN: cuMemAllocHost */
    int managed_allocs, managed_frees;
    unsigned int managed_flags; /* of the last cuMemAllocManaged */
    int advices[8];             /* by enum CUmem_advise: how often */
    CUdevice advised[8];        /* and for which device the last time */
    CUdeviceptr advised_at;
    size_t advised_bytes;
    int attachments;
    unsigned int attached; /* the last one's flags */
    CUresult advise_result, attach_result;
    CUcontext current; /* device = handle value % 16, number = value / 16 */
    CUresult wait_result, free_result, current_result;
    CUcontext lost[2]; /* these answer ILLEGAL_ADDRESS where they are asked for what is free */
    CUresult record_result, order_result, attribute_result;
    int push_failures;        /* how many pushes are yet to fail */
    CUcontext fenced_context; /* that was current when the last event was recorded */
    bool quiet;               /* whether an event of the context has completed */
    bool primary_active, pageable_access, host_page_tables;
    int primary_changes; /* contexts under the same handles before */
    int events, records, event_waits, event_queries, orders;
    CUstream recorded_in;                    /* the stream of the last event recorded */
    CUevent recorded;                        /* that event; they are numbered from 1 */
    CUevent ordered_after;                   /* the event that a stream waits for, the last time */
    CUstream ordered;                        /* that stream */
    CUevent waited_for;                      /* by the host, the last time */
    CUcontext stream_context;                /* of every stream; NULL: the current one */
    CUmemoryPool default_pool, current_pool; /* of every device; NULL: it has none */
    uint64_t unused; /* bytes beside the capacity that the default pool keeps */
    int trims;
    CUstream captured;                               /* the stream that is being captured */
    CUstreamCaptureMode capture_mode, freed_in_mode; /* now, and at the last free */
    int fails_to_exchange;                           /* the so-manieth exchange of modes; 0: none */
    CUdeviceptr cleared;
    size_t cleared_bytes;
    CUstream stream; /* the one that can be created; NULL: none can */
    unsigned int stream_flags;
    CUstream cleared_in;      /* by a memset in a stream */
    void (*on_current)(void); /* before the current context is told */
    void (*on_record)(void);
    void (*on_push)(CUcontext context); /* in the midst of it */
    void (*on_ask)(void);               /* after a stream's answer whether it is captured */
    void (*on_query)(void);             /* in the midst of an event's */
    void (*on_wait)(void);              /* called in the midst of a wait, an allocation, a free */
    void (*on_alloc)(void);
    void (*on_granted)(void); /* after an allocation, before its caller knows of it */
    void (*on_refusal)(void); /* after an allocation has found too little memory */
    void (*on_info)(void);    /* after it was told what is free */
    void (*on_free)(CUdeviceptr pointer);
};
enum { FAKE_PLAIN = 1 << 20 }; /* managed memory counts as host memory: the host may use it */
extern struct fake_state fake;

/* A fresh state with that capacity, context 1 on device 0 current. */
void fake_reset(uint64_t capacity);
CUcontext fake_context(int device, int number);
const struct driver *fake_driver(void);
/* Bytes of the live allocation at `pointer`, 0 if there is none. */
uint64_t fake_size(CUdeviceptr pointer);

#endif
