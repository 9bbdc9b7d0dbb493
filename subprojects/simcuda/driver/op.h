/* An operation: one thing that a stream or a graph can do, any number of times. */
#ifndef SIMCUDA_OP_H
#define SIMCUDA_OP_H

#include "cuda_symbols.h"
#include "user_object.h"
#include "vclock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that an operation touches. generation != 0: whose memory it was when the operation was
 * captured; 0: whoever owns it at submission. */
struct access {
    CUdeviceptr address;
    size_t size;
    uint64_t generation;
    uintptr_t site; /* that owner's */
    bool write;
    bool is_hint; /* what an argument points to: the operation may access it, or not */
};

/* Which memory something was when an operation with it was made. */
struct memory_home {
    enum { HOME_HOST, HOME_MANAGED, HOME_DEVICE, HOME_ARRAY } kind;
    CUdevice device;          /* not of HOME_HOST */
    struct CUctx_st *context; /* NULL: none owns it */
};

/* One side of a copy: `rows` * `slices` runs of bytes. Linear memory is one row. */
struct copy_side {
    CUdeviceptr address; /* host memory has its pointer's value */
    size_t pitch;        /* bytes from row to row */
    size_t slice;        /* bytes from slice to slice */
    bool host;           /* plain host memory, not to be looked up */
    struct memory_home home;
};

/* When the source of a copy may be read: cuda.h 4548. */
enum source_order {
    SOURCE_IN_STREAM,
    SOURCE_DURING_CALL, /* not after the call returns */
    SOURCE_ANY          /* at any time: the program keeps it as it is */
};

struct copy {
    struct copy_side to;
    struct copy_side from;
    size_t width; /* bytes of a row */
    size_t rows;
    size_t slices;
    enum source_order source_order;
    void *staged; /* owned copy of `from`, NULL: read it when executing */
    double gbps;
    CUDA_MEMCPY3D *given; /* owned: what the program asked for by a node; NULL: by a capture */
};

struct fill {
    CUdeviceptr address;
    size_t pitch;
    size_t width; /* elements of a row */
    size_t rows;
    uint32_t value;
    unsigned int element; /* bytes: 1, 2 or 4 */
    struct memory_home home;
};

struct builtin_kernel;
struct conditional;
struct graph_allocation;
struct kernel_attributes;
struct simt_heap;
struct value_step;
enum { KERNEL_PARAMETER_BYTES = 64, KERNEL_PARAMETERS = 4 };

struct kernel_call {
    const struct builtin_kernel *kernel;
    unsigned char parameters[KERNEL_PARAMETER_BYTES];
    /* What a program is told of a node. */
    CUDA_KERNEL_NODE_PARAMS_v2 told; /* its kernelParams are `places` */
    void *places[KERNEL_PARAMETERS];
    void **kept;         /* owned: in place of `places`, and behind them the arguments; or NULL */
    CUfunction function; /* told.func, or what told.kern is in its context */
    struct kernel_attributes *attributes; /* owned; NULL: none */
    const void *arguments;                /* of one that is interpreted: in `kept` */
    struct simt_heap *heap;               /* its context's; NULL: it asks for none */
    bool cooperative;
};

struct host_call {
    CUhostFn function;
    CUstreamCallback callback; /* instead of function; runs after errors too */
    CUstream stream;           /* the callback's argument */
    struct CUctx_st *context;  /* whose error the callback gets */
    void *data;
};

/* For which accesses of an operation the host must have memory. One that reads maps what it reads,
 * so that it takes memory even where nothing was written. */
enum host_use {
    HOST_USE_ALL,
    HOST_USE_WRITES, /* passes over what was never written */
    HOST_USE_NONE    /* makes memory fresh */
};

/* Invariant: run != NULL; the union's member is the one that `run` reads; `accesses` has room for
 * access_room, of which access_count are there. */
struct op {
    unsigned int references;
    const char *name;
    CUgraphNodeType node_type;      /* what it is in a graph */
    CUresult (*run)(struct op *op); /* without the lock; a failure becomes the context's error */
    void (*dispose)(struct op *op); /* what the payload owns; may be NULL */
    bool calls_host;      /* runs the program's code: only ever on a stream's own thread */
    bool marker;          /* does nothing */
    bool depends_on_host; /* it runs, and ends only once the host has done something */
    bool programmatic;    /* may begin before the kernel in front of it ends, if that allows it */
    bool is_overlapped;   /* a kernel that allows it */
    bool finds_accesses;  /* what it accesses is known when it has run */
    enum host_use host_use;
    struct op **children; /* of a graph: what `run` runs, in an order that it allows */
    size_t child_count;
    size_t access_count, access_room;
    struct access *accesses; /* owned */
    union {
        struct copy copy;
        struct fill fill;
        struct kernel_call kernel;
        struct host_call host;
        struct graph_allocation *graph_memory;
        CUevent event; /* that a graph records or waits for */
        struct {
            struct conditional *conditional; /* a reference */
            unsigned int type;               /* CUgraphConditionalNodeType */
        } conditional;
        struct {
            struct conditional **items; /* owned, references */
            size_t count;
        } conditionals;
        struct user_references objects;
        struct op *held; /* a reference: what is to be there until this one is done */
        struct {
            CUdeviceptr address;
            uintptr_t site;
            struct vclock order; /* what the free is ordered after */
        } freed;
        size_t transferred; /* bytes */
        struct {
            CUdeviceptr address;
            unsigned int flags;
            uint64_t stream; /* its id */
        } attached;
        struct {
            struct value_step *steps; /* owned */
            size_t count;
        } values;
        struct {
            void *slot;
            uint64_t count;
        } shared_event;
    } as;
};

struct op *op_create(const char *name, CUresult (*run)(struct op *op));
struct op *op_marker(const char *name);
void op_access(struct op *op, CUdeviceptr address, size_t size, bool write);
struct op *op_keep(struct op *op);
void op_drop(struct op *op);

#endif
