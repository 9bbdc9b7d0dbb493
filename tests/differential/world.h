/* What a random program has made so far, and the order of work that it may count on. */
#ifndef TESTS_DIFFERENTIAL_WORLD_H
#define TESTS_DIFFERENTIAL_WORLD_H

#include "driver/cuda_api.h"
#include "program.h"

#include <stdatomic.h>

enum {
    BLOCKS = 24,
    STREAMS = 6,
    PINNED = 4,
    HOST_BLOCKS = 8,
    MANAGED_BLOCKS = 8,
    EVENTS = 4,
    ARRAYS = 3,
    CONTEXTS = 4,
    FREED = 8,
    WORDS = 64,
    IDENTITIES = 64
};

/* Streams of a context, by number. LOST_STREAM: one that was destroyed, whose work may still run.
 */
enum { LEGACY, PER_THREAD_STREAM, FIRST_CREATED, LOST_STREAM = -2 };

/* A stream of a context. 0 and 1 are the legacy stream and the main thread's own. */
struct stream {
    CUstream handle;
    bool exists, non_blocking;
};

struct context {
    CUcontext handle;
    CUdevice device;
    bool primary;
    CUmodule module;
    CUfunction fill, add, spin, fault, wait_flag, early_fill;
    struct stream streams[STREAMS];
    size_t pending;   /* bytes freed in stream order, which the device need not have back yet */
    CUdeviceptr flag; /* in device memory, for kernels that wait for it; 0: none yet */
};

/* A live block, or none (pointer 0). */
struct block {
    CUdeviceptr pointer;
    size_t size;
    int context;
    int stream;                  /* whose work used it last and may still run; -1: none */
    bool written;                /* all of its first WORDS words */
    bool ordered;                /* allocated in the order of a stream */
    bool synchronous;            /* copies and memsets of it end before their calls return */
    unsigned long long identity; /* as the driver told, 0 if it was not asked */
};

/* Pinned memory to which a copy may be under way. */
struct pinned {
    uint32_t *host;
    int context;
    bool pending;
};

/* An array, a mipmapped one or none. */
struct array {
    CUarray handle;
    CUmipmappedArray mipmap; /* whose first level `handle` is */
    size_t bytes;
    int context;
};

struct event {
    CUevent handle;
    int context;
    bool recorded;
};

/* A kernel that runs until a flag is set: in pinned memory, by the host, or in device memory, by a
 * stream that is made for it. */
struct hold {
    bool active;
    int context, stream;
    uint32_t *pinned; /* NULL: the context's flag in device memory */
};

/* What a function of the host's was told when it called the driver. */
struct inside {
    bool pending;
    int context;
    CUdeviceptr block;
    CUresult results[5];
};

struct world {
    FILE *transcript;
    bool relies, roomy, careful, crowds, spreads;
    struct context contexts[CONTEXTS];
    int context_count, current;
    struct block blocks[BLOCKS];
    struct pinned pinned[PINNED];
    struct block host_blocks[HOST_BLOCKS]; /* pinned memory, by the host's address */
    struct block managed_blocks[MANAGED_BLOCKS];
    struct event events[EVENTS];
    struct array arrays[ARRAYS];
    CUdeviceptr freed[FREED]; /* addresses of freed blocks, until something is allocated */
    int freed_count;
    size_t total;              /* of each device */
    size_t held[2];            /* by this program, in whole pages, by device */
    atomic_int called;         /* by host functions */
    atomic_int allowed;        /* there: calls that were not refused */
    _Atomic CUdeviceptr asked; /* there: about this pointer */
    int calls_submitted, calls_context;
    unsigned long long identities[IDENTITIES]; /* of blocks that were freed */
    int identity_count;
    struct hold hold;
    struct inside inside;
    bool synchronous; /* copies and memsets of any block may be so */
    bool over;        /* the context is lost: nothing more can be printed */
};

/* The first words of all results: one line each, `name` and the code. */
void tell(struct world *world, const char *name, CUresult result);

bool world_start(struct world *world);
struct context *world_add_context(struct world *world, CUcontext handle, CUdevice device);
/* The primary context in its place, which has been reset; false if it cannot be used. */
bool world_renew_primary(struct world *world);
/* Everything that work submitted to the current context could still do is done. */
void world_settled(struct world *world, int context);
/* Whatever was freed in stream order, in any context, the device has back. */
void world_settle_pending(struct world *world);
/* Ends the hold, if there is one: to be called before whatever natively waits for it. */
void world_let_go(struct world *world);
/* Whether what is in that stream of a context may wait for the held one. */
bool world_is_held(const struct world *world, int context, int stream);
/* Makes the next use of `block` in `stream` come after its last one. */
void world_order(struct world *world, struct block *block, int stream);
/* The stream that `number` chooses among those of the current context. */
int world_stream(struct world *world, uint32_t number);
/* A live block of the current context, NULL if there is none. */
struct block *world_block(struct world *world, uint32_t number);
/* What a block of that size takes from the device. */
size_t world_footprint(size_t size);
/* What the program has of the current context's device, what else it may take of it (a pool loses
 * some to pages and rounding), and whether it has more than that: see do_temporaries. */
size_t world_held(const struct world *world);
size_t world_room(const struct world *world);
bool world_is_crowded(const struct world *world);
/* Live blocks that share pages, each of which may keep a page that it alone uses. */
int world_small_blocks(const struct world *world);
size_t world_size_from(uint32_t number);
/* A place for a block, NULL if there is none; and the block that is in it from now on. */
struct block *world_empty_slot(struct world *world, uint32_t number);
void world_adopt(struct world *world, struct block *block, CUdeviceptr pointer, size_t size);

#endif
