/* Contexts and their sites: learnt when they allocate, waited for when they free, dropped when they
 * end. */
#include "pool/internal.h"

#include "planted.h"
#include "policy/driver_pool.h"
#include "policy/vmm.h"
#include "thread_marks.h"

#include <stdlib.h>
#include <string.h>

/* Finds any record of the context, the same one each time. */
static struct context *find_context(const struct pool *pool, CUcontext handle) {
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->handle == handle)
            return context;
    return NULL;
}

static struct context *find_kind(const struct pool *pool, CUcontext handle,
                                 const struct pool_kind *kind) {
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->handle == handle && memcmp(&context->kind, kind, sizeof *kind) == 0 &&
            !context->releases)
            return context;
    return NULL;
}

bool context_is_first(const struct pool *pool, const struct context *context) {
    return find_context(pool, context->handle) == context;
}

struct device *context_find_device(struct pool *pool, CUdevice ordinal) {
    struct device *device;
    LIST_FOREACH (device, &pool->devices, link)
        if (device->ordinal == ordinal)
            return device;
    return NULL;
}

/* A context that the program has made: any other is the primary one of its device. */
struct created_context {
    CUcontext handle;
    struct created_context *next;
};

bool context_is_created(const struct pool *pool, CUcontext handle) {
    lock_check_held(LOCK_POOL);
    const struct created_context *created = pool->created;
    while (created && created->handle != handle)
        created = created->next;
    return created != NULL;
}

void pool_context_created(struct pool *pool, CUcontext handle) {
    thread_number(); /* it is current: see order_may_owe */
    order_context_begins(&pool->order, handle, ORDER_NO_DEVICE);
    pool_lock(pool);
    struct created_context *created =
        context_is_created(pool, handle) ? NULL : calloc(1, sizeof *created);
    if (created) {
        *created = (struct created_context){handle, pool->created};
        pool->created = created;
    }
    pool_unlock(pool);
}

static void forget_created(struct pool *pool, CUcontext handle) {
    struct created_context **link = &pool->created;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    struct created_context *gone = *link;
    if (gone)
        *link = gone->next;
    free(gone);
}

void context_forget_all_created(struct pool *pool) {
    while (pool->created)
        forget_created(pool, pool->created->handle);
}

/* What the driver says of a device. */
struct device_facts {
    CUdevice ordinal;
    size_t total;
    enum host_access host_access;
    CUuuid uuid;
    struct device_place place;
    CUevent event;         /* these two for the context's record */
    unsigned long long id; /* 0: the driver cannot tell */
};

/* An event to ask with whether the context rests: once memory is short it can be too late to make
 * one. NULL: not now. */
static CUevent make_event(struct pool *pool) {
    CUevent event = NULL;
    if (!pool->driver->event_create || !gate_enter(pool))
        return NULL;
    if (pool->driver->event_create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        event = NULL;
    gate_leave(pool);
    return event;
}

/* What tells the context from any other, one under the same handle too; NULL: the current one. An
 * error may be one of earlier work, told once. */
static CUresult ask_id(struct pool *pool, CUcontext handle, unsigned long long *id) {
    *id = 0;
    if (!pool->driver->ctx_get_id)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = pool->driver->ctx_get_id(handle, id);
    return result == CUDA_SUCCESS ? result : pool->driver->ctx_get_id(handle, id);
}

/* The device's memory. Another tool between may answer 0 where it keeps no limit of its own; then
 * the current context is asked. */
static CUresult ask_total(struct pool *pool, CUdevice ordinal, size_t *total) {
    size_t available;
    *total = 0;
    CUresult result = pool->driver->device_total_mem(total, ordinal);
    if (result == CUDA_SUCCESS && !*total && gate_enter(pool)) {
        if (pool->driver->mem_get_info(&available, total) != CUDA_SUCCESS)
            *total = 0;
        gate_leave(pool);
    }
    return result;
}

static bool ask_device(struct pool *pool, struct device_facts *facts) {
    memset(&facts->uuid, 0, sizeof facts->uuid);
    if (pool->driver->device_get_uuid)
        pool->driver->device_get_uuid(&facts->uuid, facts->ordinal);
    host_access_of(pool, facts->ordinal, &facts->host_access);
    available_learn(pool, facts->ordinal, &facts->place);
    facts->event = make_event(pool);
    ask_id(pool, NULL, &facts->id);
    return ask_total(pool, facts->ordinal, &facts->total) == CUDA_SUCCESS;
}

/* The record of a device, or of a kind of memory that is none's. NULL without memory. Lock held. */
static struct device *add_device(struct pool *pool, enum pool_memory memory,
                                 const struct device_facts *facts) {
    lock_check_held(LOCK_POOL);
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return NULL;
    device->memory = memory;
    device->host_access = facts->host_access;
    if (memory == POOL_DEVICE) {
        device->ordinal = facts->ordinal;
        device->total = facts->total;
        device->place = facts->place;
        memcpy(device->uuid, facts->uuid.bytes, sizeof device->uuid);
        device->stats = stats_device(facts->ordinal, facts->total, device->uuid);
        LIST_INSERT_HEAD(&pool->devices, device, link);
    } else { /* behind all others: its idle memory is the last to help them */
        device->ordinal = ordinal_of_kind(memory);
        device->total = pool->config.host_memory;
        struct device *last = LIST_FIRST(&pool->devices);
        while (last && LIST_NEXT(last, link))
            last = LIST_NEXT(last, link);
        if (last)
            LIST_INSERT_AFTER(last, device, link);
        else
            LIST_INSERT_HEAD(&pool->devices, device, link);
    }
    return device;
}

/* Records a context that the driver has described. Lock held. */
static struct context *add_context(struct pool *pool, CUcontext handle,
                                   const struct pool_kind *kind, const struct device_facts *facts) {
    lock_check_held(LOCK_POOL);
    CUdevice ledger = kind->memory == POOL_DEVICE ? facts->ordinal : ordinal_of_kind(kind->memory);
    struct device *device = context_find_device(pool, ledger);
    if (!device)
        device = add_device(pool, kind->memory, facts);
    struct context *context = device ? calloc(1, sizeof *context) : NULL;
    if (!context)
        return NULL;
    bool created = context_is_created(pool, handle);
    if (!order_context_begins(&pool->order, handle, created ? ORDER_NO_DEVICE : facts->ordinal)) {
        free(context);
        return NULL;
    }
    context->kind = *kind;
    context->policy = kind_policy(pool, kind);
    if (!idle_store_init(pool, context->policy, &context->store)) {
        free(context);
        return NULL;
    }
    context->handle = handle;
    context->ordinal = facts->ordinal;
    context->device = device;
    context->event = facts->event;
    context->id = facts->id;
    context->created = created;
    fence_context_init(context);
    LIST_INSERT_HEAD(&pool->contexts, context, link);
    return context;
}

bool context_is_known(const struct pool *pool, CUcontext handle) {
    lock_check_held(LOCK_POOL);
    return find_context(pool, handle) != NULL;
}

bool pool_knows_context(struct pool *pool, CUcontext context) {
    pool_lock(pool);
    bool known = context_is_known(pool, context);
    pool_unlock(pool);
    return known;
}

CUresult context_current(struct pool *pool, CUcontext *handle) {
    lock_check_none();
    *handle = NULL;
    CUresult result = pool->driver->ctx_get_current(handle);
    return result == CUDA_SUCCESS ? result : pool->driver->ctx_get_current(handle);
}

void pool_end_begins(struct pool *pool) {
    pool_lock(pool);
    pool->ends++;
    pool->ends_under_way++;
    pool_unlock(pool);
}

void pool_end_is_over(struct pool *pool) {
    pool_lock(pool);
    if (pool->ends_under_way) /* else this is a forked child */
        pool->ends_under_way--;
    pool_unlock(pool);
}

/* A record of the context, which has none yet. Lock held on entry, and on return with one. */
static __attribute__((noinline)) struct context *learn_context(struct pool *pool, CUcontext handle,
                                                               const struct pool_kind *kind) {
    lock_check_held(LOCK_POOL);
    bool ending = pool->ends_under_way && !PLANTED(recorded_while_ending);
    uint64_t ends = pool->ends;
    struct device_facts facts;
    pool_unlock(pool);
    if (ending || pool->driver->ctx_get_device(&facts.ordinal) != CUDA_SUCCESS ||
        !ask_device(pool, &facts))
        return NULL;
    pool_lock(pool);
    struct context *context = find_kind(pool, handle, kind); /* another thread may be faster */
    if (!context && pool->ends == ends) /* else the facts may be a former context's */
        context = add_context(pool, handle, kind, &facts);
    if (!context)
        pool_unlock(pool);
    return context;
}

struct context *context_lock_current(struct pool *pool, const struct pool_kind *kind) {
    lock_check_none();
    CUcontext handle;
    CUresult result = context_current(pool, &handle);
    if (result != CUDA_SUCCESS || !handle) {
        context_note_error(pool, NULL, result);
        return NULL;
    }
    pool_lock(pool);
    struct context *context = find_kind(pool, handle, kind);
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
    HASH_ADD(by_key, pool->site_records, key, sizeof *key, record);
    if (!record->by_key.tbl) {
        free(record);
        return NULL;
    }
    return record;
}

struct site *context_site(struct pool *pool, struct context *context, const struct call_site *key) {
    struct site *site;
    HASH_FIND(by_key, context->sites, key, sizeof *key, site);
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

void context_destroy_sites(struct context *context) {
    struct site *site, *next;
    idle_store_destroy(context->policy, &context->store);
    HASH_ITER (by_key, context->sites, site, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DELETE(by_key, context->sites, site);
        free(site);
    }
}

/* Whether cuda.h says that the context is unusable after this error. */
static bool loses_context(CUresult error) {
    /* Their numbers, since older headers do not have them. */
    enum { CONTAINED = 226, TENSOR_MEMORY_LEAK = 721, EXTERNAL_DEVICE = 911 };
    switch ((int)error) {
    case CONTAINED:
    case TENSOR_MEMORY_LEAK:
    case EXTERNAL_DEVICE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        return true;
    default:
        return false;
    }
}

/* UNKNOWN alone says nothing of the context: one that is lost goes on answering so. */
static bool is_lost(struct pool *pool, CUresult error) {
    size_t available, total;
    if (error != CUDA_ERROR_UNKNOWN)
        return loses_context(error);
    if (!gate_enter(pool))
        return false;
    CUresult again = pool->driver->mem_get_info(&available, &total);
    gate_leave(pool);
    return again == error;
}

/* Nothing is pooled there any more, of whatever kind. Lock held. */
static void lose_context(struct pool *pool, CUcontext handle) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->handle == handle)
            context->broken = true;
}

void context_note_error(struct pool *pool, struct context *context, CUresult result) {
    if (result == CUDA_ERROR_DEINITIALIZED) {
        atomic_store(&pool->down, true);
        pool_lock(pool); /* so that no cache serves any more */
        pool_unlock(pool);
    }
    if (!context || !is_lost(pool, result))
        return;
    pool_lock(pool);
    lose_context(pool, context->handle);
    context->broken = true; /* it may have ended meanwhile */
    pool_unlock(pool);
}

void context_note_error_of(struct pool *pool, CUcontext handle, CUresult error) {
    if (!is_lost(pool, error)) {
        context_note_error(pool, NULL, error);
        return;
    }
    pool_lock(pool);
    lose_context(pool, handle);
    pool_unlock(pool);
}

void pool_note_error(struct pool *pool, CUresult error) {
    CUcontext handle = NULL;
    pool->driver->ctx_get_current(&handle);
    context_note_error_of(pool, handle, error);
}

/* Whether a block of a context that ends has to be given to the driver: what is idle, and what lies
 * in a memory pool of the driver's, which outlives contexts. */
static bool goes_with_context(const struct pool_block *block) {
    return block->in_driver_pool
               ? block->state != BLOCK_WAITING
               : !block->context->policy->cuts &&
                     (block->state == BLOCK_IDLE || block->state == BLOCK_DEFERRED);
}

/* Takes the context out of service. Lock held; what has to be released goes to *releases, or is
 * forgotten as the rest is if that is NULL. False: another thread has done it. */
static bool end_context(struct pool *pool, struct context *context, struct release_list *releases) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block;
    struct ledger_place place = {0};
    /* Other threads may be at its pages or at its memory pool. From here on all is done at once. */
    while (context->policy->take_unused && context->device->releasing)
        pool_await_releases(pool);
    if (context->ended)
        return false;
    cache_close(pool, context);
    while ((block = ledger_next(pool, &place))) {
        if (block->context != context)
            continue;
        bool waited_for = block->state == BLOCK_WAITING;
        if (block->state == BLOCK_IDLE || block->state == BLOCK_DEFERRED)
            ledger_take_out(pool, block);
        if (releases && goes_with_context(block)) {
            release_list_add(pool, releases, block);
        } else {
            ledger_remove(pool, block);
            if (!waited_for) /* else the thread that waits still holds it */
                ledger_recycle(pool, block);
        }
    }
    ledger_count_unused(pool, context, 0 - context->store.unused);
    context->ended = true;
    LIST_REMOVE(context, link);
    ended_contexts_add(pool, context);
    order_context_ends(&pool->order, context->handle);
    fence_context_ended(pool, context);
    stats_add(STATS_contexts_ended, 1);
    return true;
}

/* Waits for the current context's work, which may use blocks that are live when their context ends.
 * False: a capture is under way, or the driver cannot. */
static bool wait_at_end(struct pool *pool) {
    if (!gate_enter(pool))
        return false;
    bool waited = pool->driver->ctx_synchronize() == CUDA_SUCCESS;
    if (!waited)
        waited = pool->driver->ctx_synchronize() == CUDA_SUCCESS;
    gate_leave(pool);
    return waited;
}

static void end_and_release(struct pool *pool, struct context *context) {
    struct release_list releases = {.device = context->device};
    struct context_push visit;
    if (!end_context(pool, context, &releases))
        return;
    struct vmm *vmm = vmm_detach(&context->store);
    struct driver_pool *async = driver_pool_detach(&context->store);
    pool_unlock(pool);
    bool visiting = (releases.count || vmm) && context_push_ending(pool, context->handle, &visit);
    bool over = (vmm || async) && visiting && wait_at_end(pool);
    if (over || context->broken) /* else pages are lost rather than taken from under a kernel */
        vmm_release(pool, vmm);
    pool_lock(pool);
    release_list_give_back(pool, &releases);
    pool_unlock(pool);
    driver_pool_end(pool, async, false);
    if (visiting)
        context_pop(pool, &visit);
    pool_lock(pool);
    context_destroy_sites(context);
}

/* Frees contexts that have ended before. Lock held. */
static void free_ended(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    if (!cache_is_asking(pool))
        ended_contexts_free(pool, fence_refers_to);
}

void pool_context_ending(struct pool *pool, CUcontext handle) {
    captures_context_ends(pool, handle);
    order_context_closes(&pool->order, handle);
    if (PLANTED(stale_context))
        return;
    pool_lock(pool);
    struct context *context;
    free_ended(pool);
    while ((context = find_context(pool, handle)))
        end_and_release(pool, context);
    order_context_ends(&pool->order, handle);
    forget_created(pool, handle);
    pool_unlock(pool);
}

/* The primary context of a green one: the driver says whose the memory is that is allocated in it.
 * NULL if it cannot be asked. Lock not held. */
static CUcontext primary_of(struct pool *pool, CUcontext green) {
    lock_check_none();
    struct context_push visit;
    CUdeviceptr probe;
    CUcontext primary = NULL;
    if (!pool->driver->pointer_get_attribute || !gate_enter(pool))
        return NULL;
    if (context_push(pool, green, &visit)) {
        if (pool->driver->mem_alloc(&probe, 1) == CUDA_SUCCESS) {
            pool->driver->pointer_get_attribute(&primary, CU_POINTER_ATTRIBUTE_CONTEXT, probe);
            pool->driver->mem_free(probe);
        }
        context_pop(pool, &visit);
    }
    gate_leave(pool);
    return primary != green ? primary : NULL;
}

/* Blocks that are the driver's own allocations are left to it, as at the end of any context. All
 * others stay, in the primary context: its calls reach all that was made in the green one, but for
 * streams. */
void pool_green_ending(struct pool *pool, CUcontext handle) {
    CUcontext primary = pool_driver_waits(pool) ? NULL : primary_of(pool, handle);
    pool_lock(pool);
    struct context *context = primary ? find_kind(pool, handle, &kind_device) : NULL;
    if (context) {
        fence_drain(pool, context->device);
        fence_streams_ended(pool, context);
        pool_unlock(pool);
        driver_pool_end_stream(pool, context);
        order_end_own_stream(&pool->order, handle);
        pool_lock(pool);
        context->handle = primary;
        context->created = false;
    }
    pool_unlock(pool);
    pool_context_ending(pool, handle);
}

static struct context *find_primary(struct pool *pool, CUdevice ordinal) {
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->ordinal == ordinal && !context->created)
            return context;
    return NULL;
}

enum { LONG_PAUSE = 40 }; /* a busy machine lets another thread in late */

void pool_primary_ending(struct pool *pool, CUdevice ordinal) {
    struct context *context;
    captures_primary_ends(pool, ordinal);
    visits_close_primary(pool, ordinal);
    if (PLANTED(stale_context))
        return;
    pool_lock(pool);
    free_ended(pool);
    while ((context = find_primary(pool, ordinal)))
        end_and_release(pool, context);
    order_primary_ends(&pool->order, ordinal);
    pool_unlock(pool);
    for (int i = 0; i < LONG_PAUSE && (PLANTED(slow_end) || PLANTED(recorded_while_ending)); i++)
        gate_pause();
}

static void count_release(struct pool *pool, CUdevice ordinal, bool begins) {
    struct context *context;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->ordinal == ordinal && !context->created)
            context->releases += begins ? 1 : context->releases ? -1U : 0;
    pool_unlock(pool);
}

void pool_primary_releasing(struct pool *pool, CUdevice ordinal) {
    captures_primary_releasing(pool, ordinal);
    visits_close_primary(pool, ordinal);
    count_release(pool, ordinal, true);
}

/* Whether the primary context is another than that of the pool's records: between this release and
 * the question another thread has retained it anew. */
static bool is_replaced(struct pool *pool, CUdevice ordinal) {
    pool_lock(pool);
    const struct context *context = find_primary(pool, ordinal);
    CUcontext handle = context ? context->handle : NULL;
    unsigned long long id = context ? context->id : 0, now;
    pool_unlock(pool);
    if (!id || PLANTED(released_and_retained))
        return false;
    CUresult result = ask_id(pool, handle, &now);
    return result == CUDA_SUCCESS
               ? now != id
               : result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT;
}

void pool_primary_released(struct pool *pool, CUdevice ordinal) {
    unsigned int flags;
    int active = 1;
    struct context *context;
    for (int i = 0; i < LONG_PAUSE && (PLANTED(slow_release) || PLANTED(released_and_retained));
         i++)
        gate_pause();
    if (pool->driver->primary_ctx_get_state(ordinal, &flags, &active) != CUDA_SUCCESS ||
        (active && !is_replaced(pool, ordinal))) {
        count_release(pool, ordinal, false);
        captures_primary_stays(pool, ordinal);
        visits_primary_stays(pool, ordinal);
        return;
    }
    captures_primary_ends(pool, ordinal);
    if (PLANTED(stale_context))
        return;
    pool_lock(pool);
    free_ended(pool);
    while ((context = find_primary(pool, ordinal))) {
        if (!end_context(pool, context, NULL)) /* the driver has freed its memory */
            continue;
        struct vmm *vmm = vmm_detach(&context->store);
        struct driver_pool *async = driver_pool_detach(&context->store);
        context_destroy_sites(context);
        pool_unlock(pool);
        vmm_release(pool, vmm);
        driver_pool_end(pool, async, true);
        pool_lock(pool);
    }
    order_primary_ends(&pool->order, ordinal);
    pool_unlock(pool);
}
