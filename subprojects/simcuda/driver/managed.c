/* What a program says about managed memory: advice, prefetches, the streams that it is attached to.
 *
 * None of it changes what a kernel or the CPU finds there: all devices have concurrent managed
 * access. It is kept by pages, so that it can be asked for. Only managed memory is taken, not the
 * process's own where devices reach that. */
#include "managed.h"

#include "allocate.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "lock.h"
#include "settings.h"

#include <stdlib.h>
#include <unistd.h>

/* CUmemLocationType by number: older headers do not have all of them. */
enum { NOWHERE, ON_DEVICE, ON_HOST, ON_HOST_NODE, ON_NEAREST_NODE };

struct place {
    uint8_t type, id; /* the id counts for devices and nodes */
};

struct page_state {
    struct place preferred, prefetched;
    uint16_t accessed_by; /* bits: of devices by ordinal, and */
    bool read_mostly;
};
enum { ACCESSED_BY_CPU = DEVICES_MAX };

/* What belongs to one block. Invariant: association is one of CUmemAttach_flags; stream counts for
 * SINGLE. */
struct managed {
    unsigned int association;
    uint64_t stream; /* its id */
    struct page_state pages[];
};

struct range {
    struct block *block;
    size_t first, last; /* pages, both included */
};

static size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static struct managed *state_of(struct block *block) {
    size_t pages = block->extent / page_size();

    if (block->managed == NULL) {
        block->managed =
            allocate_zeroed(sizeof *block->managed + pages * sizeof *block->managed->pages);
        block->managed->association = block->flags;
    }
    return block->managed;
}

void managed_block_ended(struct block *block) {
    sim_check_held();
    free(block->managed);
    block->managed = NULL;
}

static struct block *managed_block(CUdeviceptr address) {
    struct block *block = memory_containing(address);

    return block != NULL && block->kind == MEMORY_MANAGED && !block->freeing ? block : NULL;
}

/* The pages that [address, address + size) touches. */
static CUresult find_range(CUdeviceptr address, size_t size, struct range *range) {
    struct block *block = managed_block(address);
    size_t offset = block != NULL ? address - block->address : 0;

    if (block == NULL || size == 0 || offset >= block->size || size > block->size - offset)
        return CUDA_ERROR_INVALID_VALUE;
    *range = (struct range){block, offset / page_size(), (offset + size - 1) / page_size()};
    return CUDA_SUCCESS;
}

static CUmemLocation location_of(CUdevice device) {
    return (CUmemLocation){
        .type = (CUmemLocationType)(device == CU_DEVICE_CPU ? ON_HOST : ON_DEVICE), .id = device};
}

/* There is one host node. */
static CUresult find_place(CUmemLocation location, struct place *place) {
    CUresult result = CUDA_SUCCESS;

    switch ((int)location.type) {
    case ON_DEVICE:
        result = device_check(location.id);
        *place = (struct place){ON_DEVICE, (uint8_t)location.id};
        return result;
    case ON_HOST:
        *place = (struct place){ON_HOST, 0};
        return CUDA_SUCCESS;
    case ON_HOST_NODE:
        *place = (struct place){ON_HOST_NODE, 0};
        return location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case ON_NEAREST_NODE:
        *place = (struct place){ON_HOST_NODE, 0};
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* --- advice --- */

static CUresult find_accessor(CUmemLocation location, uint16_t *bit) {
    struct place place;
    CUresult result = find_place(location, &place);

    if (result == CUDA_SUCCESS && place.type == ON_HOST_NODE)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *bit = (uint16_t)(1u << (place.type == ON_HOST ? ACCESSED_BY_CPU : place.id));
    return result;
}

static CUresult advise_range(const struct range *range, CUmem_advise advice,
                             CUmemLocation location) {
    struct page_state *pages = state_of(range->block)->pages;
    struct place place = {NOWHERE, 0};
    uint16_t bit = 0;
    CUresult result = CUDA_SUCCESS;

    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION)
        result = find_place(location, &place);
    if (advice >= CU_MEM_ADVISE_SET_ACCESSED_BY)
        result = find_accessor(location, &bit);
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t i = range->first; i <= range->last; i++) {
        if (advice <= CU_MEM_ADVISE_UNSET_READ_MOSTLY)
            pages[i].read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        else if (advice <= CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
            pages[i].preferred = place;
        else if (advice == CU_MEM_ADVISE_SET_ACCESSED_BY)
            pages[i].accessed_by |= bit;
        else
            pages[i].accessed_by &= (uint16_t)~bit;
    }
    return CUDA_SUCCESS;
}

static CUresult advise(CUdeviceptr address, size_t size, CUmem_advise advice,
                       CUmemLocation location) {
    struct CUctx_st *context;
    struct range range;

    sim_lock();
    CUresult result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = find_range(address, size, &range);
    if (result == CUDA_SUCCESS)
        result = advise_range(&range, advice, location);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t size, CUmem_advise advice,
                                CUdevice device) {
    ENTER(cuMemAdvise);
    return advise(address, size, advice, location_of(device));
}

SIM_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice,
                                   CUmemLocation location) {
    ENTER(cuMemAdvise_v2);
    return advise(address, size, advice, location);
}

/* --- prefetches and discards --- */

/* What a stream is given to do: transfers that nobody has to wait for, as accesses are coherent
 * meanwhile [cuda.h, cuMemPrefetchAsync]. */
static CUresult run_transfer(struct op *op) {
    cost_spend_transfer(op->as.transferred, settings()->copy_gbps);
    return CUDA_SUCCESS;
}

static CUresult enqueue_transfer(struct CUstream_st *stream, size_t size) {
    struct op *op = op_create("prefetch", run_transfer);

    op->as.transferred = size;
    return stream_run(stream, op, false);
}

/* What is said of its place is the last request, whether or not it has been carried out. */
static void note_prefetch(const struct range *range, struct place place) {
    struct page_state *pages = state_of(range->block)->pages;

    for (size_t i = range->first; i <= range->last; i++)
        pages[i].prefetched = place;
}

/* A stream that may be given such work. [capture:unsafe-managed] assumed */
static CUresult working_stream(CUstream handle, enum null_stream null_stream,
                               struct CUstream_st **stream) {
    CUresult result = stream_current(handle, null_stream, stream);

    if (result == CUDA_SUCCESS)
        result = capture_check_stream(*stream);
    return result == CUDA_SUCCESS ? capture_check_legacy(*stream) : result;
}

static CUresult prefetch(CUdeviceptr address, size_t size, CUmemLocation location,
                         unsigned int flags, CUstream handle, enum null_stream null_stream) {
    struct CUstream_st *stream;
    struct range range;
    struct place place;

    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = working_stream(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = find_range(address, size, &range);
    if (result == CUDA_SUCCESS)
        result = find_place(location, &place);
    if (result == CUDA_SUCCESS)
        result = enqueue_transfer(stream, size);
    if (result == CUDA_SUCCESS)
        note_prefetch(&range, place);
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuMemPrefetchAsync, _ptsz,
             (CUdeviceptr address, size_t size, CUdevice device, CUstream stream),
             prefetch(address, size, location_of(device), 0, stream, null_stream))
EXPORT_FORMS(cuMemPrefetchAsync_v2, _ptsz,
             (CUdeviceptr address, size_t size, CUmemLocation location, unsigned int flags,
              CUstream stream),
             prefetch(address, size, location, flags, stream, null_stream))

/* place_count 0: they are only discarded, which leaves nothing that could be asked for. */
struct batch {
    const CUdeviceptr *addresses;
    const size_t *sizes;
    size_t count;
    const CUmemLocation *places;
    const size_t *first; /* the ranges that each place applies to begin there */
    size_t place_count;
    unsigned long long flags;
};

static CUresult check_batch(const struct batch *batch) {
    bool prefetches = batch->place_count > 0;

    if (batch->addresses == NULL || batch->sizes == NULL || batch->count == 0 ||
        batch->flags != 0 || batch->place_count > batch->count)
        return CUDA_ERROR_INVALID_VALUE;
    if (prefetches && (batch->places == NULL || batch->first == NULL || batch->first[0] != 0))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 1; i < batch->place_count; i++)
        if (batch->first[i] <= batch->first[i - 1] || batch->first[i] >= batch->count)
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Twice: all of it is looked at before anything is done. */
static CUresult go_through(const struct batch *batch, bool carry_out) {
    CUresult result = CUDA_SUCCESS;
    size_t next = 0;
    struct place place = {NOWHERE, 0};
    struct range range;

    for (size_t i = 0; i < batch->count && result == CUDA_SUCCESS; i++) {
        if (next < batch->place_count && batch->first[next] == i)
            result = find_place(batch->places[next++], &place);
        if (result == CUDA_SUCCESS)
            result = find_range(batch->addresses[i], batch->sizes[i], &range);
        if (result == CUDA_SUCCESS && carry_out && batch->place_count > 0)
            note_prefetch(&range, place);
    }
    return result;
}

static CUresult run_batch(struct batch batch, CUstream handle, enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result = check_batch(&batch);
    size_t size = 0;

    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = working_stream(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && stream->kind == STREAM_LEGACY)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = go_through(&batch, false);
    for (size_t i = 0; i < batch.count; i++)
        size += batch.place_count > 0 ? batch.sizes[i] : 0;
    if (result == CUDA_SUCCESS)
        result = enqueue_transfer(stream, size);
    if (result == CUDA_SUCCESS)
        go_through(&batch, true);
    sim_unlock();
    return result;
}

#define BATCH_OF_PLACES                                                                            \
    (CUdeviceptr * addresses, size_t * sizes, size_t count, CUmemLocation * places,                \
     size_t * first, size_t place_count, unsigned long long flags, CUstream stream)

/* One without a place is no prefetch. */
static CUresult run_prefetches(struct batch batch, CUstream stream, enum null_stream null_stream) {
    return batch.place_count > 0 ? run_batch(batch, stream, null_stream) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT_FORMS(cuMemPrefetchBatchAsync, _ptsz, BATCH_OF_PLACES,
             run_prefetches((struct batch){addresses, sizes, count, places, first, place_count,
                                           flags},
                            stream, null_stream))
EXPORT_FORMS(cuMemDiscardAndPrefetchBatchAsync, _ptsz, BATCH_OF_PLACES,
             run_prefetches((struct batch){addresses, sizes, count, places, first, place_count,
                                           flags},
                            stream, null_stream))
EXPORT_FORMS(cuMemDiscardBatchAsync, _ptsz,
             (CUdeviceptr * addresses, size_t *sizes, size_t count, unsigned long long flags,
              CUstream stream),
             run_batch((struct batch){addresses, sizes, count, NULL, NULL, 0, flags}, stream,
                       null_stream))

/* --- streams --- */

/* Takes effect when the stream gets there: [order:attach] cuda.h 15654 */
static CUresult run_attach(struct op *op) {
    sim_lock();
    struct block *block = memory_at(op->as.attached.address);
    if (block != NULL && block->kind == MEMORY_MANAGED) {
        state_of(block)->association = op->as.attached.flags;
        block->managed->stream = op->as.attached.stream;
    }
    sim_unlock();
    return CUDA_SUCCESS;
}

static CUresult check_attach(CUdeviceptr address, size_t size, unsigned int flags,
                             const struct CUstream_st *stream) {
    const struct block *block = managed_block(address);

    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
        flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (block == NULL || block->address != address || (size != 0 && size != block->size))
        return CUDA_ERROR_INVALID_VALUE;
    bool virtual = stream->kind == STREAM_LEGACY || stream->kind == STREAM_PER_THREAD;
    return flags == CU_MEM_ATTACH_SINGLE && virtual ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

static CUresult attach(CUstream handle, CUdeviceptr address, size_t size, unsigned int flags,
                       enum null_stream null_stream) {
    struct CUstream_st *stream;

    sim_lock();
    CUresult result = working_stream(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = check_attach(address, size, flags, stream);
    if (result == CUDA_SUCCESS) {
        struct op *op = op_create("attach", run_attach);
        op->as.attached.address = address;
        op->as.attached.flags = flags;
        op->as.attached.stream = stream->id;
        result = stream_run(stream, op, false);
    }
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamAttachMemAsync, _ptsz,
             (CUstream stream, CUdeviceptr address, size_t size, unsigned int flags),
             attach(stream, address, size, flags, null_stream))

/* What was attached to it goes back to what it was allocated as: [order:attach-ends] cuda.h 15704
 */
void managed_stream_ended(const struct CUstream_st *stream) {
    sim_check_held();
    for (struct block *block = memory_next(NULL); block != NULL; block = memory_next(block))
        if (block->managed != NULL && block->managed->association == CU_MEM_ATTACH_SINGLE &&
            block->managed->stream == stream->id)
            block->managed->association = block->flags;
}

unsigned int simcuda_association(CUdeviceptr address) {
    sim_lock();
    const struct block *block = managed_block(address);
    unsigned int association = block == NULL            ? 0
                               : block->managed != NULL ? block->managed->association
                                                        : block->flags;
    sim_unlock();
    return association;
}

/* --- questions --- */

enum {
    READ_MOSTLY = 1,
    PREFERRED,
    ACCESSED_BY,
    PREFETCHED,
    PREFERRED_TYPE,
    PREFERRED_ID,
    PREFETCHED_TYPE,
    PREFETCHED_ID
};

static bool all_read_mostly(const struct range *range) {
    const struct page_state *pages = state_of(range->block)->pages;
    bool all = true;

    for (size_t i = range->first; i <= range->last; i++)
        all = all && pages[i].read_mostly;
    return all;
}

/* The place that all pages have in common. */
static struct place common_place(const struct range *range, bool preferred) {
    const struct page_state *pages = state_of(range->block)->pages;
    struct place common =
        preferred ? pages[range->first].preferred : pages[range->first].prefetched;

    for (size_t i = range->first; i <= range->last; i++) {
        struct place place = preferred ? pages[i].preferred : pages[i].prefetched;
        if (place.type != common.type || place.id != common.id)
            return (struct place){NOWHERE, 0};
    }
    return common;
}

/* As the attributes of CUDA 8 name it, which know of no nodes. */
static int32_t device_of(struct place place) {
    return place.type == ON_DEVICE ? place.id
           : place.type == NOWHERE ? CU_DEVICE_INVALID
                                   : CU_DEVICE_CPU;
}

static void list_accessors(const struct range *range, int32_t *devices, size_t count) {
    const struct page_state *pages = state_of(range->block)->pages;
    unsigned common = UINT16_MAX;
    size_t found = 0;

    for (size_t i = range->first; i <= range->last; i++)
        common &= pages[i].accessed_by;
    for (int i = 0; i <= ACCESSED_BY_CPU && found < count; i++)
        if (common & 1u << i)
            devices[found++] = i == ACCESSED_BY_CPU ? CU_DEVICE_CPU : i;
    while (found < count)
        devices[found++] = CU_DEVICE_INVALID;
}

static CUresult get(int32_t *data, size_t size, int attribute, const struct range *range) {
    bool is_list = attribute == ACCESSED_BY;

    if (data == NULL || size == 0 || size % sizeof *data != 0 || (!is_list && size != sizeof *data))
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case READ_MOSTLY:
        *data = all_read_mostly(range);
        return CUDA_SUCCESS;
    case ACCESSED_BY:
        list_accessors(range, data, size / sizeof *data);
        return CUDA_SUCCESS;
    case PREFERRED:
    case PREFETCHED:
        *data = device_of(common_place(range, attribute == PREFERRED));
        return CUDA_SUCCESS;
    case PREFERRED_TYPE:
    case PREFETCHED_TYPE:
        *data = common_place(range, attribute == PREFERRED_TYPE).type;
        return CUDA_SUCCESS;
    case PREFERRED_ID:
    case PREFETCHED_ID:
        *data = common_place(range, attribute == PREFERRED_ID).id;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult get_all(void **data, const size_t *sizes, const CUmem_range_attribute *attributes,
                        size_t count, CUdeviceptr address, size_t size) {
    struct CUctx_st *context;
    struct range range;

    if (data == NULL || sizes == NULL || attributes == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = find_range(address, size, &range);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = get(data[i], sizes[i], (int)attributes[i], &range);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute,
                                           CUdeviceptr address, size_t bytes) {
    ENTER(cuMemRangeGetAttribute);
    return get_all(&data, &size, &attribute, 1, address, bytes);
}

SIM_EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *sizes,
                                            CUmem_range_attribute *attributes, size_t count,
                                            CUdeviceptr address, size_t bytes) {
    ENTER(cuMemRangeGetAttributes);
    return get_all(data, sizes, attributes, count, address, bytes);
}

/* Where most samples of [from, to), offsets in the block, were prefetched to last: that memory is
 * there is assumed. Of as many the place that comes first. */
static struct place most_common_place(struct block *block, size_t from, size_t to, size_t step) {
    const struct page_state *pages = state_of(block)->pages;
    size_t counts[ON_HOST_NODE + 1][DEVICES_MAX] = {{0}};
    struct place most = pages[from / page_size()].prefetched;

    for (size_t at = from; at < to; at += step) {
        struct place place = pages[at / page_size()].prefetched;

        counts[place.type][place.id]++;
        if (counts[place.type][place.id] > counts[most.type][most.id])
            most = place;
    }
    return most;
}

SIM_EXPORT CUresult cuMemGetLocationInfo(CUdeviceptr address, size_t size, size_t region,
                                         size_t step, CUmemLocation *out) {
    struct CUctx_st *context;
    struct range range;
    CUresult result;

    ENTER(cuMemGetLocationInfo);
    if (out == NULL || region == 0 || region > size || step > region)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = find_range(address, size, &range);
    for (size_t at = 0; at < size && result == CUDA_SUCCESS; at += region, out++) {
        size_t from = address - range.block->address + at,
               to = from + (size - at < region ? size - at : region);
        struct place place =
            most_common_place(range.block, from, to, step != 0 ? step : page_size());

        *out = (CUmemLocation){.type = (CUmemLocationType)place.type, .id = place.id};
    }
    sim_unlock();
    return result;
}
