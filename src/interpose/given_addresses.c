#include "interpose/given_addresses.h"

#include "base/planted.h"
#include "interpose/host_addresses.h"
#include "interpose/launch_arguments.h"

#include <stddef.h>

/* Copies to the device of up to so many bytes are looked through: a struct, or a few. Data are
 * larger, and every whole number among them would be asked about. */
enum { CONTENT_BYTES = 1024 };

enum form {
    FORM__,
    FORM_ADDRESS,
    FORM_EACH,
    FORM_KERNEL,
    FORM_KERNELS,
    FORM_BYTES,
    FORM_KERNEL_NODE,
    FORM_KERNEL_NODE_1,
    FORM_NODE,
    FORM_MEMSET_NODE,
    FORM_COPY_IN,
    FORM_CONTENT,
    FORM_CONTENTS,
    FORM_COPY_2D,
    FORM_COPY_3D,
    FORM_COPY_NODE,
    FORM_PACKED,
    FORM_TEXTURE,
    FORM_OPERATIONS,
    FORM_BATCH_NODE,
    FORM_UNREAD,
    FORM_FORGET,
};
enum { NONE = 0xff };

static const struct given {
    uint8_t form, at[3];
} given[ENTRIES + 1] = {
#define GIVES(symbol, form, first, second, third)                                                  \
    [ENTRY_NUMBER_##symbol] = {FORM_##form, {first, second, third}},
#include "interpose/given_addresses.def"
#undef GIVES
    [GIVEN_UNKNOWN] = {FORM_UNREAD, {NONE, NONE, NONE}},
};

atomic_bool given_nobody_looks;
static atomic_bool somebody_looks;

bool given_is_of(unsigned row) {
    return given[row].form != FORM__;
}

/* One call's arguments, and what all looks at them have in common. */
struct look {
    const struct call_arguments *arguments;
    const struct given *given;
    uint64_t now;
    struct pool *pool;
};

static uint64_t word(const struct look *look, unsigned which) {
    unsigned at = look->given->at[which];
    return at == NONE ? 0 : call_argument(look->arguments, at);
}

static const void *pointer(const struct look *look, unsigned which) {
    return (const void *)(uintptr_t)word(look, which); // NOLINT(performance-no-int-to-ptr)
}

/* Whether the call may be put into a graph: one that waits is not. */
static bool is_captured(const struct look *look) {
    return entry_points[look->given - given].sync != SYNC_copy && pool_is_capturing(look->pool);
}

/* A graph copies what is there when it is launched, which may be an address by then. To look at
 * each launch will not do: another thread may be unmapping the memory of a graph that is not
 * launched. */
static bool gives_later(uint64_t from, uint64_t bytes) {
    return bytes && bytes <= CONTENT_BYTES && host_can_change(from);
}

/* What is copied to the device. It need not be readable: memory of another device, or an error. */
static bool is_in_content(const struct look *look, uint64_t from, uint64_t bytes) {
    return bytes <= CONTENT_BYTES && (host_addresses_in(from, bytes, look->now) ||
                                      (is_captured(look) && gives_later(from, bytes)));
}

static bool is_in_contents(const struct look *look) {
    const CUdeviceptr *from = pointer(look, 0);
    const size_t *sizes = pointer(look, 1);
    uint64_t count = from && sizes ? word(look, 2) : 0;
    for (uint64_t i = 0; i < count; i++)
        if (is_in_content(look, from[i], sizes[i]))
            return true;
    return false;
}

static bool is_in_array(const struct look *look, size_t size) {
    const void *array = pointer(look, 0);
    return array && host_addresses_among(array, word(look, 1) * size, look->now);
}

static bool is_in_launches(const struct look *look) {
    const CUDA_LAUNCH_PARAMS *launches = pointer(look, 0);
    uint64_t count = launches ? (unsigned)word(look, 1) : 0;
    for (uint64_t i = 0; i < count; i++)
        if (launch_gives_host_address(launches[i].function, launches[i].kernelParams, NULL,
                                      look->now))
            return true;
    return false;
}

/* kernel: in the function's place, where that is NULL. */
static bool is_in_kernel_node_1(const CUDA_KERNEL_NODE_PARAMS_v1 *node, CUkernel kernel,
                                uint64_t now) {
    return node && launch_gives_host_address(node->func ? node->func : (CUfunction)kernel,
                                             node->kernelParams, node->extra, now);
}

/* It begins as the first version does. */
static bool is_in_kernel_node(const CUDA_KERNEL_NODE_PARAMS_v2 *node, uint64_t now) {
    return node && is_in_kernel_node_1((const CUDA_KERNEL_NODE_PARAMS_v1 *)(const void *)node,
                                       node->kern, now);
}

static bool is_of_side(CUmemorytype type, CUdeviceptr address, uint64_t now) {
    return type == CU_MEMORYTYPE_DEVICE && host_address_is(address, now);
}

/* With a unified type an address may as well be the host's, for which the copy is a usual one. */
#define IS_IN_COPY(copy, now)                                                                      \
    (is_of_side((copy)->srcMemoryType, (copy)->srcDevice, now) ||                                  \
     is_of_side((copy)->dstMemoryType, (copy)->dstDevice, now))

static bool is_in_copy_2d(const CUDA_MEMCPY2D *copy, uint64_t now) {
    return copy && IS_IN_COPY(copy, now);
}

static bool is_in_copy_3d(const CUDA_MEMCPY3D *copy, uint64_t now) {
    return copy && IS_IN_COPY(copy, now);
}
_Static_assert(offsetof(CUDA_MEMCPY3D, dstDevice) == offsetof(CUDA_MEMCPY3D_PEER, dstDevice),
               "copies between contexts have the same layout");

static bool is_in_copy_node(const CUDA_MEMCPY3D *copy, uint64_t now) {
    if (!copy || is_in_copy_3d(copy, now))
        return copy != NULL;
    bool to_device =
        copy->dstMemoryType == CU_MEMORYTYPE_DEVICE || copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED;
    bool is_line = copy->Height <= 1 && copy->Depth <= 1;
    uint64_t from = copy->srcMemoryType == CU_MEMORYTYPE_HOST      ? (uintptr_t)copy->srcHost
                    : copy->srcMemoryType == CU_MEMORYTYPE_UNIFIED ? copy->srcDevice
                                                                   : 0;
    return to_device && is_line && from &&
           gives_later(from + copy->srcXInBytes, copy->WidthInBytes);
}

/* Values that a stream waits for or writes: a written one of 64 bits may be an address as well.
 * Barriers and flushes have none. */
static bool is_in_operations(const CUstreamBatchMemOpParams *operations, unsigned count,
                             uint64_t now) {
    for (unsigned i = 0; operations && i < count; i++)
        switch (operations[i].operation) {
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            if (host_address_is(operations[i].writeValue.value64, now))
                return true;
            /* fall through */
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            if (host_address_is(operations[i].writeValue.address, now))
                return true;
            break;
        default:
            break;
        }
    return false;
}
_Static_assert(offsetof(CUstreamBatchMemOpParams, writeValue.address) ==
                   offsetof(CUstreamBatchMemOpParams, waitValue.address),
               "the same place of both");

static bool is_in_batch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch, uint64_t now) {
    return batch && is_in_operations(batch->paramArray, batch->count, now);
}

/* CUgraphNodeParams, which is newer than the oldest headers: what is read of it. */
struct node_parameters {
    CUgraphNodeType type;
    int reserved[3];
    union {
        CUDA_KERNEL_NODE_PARAMS_v2 kernel;
        struct {
            int flags, reserved;
            CUcontext context;
            CUDA_MEMCPY3D copy;
        } copying;
        CUdeviceptr set;
        CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
    };
};
enum { DECOMPRESSION_BYTES = 64 }; /* CUmemDecompressParams is as new */
#if CUDA_VERSION >= 13000
_Static_assert(offsetof(CUgraphNodeParams, kernel) == offsetof(struct node_parameters, kernel) &&
                   offsetof(CUgraphNodeParams, kernel.kern) ==
                       offsetof(struct node_parameters, kernel.kern) &&
                   offsetof(CUgraphNodeParams, memcpy.copyParams) ==
                       offsetof(struct node_parameters, copying.copy) &&
                   offsetof(CUgraphNodeParams, memset.dst) ==
                       offsetof(struct node_parameters, set) &&
                   offsetof(CUgraphNodeParams, memOp.paramArray) ==
                       offsetof(struct node_parameters, batch.paramArray),
               "the same layout");
_Static_assert(sizeof(CUmemDecompressParams) == DECOMPRESSION_BYTES, "the same size");
#endif

static bool is_in_node(const struct node_parameters *node, uint64_t now) {
    if (!node)
        return false;
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return is_in_kernel_node(&node->kernel, now);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return is_in_copy_node(&node->copying.copy, now);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return host_address_is(node->set, now);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return is_in_batch(&node->batch, now);
    default:
        return false;
    }
}

static bool is_in_texture(const CUDA_RESOURCE_DESC *texture, uint64_t now) {
    return texture &&
           (texture->resType == CU_RESOURCE_TYPE_LINEAR ||
            texture->resType == CU_RESOURCE_TYPE_PITCH2D) &&
           host_address_is(texture->res.linear.devPtr, now);
}

static bool gives(const struct look *look) {
    uint64_t now = look->now;
    switch ((enum form)look->given->form) {
    case FORM_ADDRESS:
        return host_address_is(word(look, 0), now) || host_address_is(word(look, 1), now);
    case FORM_EACH:
        return is_in_array(look, sizeof(CUdeviceptr));
    case FORM_KERNEL:
        return launch_gives_host_address((CUfunction)pointer(look, 0),
                                         (void *const *)pointer(look, 1),
                                         (void *const *)pointer(look, 2), now);
    case FORM_KERNELS:
        return is_in_launches(look);
    case FORM_BYTES:
        return pointer(look, 0) &&
               host_addresses_among(pointer(look, 0), (unsigned)word(look, 1), now);
    case FORM_KERNEL_NODE_1:
        return is_in_kernel_node_1(pointer(look, 0), NULL, now);
    case FORM_KERNEL_NODE:
        return is_in_kernel_node(pointer(look, 0), now);
    case FORM_NODE:
        return is_in_node(pointer(look, 0), now);
    case FORM_MEMSET_NODE:
        return pointer(look, 0) &&
               host_address_is(((const CUDA_MEMSET_NODE_PARAMS *)pointer(look, 0))->dst, now);
    case FORM_COPY_IN:
        return host_address_is(word(look, 0), now) ||
               is_in_content(look, word(look, 1), word(look, 2));
    case FORM_CONTENT:
        return is_in_content(look, word(look, 0), word(look, 1));
    case FORM_CONTENTS:
        return is_in_contents(look);
    case FORM_COPY_2D:
        return is_in_copy_2d(pointer(look, 0), now);
    case FORM_COPY_3D:
        return is_in_copy_3d(pointer(look, 0), now);
    case FORM_COPY_NODE:
        return is_in_copy_node(pointer(look, 0), now);
    case FORM_PACKED:
        return is_in_array(look, DECOMPRESSION_BYTES);
    case FORM_TEXTURE:
        return is_in_texture(pointer(look, 0), now);
    case FORM_OPERATIONS:
        return is_in_operations(pointer(look, 0), (unsigned)word(look, 1), now);
    case FORM_BATCH_NODE:
        return is_in_batch(pointer(look, 0), now);
    case FORM_UNREAD:
        return true;
    case FORM__:
    case FORM_FORGET:
        break;
    }
    return false;
}

/* Whether there is anything to look for; the driver can say once the program has initialised it. */
static bool is_needed(struct pool *pool) {
    if (atomic_load_explicit(&somebody_looks, memory_order_relaxed))
        return true;
    switch (pool_awaits_host_addresses(pool)) {
    case POOL_AWAITS_THE_FIRST:
        atomic_store(&somebody_looks, true);
        return true;
    case POOL_AWAITS_NEVER:
        atomic_store(&given_nobody_looks, true);
        return false;
    case POOL_AWAITS_NOT_YET:
        break;
    }
    return false;
}

void given_look(struct pool *pool, unsigned row, const struct call_arguments *arguments) {
    if (!is_needed(pool))
        return;
    if (given[row].form == FORM_FORGET) {
        given_forget();
        return;
    }
    struct look look = {arguments, &given[row], host_addresses_begin(), pool};
    if (!gives(&look) || PLANTED(host_address_unseen))
        return;
    pool_host_address_given(pool);
    atomic_store(&given_nobody_looks, true);
}

void given_forget(void) {
    host_addresses_forget();
    launch_arguments_forget();
}

void given_forget_after_fork(void) {
    given_forget();
    atomic_store(&somebody_looks, false);
    atomic_store(&given_nobody_looks, false);
}
