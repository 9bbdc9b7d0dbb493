#include "fake_driver.h"

#include "base/lock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct fake_state fake;

struct allocation {
    uint64_t pointer, size;
    uint64_t taken; /* of the device's memory */
    int device;     /* HOST, MANAGED: none */
    struct allocation *next;
};
enum { BUCKETS = 1 << 16, HOST = -1, MANAGED = -2 };
static struct allocation *buckets[BUCKETS];
static uint64_t next_pointer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct allocation **place(uint64_t pointer) {
    struct allocation **link = &buckets[(pointer >> 9) % BUCKETS];
    while (*link && (*link)->pointer != pointer)
        link = &(*link)->next;
    return link;
}

void fake_reset(uint64_t capacity) {
    for (size_t i = 0; i < BUCKETS; i++)
        while (buckets[i]) {
            struct allocation *gone = buckets[i];
            buckets[i] = gone->next;
            if (gone->device < 0)
                free((void *)(uintptr_t)gone->pointer);
            free(gone);
        }
    memset(&fake, 0, sizeof fake);
    fake.capacity = capacity;
    fake.current = fake_context(0, 1);
    fake.quiet = true;
    fake.primary_active = true;
    next_pointer = 1 << 21;
}

CUcontext fake_context(int device, int number) {
    return (CUcontext)(uintptr_t)(number * 16 + device);
}

static int device_of(CUcontext context) {
    return (int)((uintptr_t)context % 16);
}

uint64_t fake_size(CUdeviceptr pointer) {
    pthread_mutex_lock(&lock);
    struct allocation *found = *place(pointer);
    uint64_t size = found ? found->size : 0;
    pthread_mutex_unlock(&lock);
    return size;
}

static uint64_t taken_by(uint64_t bytes) {
    uint64_t unit = bytes > 1 << 20 ? 2 << 20 : 512;
    return fake.pages ? (bytes + unit - 1) / unit * unit : bytes;
}

static CUresult mem_alloc(CUdeviceptr *pointer, size_t bytes) {
    lock_check_none();
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (fake.on_alloc)
        fake.on_alloc();
    if (!pointer || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake.current)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    int device = device_of(fake.current);
    uint64_t taken = taken_by(bytes);
    if (taken <= fake.capacity - fake.used_by[device]) {
        struct allocation *fresh = malloc(sizeof *fresh); /* a test makes calloc fail */
        if (!fresh)
            abort();
        fresh->next = NULL;
        fresh->pointer = next_pointer;
        fresh->size = bytes;
        fresh->taken = taken;
        fresh->device = device;
        next_pointer += (bytes + 511) / 512 * 512;
        *place(fresh->pointer) = fresh;
        fake.used += taken;
        fake.used_by[device] += taken;
        fake.allocs++;
        *pointer = fresh->pointer;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    if (result == CUDA_SUCCESS && fake.on_granted)
        fake.on_granted();
    if (result != CUDA_SUCCESS && fake.on_refusal)
        fake.on_refusal();
    return result;
}

/* Back to the host, with the lock held. */
static void give_back(struct allocation **link) {
    struct allocation *gone = *link;
    *link = gone->next;
    fake.host_used -= gone->size;
    if (gone->device == HOST)
        fake.host_frees++;
    else
        fake.managed_frees++;
    free((void *)(uintptr_t)gone->pointer);
    free(gone);
}

static CUresult mem_free(CUdeviceptr pointer) {
    lock_check_none();
    __atomic_store_n(&fake.freed_in_mode, __atomic_load_n(&fake.capture_mode, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
    if (fake.on_free)
        fake.on_free(pointer);
    if (!pointer)
        return CUDA_SUCCESS;
    if (fake.free_result != CUDA_SUCCESS)
        return fake.free_result;
    pthread_mutex_lock(&lock);
    struct allocation **link = place(pointer), *gone = *link;
    if (gone && gone->device == HOST)
        gone = NULL;
    if (gone && gone->device == MANAGED) {
        give_back(link);
    } else if (gone) {
        *link = gone->next;
        fake.used -= gone->taken;
        fake.used_by[gone->device] -= gone->taken;
        fake.frees++;
        free(gone);
    }
    pthread_mutex_unlock(&lock);
    return gone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult visible_alloc(void **memory, size_t bytes, int device) {
    lock_check_none();
    if (!memory || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct allocation *fresh = NULL;
    if (bytes <= fake.host_capacity - fake.host_used) {
        fresh = malloc(sizeof *fresh);
        *memory = malloc(bytes);
        *fresh = (struct allocation){(uintptr_t)*memory, bytes, 0, device, NULL};
        *place(fresh->pointer) = fresh;
        fake.host_used += bytes;
    }
    pthread_mutex_unlock(&lock);
    return fresh ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult host_alloc(void **memory, size_t bytes, unsigned int flags) {
    CUresult result = visible_alloc(memory, bytes, HOST);
    fake.host_allocs += result == CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        fake.host_flags = flags;
    return result;
}

static CUresult mem_alloc_managed(CUdeviceptr *pointer, size_t bytes, unsigned int flags) {
    void *memory;
    CUresult result = pointer ? visible_alloc(&memory, bytes, MANAGED) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    fake.managed_allocs++;
    fake.managed_flags = flags;
    *pointer = (CUdeviceptr)(uintptr_t)memory;
    return result;
}

static CUresult mem_advise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice,
                           CUdevice device) {
    lock_check_none();
    fake.advices[advice]++;
    fake.advised[advice] = device;
    fake.advised_at = pointer;
    fake.advised_bytes = bytes;
    return fake.advise_result;
}

static CUresult stream_attach_mem(CUstream stream, CUdeviceptr pointer, size_t bytes,
                                  unsigned int flags) {
    lock_check_none();
    fake.attachments++;
    fake.attached = flags;
    bool whole = stream == CU_STREAM_LEGACY && fake_size(pointer) && !bytes;
    return whole ? fake.attach_result : CUDA_ERROR_INVALID_VALUE;
}

static CUresult mem_host_alloc(void **memory, size_t bytes, unsigned int flags) {
    return host_alloc(memory, bytes, flags);
}

static CUresult mem_alloc_host(void **memory, size_t bytes) {
    return host_alloc(memory, bytes, FAKE_PLAIN);
}

static CUresult mem_free_host(void *memory) {
    lock_check_none();
    if (!memory)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct allocation **link = place((uintptr_t)memory), *gone = *link;
    bool found = gone && gone->device == HOST;
    if (found)
        give_back(link);
    pthread_mutex_unlock(&lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult mem_alloc_pitch(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                                unsigned int element) {
    lock_check_none();
    if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t chosen = (width + FAKE_PITCH - 1) / FAKE_PITCH * FAKE_PITCH;
    CUresult result = mem_alloc(pointer, chosen * height);
    if (result == CUDA_SUCCESS)
        *pitch = chosen;
    return result;
}

static CUresult mem_get_info(size_t *free_bytes, size_t *total_bytes) {
    lock_check_none();
    pthread_mutex_lock(&lock);
    fake.infos++;
    *free_bytes = fake.capacity - fake.used_by[device_of(fake.current)];
    pthread_mutex_unlock(&lock);
    *total_bytes = fake.capacity;
    if (fake.current && (fake.current == fake.lost[0] || fake.current == fake.lost[1]))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (fake.on_info)
        fake.on_info();
    return CUDA_SUCCESS;
}

static CUresult ctx_get_current(CUcontext *context) {
    lock_check_none();
    if (fake.on_current)
        fake.on_current();
    *context = fake.current;
    return fake.current_result;
}

enum { MAX_PUSHED = 8 };
static CUcontext pushed[MAX_PUSHED];
static int pushed_count;

static CUresult ctx_push_current(CUcontext context) {
    lock_check_none();
    if (fake.on_push)
        fake.on_push(context);
    bool fails = fake.push_failures > 0;
    fake.push_failures -= fails;
    if (fails || pushed_count == MAX_PUSHED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pushed[pushed_count++] = fake.current;
    fake.current = context;
    return CUDA_SUCCESS;
}

static CUresult ctx_pop_current(CUcontext *context) {
    lock_check_none();
    *context = fake.current;
    fake.current = pushed[--pushed_count];
    return CUDA_SUCCESS;
}

static CUresult ctx_get_device(CUdevice *device) {
    lock_check_none();
    if (!fake.current)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = device_of(fake.current);
    return CUDA_SUCCESS;
}

static CUresult ctx_get_id(CUcontext context, unsigned long long *id) {
    lock_check_none();
    *id = (uintptr_t)(context ? context : fake.current) + fake.primary_changes;
    return CUDA_SUCCESS;
}

static CUresult ctx_synchronize(void) {
    lock_check_none();
    __atomic_add_fetch(&fake.waits, 1, __ATOMIC_RELAXED);
    if (fake.on_wait)
        fake.on_wait();
    return fake.wait_result;
}

static CUresult device_get_count(int *count) {
    lock_check_none();
    *count = FAKE_DEVICES;
    return CUDA_SUCCESS;
}

static CUresult device_total_mem(size_t *bytes, CUdevice device) {
    lock_check_none();
    (void)device;
    *bytes = fake.total ? fake.total : fake.capacity;
    return CUDA_SUCCESS;
}

static CUresult device_get_uuid(CUuuid *uuid, CUdevice device) {
    lock_check_none();
    memset(uuid, 0, sizeof *uuid);
    uuid->bytes[0] = (char)(1 + device);
    return CUDA_SUCCESS;
}

static CUresult device_get_attribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    lock_check_none();
    if (device >= FAKE_DEVICES)
        return CUDA_ERROR_INVALID_DEVICE;
    /* The last device has no concurrent access to managed memory. */
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
        *value = fake.pageable_access;
        break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
        *value = fake.host_page_tables;
        break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
        *value = fake.integrated;
        break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
        *value = device != FAKE_DEVICES - 1;
        break;
    default:
        *value = 0;
    }
    return fake.attribute_result;
}

static CUresult primary_ctx_get_state(CUdevice device, unsigned int *flags, int *active) {
    lock_check_none();
    (void)device;
    *flags = 0;
    *active = fake.primary_active;
    return CUDA_SUCCESS;
}

static CUresult memset_d8(CUdeviceptr pointer, unsigned char value, size_t bytes) {
    lock_check_none();
    (void)value;
    fake.cleared = pointer;
    fake.cleared_bytes = bytes;
    return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned int flags) {
    lock_check_none();
    fake.stream_flags = flags;
    *stream = fake.stream;
    return fake.stream ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult memset_d8_async(CUdeviceptr pointer, unsigned char value, size_t bytes,
                                CUstream stream) {
    fake.cleared_in = stream;
    fake.event_waits = 0; /* those from now on are for the memset */
    return memset_d8(pointer, value, bytes);
}

static CUresult thread_exchange_capture_mode(CUstreamCaptureMode *mode) {
    lock_check_none();
    if (fake.fails_to_exchange && !--fake.fails_to_exchange)
        return CUDA_ERROR_UNKNOWN;
    *mode = __atomic_exchange_n(&fake.capture_mode, *mode, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

static CUresult stream_is_capturing(CUstream stream, CUstreamCaptureStatus *status) {
    lock_check_none();
    *status = stream && stream == fake.captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                : CU_STREAM_CAPTURE_STATUS_NONE;
    if (fake.on_ask)
        fake.on_ask();
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned int flags) {
    lock_check_none();
    (void)flags;
    *event = (CUevent)(uintptr_t)__atomic_add_fetch(&fake.events, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event) {
    lock_check_none();
    (void)event;
    __atomic_add_fetch(&fake.event_queries, 1, __ATOMIC_RELAXED);
    bool quiet = __atomic_load_n(&fake.quiet, __ATOMIC_RELAXED);
    if (fake.on_query)
        fake.on_query();
    return quiet ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult event_synchronize(CUevent event) {
    lock_check_none();
    __atomic_store_n(&fake.waited_for, event, __ATOMIC_RELAXED);
    __atomic_add_fetch(&fake.event_waits, 1, __ATOMIC_RELAXED);
    if (fake.on_wait)
        fake.on_wait();
    return fake.wait_result;
}

static CUresult event_record(CUevent event, CUstream stream) {
    lock_check_none();
    __atomic_store_n(&fake.recorded, event, __ATOMIC_RELAXED);
    __atomic_store_n(&fake.fenced_context, fake.current, __ATOMIC_RELAXED);
    __atomic_store_n(&fake.recorded_in, stream, __ATOMIC_RELAXED);
    __atomic_add_fetch(&fake.records, 1, __ATOMIC_RELAXED);
    if (fake.on_record)
        fake.on_record();
    return fake.record_result;
}

static CUresult ctx_record_event(CUcontext context, CUevent event) {
    lock_check_none();
    (void)context;
    return event_record(event, NULL);
}

static CUresult stream_wait_event(CUstream stream, CUevent event, unsigned int flags) {
    lock_check_none();
    (void)flags;
    __atomic_store_n(&fake.ordered, stream, __ATOMIC_RELAXED);
    __atomic_store_n(&fake.ordered_after, event, __ATOMIC_RELAXED);
    __atomic_add_fetch(&fake.orders, 1, __ATOMIC_RELAXED);
    return fake.order_result;
}

static CUresult stream_get_ctx(CUstream stream, CUcontext *context) {
    lock_check_none();
    (void)stream;
    *context = fake.stream_context ? fake.stream_context : fake.current;
    return CUDA_SUCCESS;
}

/* It knows no green contexts. */
static CUresult stream_get_ctx_v2(CUstream stream, CUcontext *context, void **green) {
    *green = NULL;
    return stream_get_ctx(stream, context);
}

static CUresult tell_pool(CUmemoryPool known, CUmemoryPool *memory_pool) {
    lock_check_none();
    *memory_pool = known;
    return known ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult device_get_default_mem_pool(CUmemoryPool *memory_pool, CUdevice device) {
    (void)device;
    return tell_pool(fake.default_pool, memory_pool);
}

static CUresult device_get_mem_pool(CUmemoryPool *memory_pool, CUdevice device) {
    (void)device;
    return tell_pool(fake.current_pool, memory_pool);
}

static CUresult mem_pool_get_attribute(CUmemoryPool memory_pool, CUmemPool_attribute attribute,
                                       void *value) {
    lock_check_none();
    if (attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        return CUDA_ERROR_NOT_SUPPORTED;
    *(cuuint64_t *)value = memory_pool == fake.default_pool ? fake.unused : 0;
    return CUDA_SUCCESS;
}

static CUresult mem_pool_trim_to(CUmemoryPool memory_pool, size_t bytes) {
    lock_check_none();
    fake.trims++;
    if (memory_pool == fake.default_pool && bytes < fake.unused) {
        fake.capacity += fake.unused - bytes;
        fake.unused = bytes;
    }
    return CUDA_SUCCESS;
}

/* This driver can neither map pages nor allocate from memory pools, and has no green contexts. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
// NOLINTBEGIN(misc-unused-parameters)
#define CANNOT(name, ...)                                                                          \
    static CUresult name(__VA_ARGS__) {                                                            \
        return CUDA_ERROR_NOT_SUPPORTED;                                                           \
    }
CANNOT(mem_create, CUmemGenericAllocationHandle *handle, size_t bytes,
       const CUmemAllocationProp *properties, unsigned long long flags)
CANNOT(mem_release, CUmemGenericAllocationHandle handle)
CANNOT(mem_address_reserve, CUdeviceptr *pointer, size_t bytes, size_t alignment,
       CUdeviceptr wanted, unsigned long long flags)
CANNOT(mem_address_free, CUdeviceptr pointer, size_t bytes)
CANNOT(mem_map, CUdeviceptr pointer, size_t bytes, size_t offset,
       CUmemGenericAllocationHandle handle, unsigned long long flags)
CANNOT(mem_unmap, CUdeviceptr pointer, size_t bytes)
CANNOT(mem_set_access, CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access,
       size_t count)
CANNOT(mem_pool_create, CUmemoryPool *memory_pool, const CUmemPoolProps *properties)
CANNOT(mem_pool_destroy, CUmemoryPool memory_pool)
CANNOT(mem_pool_set_attribute, CUmemoryPool memory_pool, CUmemPool_attribute attribute, void *value)
CANNOT(mem_alloc_from_pool_async, CUdeviceptr *pointer, size_t bytes, CUmemoryPool memory_pool,
       CUstream stream)
CANNOT(mem_free_async, CUdeviceptr pointer, CUstream stream)
CANNOT(pointer_get_attribute, void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
CANNOT(stream_create_with_priority, CUstream *stream, unsigned int flags, int priority)
CANNOT(stream_destroy, CUstream stream)
CANNOT(stream_synchronize, CUstream stream)
CANNOT(mem_host_get_device_pointer, CUdeviceptr *pointer, void *memory, unsigned int flags)
CANNOT(module_load_data, CUmodule *module, const void *image)
CANNOT(module_get_function, CUfunction *function, CUmodule module, const char *name)
CANNOT(launch_kernel, CUfunction function, unsigned int grid_x, unsigned int grid_y,
       unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
       unsigned int shared_bytes, CUstream stream, void **arguments, void **extra)
CANNOT(ctx_wait_event, CUcontext context, CUevent event)
CANNOT(memcpy_htod_async, CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
CANNOT(func_get_name, const char **name, CUfunction function)
// NOLINTEND(misc-unused-parameters)
#pragma GCC diagnostic pop

const struct driver *fake_driver(void) {
    static const struct driver driver = {
#define FUNCTION(field, symbol, parameters, required) .field = field,
        DRIVER_ENTRIES(FUNCTION)
#undef FUNCTION
    };
    return &driver;
}
