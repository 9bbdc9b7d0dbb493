/* Hooks of the driver's functions that are asked about a pointer.
 *
 * The driver answers each question, and is asked once: it alone knows whether it answers at all
 * just now (in a stream's callback it does not, nor after a kernel's fault). What the pool knows
 * decides what it is asked about, and corrects what it says: natively an idle block does not exist,
 * nor what lies beyond the program's own request. */
#include "base/planted.h"
#include "interpose/checked.h"
#include "interpose/driver_hooks.h"

struct place {
    enum pool_pointer_state state;
    CUdeviceptr base; /* of what the program has asked for */
    size_t bytes;
    bool part; /* of an allocation of the driver's */
    CUcontext context;
    bool alone;   /* a handle of the driver's stands for this block and nothing else */
    bool checked; /* it lies between zones of the check's */
};

static struct place find_place(struct pool *pool, CUdeviceptr pointer) {
    struct pool_place block = pool_find_place(pool, pointer);
    struct place place = {.state = block.state,
                          .base = block.base,
                          .bytes = block.requested,
                          .part = block.part,
                          .context = block.context,
                          .alone = block.alone};
    struct place checked = {.part = block.part, .context = block.context, .checked = true};
    if (state_check())
        checked.state = check_find(state_check(), pointer, &checked.base, &checked.bytes);
    return checked.state != POOL_POINTER_UNKNOWN ? checked : place;
}

/* What the driver is to be asked about. */
static CUdeviceptr asked(const struct place *place, CUdeviceptr pointer) {
    return place->state == POOL_POINTER_IDLE ? POOL_NOWHERE : pointer;
}

/* The driver's answer, which is an error for what does not exist. */
static CUresult answer(const struct place *place, CUresult result, CUresult error) {
    return place->state == POOL_POINTER_IDLE && result == CUDA_SUCCESS ? error : result;
}

CUdeviceptr hook_asked(struct pool *pool, CUdeviceptr pointer) {
    struct place place = find_place(pool, pointer);
    return asked(&place, pointer);
}

enum pool_pointer_state hook_find(struct pool *pool, CUdeviceptr pointer, CUdeviceptr *base,
                                  size_t *bytes) {
    struct place place = find_place(pool, pointer);
    *base = place.base;
    *bytes = place.bytes;
    return place.state;
}

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
    CUdeviceptr start;
    size_t size;
    if (!real_has(HOOK_cuMemGetAddressRange_v2, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemGetAddressRange_v2)(base, bytes, pointer);
    struct place place = find_place(pool, pointer);
    CUresult result = PLANTED(answered_from_books) && place.state == POOL_POINTER_LIVE
                          ? CUDA_SUCCESS
                          : REAL(cuMemGetAddressRange_v2)(&start, &size, asked(&place, pointer));
    result = answer(&place, result, CUDA_ERROR_NOT_FOUND);
    bool ours = place.state == POOL_POINTER_LIVE;
    if (result == CUDA_SUCCESS && base)
        *base = ours ? place.base : start;
    if (result == CUDA_SUCCESS && bytes)
        *bytes = ours ? place.bytes : size;
    return state_end_call_with(pool, result);
}

/* Why there can be no handle of a live block. */
struct refusal {
    CUresult result;
    const char *line;
};

static const struct refusal between_zones = {
    CUDA_ERROR_NOT_SUPPORTED,
    "poolcuda: with POOLCUDA_CHECK a block lies between zones that a handle would stand for, too: "
    "memory cannot be shared with other processes"};
static const struct refusal not_alone = {
    CUDA_ERROR_INVALID_VALUE,
    "poolcuda: cuIpcGetMemHandle: with this POOLCUDA_POLICY a block is no allocation of its own "
    "and cannot be shared with a process; use POOLCUDA_POLICY=site"};

/* whole: the handle would stand for a whole allocation of the driver's. NULL: there can be one. */
static const struct refusal *refuse_handle(const struct place *place, bool whole) {
    if (place->state != POOL_POINTER_LIVE)
        return NULL;
    if (place->checked)
        return &between_zones;
    return whole && !place->alone ? &not_alone : NULL;
}

/* What becomes of the driver's answer about POOL_NOWHERE if that is the only reason to refuse. */
static CUresult tell_refusal(const struct refusal *refusal, CUresult result) {
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE)
        return result;
    state_say_once(refusal->line);
    return refusal->result;
}

/* The driver's answer to a call that ties state to the allocation at `pointer`; the block is then
 * really freed one day. Others may look at it without a call of ours: no wait may be owed. The last
 * arguments are the call's, `pointer` among them. */
#define SHARE(name, whole, reason, ...)                                                            \
    do {                                                                                           \
        if (!real_has(HOOK_##name, 0))                                                             \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
        struct pool *pool = state_begin_call();                                                    \
        if (!pool)                                                                                 \
            return REAL(name)(__VA_ARGS__);                                                        \
        struct place place = find_place(pool, pointer);                                            \
        const struct refusal *refusal = refuse_handle(&place, whole);                              \
        if (!refusal) {                                                                            \
            pool_reason_stays(pool, WAIT_REASON_exported);                                         \
            pool_pay(pool, #name);                                                                 \
        }                                                                                          \
        pointer = refusal ? POOL_NOWHERE : asked(&place, pointer);                                 \
        CUresult result = answer(&place, REAL(name)(__VA_ARGS__), CUDA_ERROR_INVALID_VALUE);       \
        if (refusal)                                                                               \
            result = tell_refusal(refusal, result);                                                \
        if (result == CUDA_SUCCESS)                                                                \
            pool_taint(pool, pointer, reason);                                                     \
        return state_end_call_with(pool, result);                                                  \
    } while (0)

CUresult hook_cuIpcGetMemHandle(void *handle, CUdeviceptr pointer) {
    SHARE(cuIpcGetMemHandle, true, POOL_TAINT_IPC, handle, pointer);
}

CUresult hook_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr pointer, size_t bytes,
                                            int type, unsigned long long flags) {
    SHARE(cuMemGetHandleForAddressRange, false, POOL_TAINT_DMA_BUF, handle, pointer, bytes, type,
          flags);
}

/* What the driver has told about a live block, as it would be without us. Some attributes tie
 * something outside our sight to the allocation by being read. */
static void correct_attribute(struct pool *pool, CUpointer_attribute attribute, void *data,
                              const struct place *place) {
    if (place->state != POOL_POINTER_LIVE)
        return;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: /* mapped memory has none */
        if (place->part && !*(CUcontext *)data)
            *(CUcontext *)data = place->context;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = place->base;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = place->bytes;
        break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        pool_reason_stays(pool, WAIT_REASON_exported);
        pool_taint(pool, place->base, POOL_TAINT_P2P_TOKEN);
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        if (place->part)
            *(unsigned long long *)data = pool_suballocation_identity(pool, place->base);
        else
            pool_taint(pool, place->base, POOL_TAINT_BUFFER_ID);
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: /* a truth value, of 1 or 4 bytes */
        if (refuse_handle(place, true))
            *(unsigned char *)data = 0;
        break;
    default:
        break;
    }
}

CUresult hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                    CUdeviceptr pointer) {
    if (!real_has(HOOK_cuPointerGetAttribute, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuPointerGetAttribute)(data, attribute, pointer);
    struct place place = find_place(pool, pointer);
    CUresult result = REAL(cuPointerGetAttribute)(data, attribute, asked(&place, pointer));
    result = answer(&place, result, CUDA_ERROR_INVALID_VALUE);
    if (result == CUDA_SUCCESS)
        correct_attribute(pool, attribute, data, &place);
    return state_end_call_with(pool, result);
}

/* Unlike the single form, this one answers for no allocation as well, with null values [cuda.h]. */
CUresult hook_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                     void **data, CUdeviceptr pointer) {
    if (!real_has(HOOK_cuPointerGetAttributes, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuPointerGetAttributes)(count, attributes, data, pointer);
    struct place place = find_place(pool, pointer);
    CUresult result = REAL(cuPointerGetAttributes)(count, attributes, data, asked(&place, pointer));
    for (unsigned int i = 0; result == CUDA_SUCCESS && i < count; i++)
        correct_attribute(pool, attributes[i], data[i], &place);
    return state_end_call_with(pool, result);
}

CUresult hook_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                    CUdeviceptr pointer) {
    if (!real_has(HOOK_cuPointerSetAttribute, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuPointerSetAttribute)(value, attribute, pointer);
    pool_pay(pool, "cuPointerSetAttribute");
    struct place place = find_place(pool, pointer);
    CUresult result = REAL(cuPointerSetAttribute)(value, attribute, asked(&place, pointer));
    result = answer(&place, result, CUDA_ERROR_INVALID_VALUE);
    if (result == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        pool_taint(pool, pointer, POOL_TAINT_SYNC_MEMOPS);
    return state_end_call_with(pool, result);
}
