/* Contexts, their devices and their sites: learnt when they allocate. */
#include "pool/context_owners.h"
#include "pool/internal.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

struct context *context_find(const struct pool *pool, CUcontext handle) {
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->handle == handle)
            return context;
    return NULL;
}

struct context *context_find_kind(const struct pool *pool, CUcontext handle,
                                  const struct pool_kind *kind) {
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->handle == handle && memcmp(&context->kind, kind, sizeof *kind) == 0 &&
            !context->releases)
            return context;
    return NULL;
}

bool context_is_first(const struct pool *pool, const struct context *context) {
    return context_find(pool, context->handle) == context;
}

struct device *context_find_device(struct pool *pool, CUdevice ordinal) {
    struct device *device;
    TAILQ_FOREACH (device, &pool->devices, link)
        if (device->ordinal == ordinal)
            return device;
    return NULL;
}

uint64_t device_idle(const struct device *device) {
    return device->held - device->live;
}

uint64_t device_idle_blocks(const struct device *device) {
    return device->blocks - device->live_blocks;
}

void device_count(struct device *device, uint64_t allocations, uint64_t hits) {
    device->allocations += allocations;
    device->hits += hits;
    if (device->stats) {
        stats_grow(&device->stats->allocations, allocations);
        stats_grow(&device->stats->hits, hits);
    }
}

void count_by_kind(enum pool_memory memory, enum stats_counter host, enum stats_counter managed) {
    if (__builtin_expect(memory != POOL_DEVICE, 0))
        stats_add(memory == POOL_HOST ? host : managed, 1);
}

/* What the driver says of a context and its device. */
struct facts {
    struct device device; /* what it says of it, and nothing else */
    CUevent event;
    unsigned long long id; /* 0: the driver cannot tell */
};

/* An event to ask with whether the context rests: once memory is short it can be too late to make
 * one. NULL: not now. */
static CUevent make_event(struct pool *pool) {
    CUevent event = NULL;
    if (!pool->driver->event_create || !pool_gate_enter(pool))
        return NULL;
    if (pool->driver->event_create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        event = NULL;
    pool_gate_leave(pool);
    return event;
}

CUresult context_ask_id(struct pool *pool, CUcontext handle, unsigned long long *id) {
    *id = 0;
    if (!pool->driver->ctx_get_id)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = pool->driver->ctx_get_id(handle, id);
    return result == CUDA_SUCCESS ? result : pool->driver->ctx_get_id(handle, id);
}

/* The device's memory. Another tool between may answer 0 where it keeps no limit of its own; then
 * the current context is asked. */
static CUresult ask_total(struct pool *pool, struct device *device) {
    size_t available, total = 0;
    CUresult result = pool->driver->device_total_mem(&total, device->ordinal);
    if (result == CUDA_SUCCESS && !total && pool_gate_enter(pool)) {
        if (pool->driver->mem_get_info(&available, &total) != CUDA_SUCCESS)
            total = 0;
        pool_gate_leave(pool);
    }
    device->total = total;
    return result;
}

/* What the driver says of one attribute, `otherwise` with an error. That it does not know the
 * attribute is an answer. */
static bool ask_attribute(const struct pool *pool, CUdevice ordinal, CUdevice_attribute attribute,
                          bool otherwise, CUresult *result) {
    int value = 0;
    *result = pool->driver->device_get_attribute(&value, attribute, ordinal);
    if (*result != CUDA_ERROR_INVALID_VALUE)
        return *result == CUDA_SUCCESS ? value != 0 : otherwise;
    *result = CUDA_SUCCESS;
    return otherwise;
}

CUresult context_ask_host_access(const struct pool *pool, CUdevice ordinal,
                                 enum host_access *access) {
    CUresult result;
    *access = HOST_NEVER;
    if (!ask_attribute(pool, ordinal, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, false, &result))
        return result;
    bool by_tables = ask_attribute(pool, ordinal,
                                   CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
                                   true, &result);
    *access =
        by_tables || pool->config.pageable == POOL_PAGEABLE_WAIT ? HOST_ALWAYS : HOST_BY_ADDRESS;
    return result;
}

static bool is_unified(const struct pool *pool, CUdevice ordinal) {
    CUresult result;
    return ask_attribute(pool, ordinal, CU_DEVICE_ATTRIBUTE_INTEGRATED, false, &result) ||
           ask_attribute(pool, ordinal,
                         CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, false,
                         &result);
}

static bool ask_device(struct pool *pool, struct facts *facts) {
    struct device *device = &facts->device;
    CUuuid uuid = {{0}};
    if (pool->driver->device_get_uuid)
        pool->driver->device_get_uuid(&uuid, device->ordinal);
    memcpy(device->uuid, uuid.bytes, sizeof device->uuid);
    context_ask_host_access(pool, device->ordinal, &device->host_access);
    device->unified = is_unified(pool, device->ordinal);
    facts->event = make_event(pool);
    context_ask_id(pool, NULL, &facts->id);
    return ask_total(pool, device) == CUDA_SUCCESS;
}

/* The record of a device, or of a kind of memory that is none's. NULL without memory. Lock held. */
static struct device *add_device(struct pool *pool, enum pool_memory memory,
                                 const struct device *told) {
    lock_check_held(LOCK_POOL);
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return NULL;
    if (memory == POOL_DEVICE) {
        *device = *told;
        device->stats = stats_device(device->ordinal, device->total, device->uuid);
        TAILQ_INSERT_HEAD(&pool->devices, device, link);
    } else { /* behind all others: its idle memory is the last to help them */
        device->memory = memory;
        device->ordinal = ordinal_of_kind(memory);
        device->total = pool->config.host_memory;
        device->host_access = told->host_access;
        TAILQ_INSERT_TAIL(&pool->devices, device, link);
    }
    return device;
}

const struct source source_plain = {0};

CUresult source_allocate(const struct pool *pool, const struct pool_kind *kind, size_t size,
                         CUdeviceptr *pointer) {
    lock_check_none();
    return kind->memory == POOL_DEVICE ? pool->driver->mem_alloc(pointer, size)
                                       : source_allocate_other(pool->driver, kind, size, pointer);
}

CUresult source_obtain(struct pool *pool, const struct pool_kind *kind, size_t size,
                       struct obtained *obtained) {
    lock_check_none();
    *obtained = (struct obtained){.size = size};
    CUresult result = source_allocate(pool, kind, size, &obtained->pointer);
    if (result == CUDA_SUCCESS)
        stats_add(STATS_driver_allocs, 1);
    return result;
}

bool source_is_timed(const struct pool *pool, enum pool_memory memory) {
    return memory != POOL_DEVICE || !pool->source->obtain;
}

const struct keeper *kind_keeper(const struct pool *pool, const struct pool_kind *kind) {
    return kind->memory == POOL_HOST      ? &keeper_host
           : kind->memory == POOL_MANAGED ? &keeper_managed
                                          : pool->keeper;
}

/* What is in it is the keeper's. False without host memory. */
static bool open_store(struct context *context) {
    struct idle_store *store = &context->store;
    *store = (struct idle_store){.by_size = RB_INITIALIZER(&store->by_size)};
    return !context->keeper->open || context->keeper->open(store);
}

/* Records a context that the driver has described. Lock held. */
static struct context *add_context(struct pool *pool, CUcontext handle,
                                   const struct pool_kind *kind, const struct facts *facts) {
    lock_check_held(LOCK_POOL);
    CUdevice ordinal = facts->device.ordinal;
    CUdevice ledger = kind->memory == POOL_DEVICE ? ordinal : ordinal_of_kind(kind->memory);
    struct device *device = context_find_device(pool, ledger);
    if (!device)
        device = add_device(pool, kind->memory, &facts->device);
    struct context *context = device ? calloc(1, sizeof *context) : NULL;
    if (!context)
        return NULL;
    bool created = pool->owners && context_is_created(pool, handle);
    context->kind = *kind;
    context->keeper = kind_keeper(pool, kind);
    context->source = kind->memory == POOL_DEVICE ? pool->source : &source_plain;
    if (!order_context_begins(&pool->order, handle, created ? ORDER_NO_DEVICE : ordinal) ||
        !open_store(context)) {
        free(context);
        return NULL;
    }
    context->handle = handle;
    context->ordinal = ordinal;
    context->next_region = ROUND_PAGE;
    context->device = device;
    context->event = facts->event;
    context->id = facts->id;
    context->created = created;
    LIST_INIT(&context->unfenced);
    TAILQ_INIT(&context->fences);
    LIST_INSERT_HEAD(&pool->contexts, context, link);
    return context;
}

bool context_is_lost(const struct pool *pool, CUcontext handle) {
    lock_check_held(LOCK_POOL);
    const struct context *context = context_find(pool, handle);
    return context && context->broken;
}

bool context_is_known(const struct pool *pool, CUcontext handle) {
    lock_check_held(LOCK_POOL);
    return context_find(pool, handle) != NULL;
}

bool context_may_defer(const struct context *context) {
    lock_check_held(LOCK_POOL);
    return !LIST_EMPTY(&context->unfenced) || !TAILQ_EMPTY(&context->fences);
}

bool context_has_green(const struct pool *pool) {
    return atomic_load(&pool->lasting[WAIT_REASON_green]);
}

CUresult context_current(struct pool *pool, CUcontext *handle) {
    lock_check_none();
    *handle = NULL;
    CUresult result = pool->driver->ctx_get_current(handle);
    if (result != CUDA_SUCCESS && (result = pool->driver->ctx_get_current(handle)) != CUDA_SUCCESS)
        *handle = NULL;
    return result;
}

/* A record of the context, which has none yet, if the driver says what it is. Lock held on entry
 * and return, not in between. */
static __attribute__((noinline)) struct context *learn_context(struct pool *pool, CUcontext handle,
                                                               const struct pool_kind *kind) {
    lock_check_held(LOCK_POOL);
    bool ending = pool->ends_under_way && !PLANTED(recorded_while_ending);
    bool green = context_has_green(pool);
    uint64_t ends = pool->ends;
    struct facts facts = {.device = {.memory = POOL_DEVICE}};
    pool_unlock(pool);
    bool known = !ending && !(green && context_may_be_green(pool, handle)) &&
                 pool->driver->ctx_get_device(&facts.device.ordinal) == CUDA_SUCCESS &&
                 ask_device(pool, &facts);
    pool_lock(pool);
    if (!known)
        return NULL;
    struct context *context =
        context_find_kind(pool, handle, kind); /* another thread may be faster */
    if (!context && pool->ends == ends)        /* else the facts may be a former context's */
        context = add_context(pool, handle, kind, &facts);
    return context;
}

struct context *context_lock_current(struct pool *pool, const struct pool_kind *kind) {
    lock_check_none();
    CUcontext handle;
    CUresult result = context_current(pool, &handle);
    pool_note_shutdown(pool, result);
    pool_lock(pool);
    if (!handle)
        return NULL;
    struct context *context = context_find_kind(pool, handle, kind);
    return context ? context : learn_context(pool, handle, kind);
}

static struct site_record *record_site(struct pool *pool, const struct call_site *key) {
    struct site_record *record;
    HASH_FIND(by_key, pool->site_records, key, sizeof *key, record);
    if (record)
        return record;
    record = calloc(1, sizeof *record);
    if (!record)
        return NULL;
    record->key = *key;
    record->stats = stats_site_new(key);
    if (!record->stats)
        record->stats = &record->unreported;
    HASH_ADD(by_key, pool->site_records, key, sizeof *key, record);
    if (!record->by_key.tbl) {
        free(record);
        return NULL;
    }
    return record;
}

/* The site, or one that stands for all that come late: a program may go on making code that
 * allocates. */
static const struct call_site *site_or_others(const struct pool *pool,
                                              const struct call_site *key) {
    enum { SITES_MOST = 1 << 16 };
    static const struct call_site others = {.frames = {1}, .depth = 1}; /* no code is there */
    const struct site_record *record;
    HASH_FIND(by_key, pool->site_records, key, sizeof *key, record);
    return record || HASH_CNT(by_key, pool->site_records) < SITES_MOST ? key : &others;
}

struct site *context_site(struct pool *pool, struct context *context, const struct call_site *key) {
    struct site *site;
    HASH_FIND(by_key, context->sites, key, sizeof *key, site);
    if (!site) {
        key = site_or_others(pool, key);
        HASH_FIND(by_key, context->sites, key, sizeof *key, site);
    }
    if (site)
        return site;
    struct site_record *record = record_site(pool, key);
    site = record ? calloc(1, sizeof *site) : NULL;
    if (!site)
        return NULL;
    site->key = *key;
    site->id = site_id(key);
    RB_INIT(&site->idle);
    site->record = record;
    site->stats = record->stats;
    stats_site_allocates(record->stats, (enum stats_memory)context->kind.memory);
    HASH_ADD(by_key, context->sites, key, sizeof *key, site);
    if (!site->by_key.tbl) {
        free(site);
        return NULL;
    }
    return site;
}
