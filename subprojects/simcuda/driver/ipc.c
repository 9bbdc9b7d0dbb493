#include "ipc.h"

#include "address_space.h"
#include "allocate.h"
#include "capture.h"
#include "lock.h"
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* An event that processes share. Invariant: completed <= recorded; both only grow. */
struct shared_event {
    _Atomic uint64_t recorded;
    _Atomic uint64_t completed;
};

enum { EXPORTS_MAX = 32768, EVENTS_MAX = 32768 };

/* What a device's file holds for other processes. exports[i] != 0: the serial number of the
 * allocation that handles with that slot open; it is cleared when the allocation is released. */
struct shared_area {
    _Atomic uint64_t exports[EXPORTS_MAX];
    struct shared_event events[EVENTS_MAX];
};

_Static_assert(sizeof(struct shared_area) <= ADDRESS_SPACE_SHARED, "the shared area must fit");

/* The contents of a CUipcMemHandle and a CUipcEventHandle. */
struct handle {
    uint64_t magic;
    int32_t process;
    int32_t file;          /* of that process */
    uint64_t offset, size; /* of the memory in the file */
    uint64_t area;         /* offset of the shared area */
    uint64_t serial;
    uint32_t slot;
};

_Static_assert(sizeof(struct handle) <= CU_IPC_HANDLE_SIZE, "the handle must fit");

static const uint64_t memory_magic = 0x736d656d6370691;
static const uint64_t event_magic = 0x74766563706931;

static uint64_t last_serial;

/* The events of a device's area that were ever given to one, and those among them whose event has
 * ended with nothing left to do: whoever opened it must not use it any more (cuda.h:
 * cuIpcOpenEventHandle), so that another event may have its place. */
static struct event_slots {
    uint32_t used;
    uint32_t *ended;
    size_t ended_count;
} event_slots[DEVICES_MAX];

/* Areas of other processes, which stay mapped: work that names their events may still be queued.
 * That keeps their files, so that no other gets the number of one. */
static struct mapped_area {
    dev_t file_system;
    ino_t file;
    uint64_t offset;
    struct shared_area *area;
    struct mapped_area *next;
} * mapped_areas;

static struct shared_area *area_of(CUdevice device) {
    return address_space_shared(device);
}

static void fill_handle(struct handle *handle, uint64_t magic, CUdevice device) {
    memset(handle, 0, sizeof *handle);
    handle->magic = magic;
    handle->process = (int32_t)getpid();
    handle->file = address_space_file(device);
    handle->area = address_space_shared_offset(device);
}

/* Opens the file of the process that made a handle, which has `size` bytes from `offset` on.
 * Negative: that process is gone, or another user's, or made no such handle. */
static int open_file(const struct handle *handle, uint64_t offset, uint64_t size,
                     struct stat *status) {
    char path[64];
    uint64_t end;
    int file;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)handle->process, (int)handle->file);
    file = open(path, O_RDWR | O_CLOEXEC);
    if (file >= 0 && (fstat(file, status) != 0 || __builtin_add_overflow(offset, size, &end) ||
                      end > (uint64_t)status->st_size)) {
        close(file);
        return -1;
    }
    return file;
}

static void *map_at(int file, uint64_t offset, size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);

    return memory == MAP_FAILED ? NULL : memory;
}

static void *map_file(const struct handle *handle, uint64_t offset, size_t size) {
    struct stat status;
    int file = open_file(handle, offset, size, &status);
    void *memory = file >= 0 ? map_at(file, offset, size) : NULL;

    if (file >= 0)
        close(file);
    return memory;
}

static struct shared_area *find_area(const struct handle *handle, const struct stat *status) {
    const struct mapped_area *mapped;

    for (mapped = mapped_areas; mapped != NULL; mapped = mapped->next)
        if (mapped->file_system == status->st_dev && mapped->file == status->st_ino &&
            mapped->offset == handle->area)
            return mapped->area;
    return NULL;
}

/* The area of the process that made a handle. NULL: as in map_file. */
static struct shared_area *map_area(const struct handle *handle) {
    struct shared_area *area;
    struct stat status;
    int file = open_file(handle, handle->area, sizeof *area, &status);

    if (file < 0)
        return NULL;
    area = find_area(handle, &status);
    if (area == NULL && (area = map_at(file, handle->area, sizeof *area)) != NULL) {
        struct mapped_area *mapped = allocate_zeroed(sizeof *mapped);

        *mapped =
            (struct mapped_area){status.st_dev, status.st_ino, handle->area, area, mapped_areas};
        mapped_areas = mapped;
    }
    close(file);
    return area;
}

/* --- memory --- */

static CUresult export_block(struct block *block, CUipcMemHandle *out) {
    struct shared_area *area = area_of(block->device);
    struct handle handle;
    uint64_t offset;
    int file;

    if (block->kind != MEMORY_DEVICE || block->of_object)
        return CUDA_ERROR_INVALID_VALUE;
    if (block->export_serial == 0) {
        uint32_t slot = 0;

        while (slot < EXPORTS_MAX && area->exports[slot] != 0)
            slot++;
        if (slot == EXPORTS_MAX)
            return CUDA_ERROR_OUT_OF_MEMORY;
        block->export_serial = ++last_serial;
        block->export_slot = slot;
        area->exports[slot] = block->export_serial;
    }
    memory_backing(block, &file, &offset);
    fill_handle(&handle, memory_magic, block->device);
    handle.offset = offset;
    handle.size = block->size;
    handle.serial = block->export_serial;
    handle.slot = block->export_slot;
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

void ipc_block_ending(struct block *block) {
    sim_check_held();
    if (block->export_serial != 0)
        area_of(block->device)->exports[block->export_slot] = 0;
}

SIM_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
    struct CUctx_st *context;
    struct block *block;
    CUresult result;

    ENTER(cuIpcGetMemHandle);
    if (handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = capture_check_unsafe();
    if (result == CUDA_SUCCESS) {
        block = memory_containing(pointer); /* the handle denotes the whole allocation */
        result = block == NULL || block->freeing ? CUDA_ERROR_INVALID_VALUE
                                                 : export_block(block, handle);
    }
    sim_unlock();
    return result;
}

/* Whether the allocation that the handle names still exists. */
static bool still_exported(const struct handle *handle) {
    const struct shared_area *area = map_area(handle);

    return area != NULL && handle->slot < EXPORTS_MAX &&
           area->exports[handle->slot] == handle->serial;
}

static struct block *find_opened(const struct CUctx_st *context, const struct handle *handle) {
    struct block *block;

    for (block = memory_next(NULL); block != NULL; block = memory_next(block))
        if (block->kind == MEMORY_IMPORTED && block->context == context &&
            block->export_serial == handle->serial && block->export_process == handle->process)
            return block;
    return NULL;
}

static CUresult open_handle(CUdeviceptr *pointer, const struct handle *handle,
                            struct CUctx_st *context) {
    struct block *block = find_opened(context, handle);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = handle->offset / page * page;
    unsigned char *memory;

    if (block == NULL) {
        if (!still_exported(handle))
            return CUDA_ERROR_INVALID_VALUE;
        memory = map_file(handle, first, handle->offset + handle->size - first);
        if (memory == NULL)
            return CUDA_ERROR_MAP_FAILED;
        block = memory_import(context, memory + (handle->offset - first), handle->size);
        if (block == NULL) {
            munmap(memory, handle->offset + handle->size - first);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        block->export_serial = handle->serial;
        block->export_process = handle->process;
    }
    block->opens++;
    *pointer = block->address;
    return CUDA_SUCCESS;
}

static CUresult open_memory(CUdeviceptr *pointer, const CUipcMemHandle *given, unsigned int flags) {
    struct CUctx_st *context;
    struct handle handle;
    CUresult result;

    memcpy(&handle, given, sizeof handle);
    if (pointer == NULL || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
        handle.magic != memory_magic)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.process == (int32_t)getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* not in the process that made it */
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = capture_check_unsafe();
    if (result == CUDA_SUCCESS)
        result = open_handle(pointer, &handle, context);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle,
                                       unsigned int flags) {
    ENTER(cuIpcOpenMemHandle);
    return open_memory(pointer, &handle, flags);
}

SIM_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle,
                                          unsigned int flags) {
    ENTER(cuIpcOpenMemHandle_v2);
    return open_memory(pointer, &handle, flags);
}

SIM_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
    struct CUctx_st *context;
    struct block *block;
    uint64_t unspent;
    CUresult result;

    ENTER(cuIpcCloseMemHandle);
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS) {
        block = memory_at(pointer);
        if (block == NULL || block->kind != MEMORY_IMPORTED || block->opens == 0) {
            result = CUDA_ERROR_INVALID_VALUE;
        } else if (--block->opens == 0) {
            block->export_serial = 0; /* nobody finds it any more */
            block->freeing = true;
            result = context_wait(block->context); /* [wait:ipc-close] assumed */
            if (memory_at(pointer) == block)       /* its context may have ended meanwhile */
                memory_release(block, &host_clock, 0, &unspent);
        }
    }
    sim_unlock();
    return result;
}

/* --- events --- */

static CUresult run_record(struct op *op) {
    struct shared_event *event = op->as.shared_event.slot;
    uint64_t seen = event->completed;

    while (seen < op->as.shared_event.count &&
           !atomic_compare_exchange_weak(&event->completed, &seen, op->as.shared_event.count))
        continue;
    return CUDA_SUCCESS;
}

static void pause_briefly(void) {
    const struct timespec pause = {.tv_nsec = 50000};

    nanosleep(&pause, NULL);
}

static CUresult run_hold(struct op *op) {
    struct shared_event *event = op->as.shared_event.slot;

    while (event->completed < op->as.shared_event.count)
        pause_briefly();
    return CUDA_SUCCESS;
}

struct op *ipc_event_record(struct CUevent_st *event) {
    sim_check_held();
    struct op *op = op_create("cuEventRecord", run_record);

    op->as.shared_event.slot = event->shared;
    op->as.shared_event.count = atomic_fetch_add(&event->shared->recorded, 1) + 1;
    return op;
}

struct op *ipc_event_hold(struct CUevent_st *event) {
    sim_check_held();
    struct op *op = op_create("cuStreamWaitEvent", run_hold);

    op->as.shared_event.slot = event->shared;
    op->as.shared_event.count = event->shared->recorded;
    return op;
}

bool ipc_event_done(const struct CUevent_st *event) {
    sim_check_held();
    return event->shared->completed >= event->shared->recorded;
}

void ipc_event_wait(struct shared_event *shared) {
    sim_check_held();
    uint64_t count = shared->recorded;

    sim_unlock();
    while (shared->completed < count)
        pause_briefly();
    sim_lock();
}

/* A slot whose records have not all happened stays taken: queued work names it. */
void ipc_event_ending(struct CUevent_st *event) {
    sim_check_held();
    CUdevice device = event->context->device;
    struct event_slots *slots = &event_slots[device];

    if (!event->imported && ipc_event_done(event)) {
        slots->ended =
            allocate_again(slots->ended, (slots->ended_count + 1) * sizeof *slots->ended);
        slots->ended[slots->ended_count++] = (uint32_t)(event->shared - area_of(device)->events);
    }
    event->shared = NULL;
}

/* NULL: all are taken. */
static struct shared_event *take_event(CUdevice device) {
    struct event_slots *slots = &event_slots[device];

    if (slots->ended_count != 0)
        return &area_of(device)->events[slots->ended[--slots->ended_count]];
    return slots->used < EVENTS_MAX ? &area_of(device)->events[slots->used++] : NULL;
}

static CUresult export_event(struct CUevent_st *event, CUipcEventHandle *out) {
    CUdevice device = event->context->device;
    struct shared_area *area = area_of(device);
    struct handle handle;

    if ((event->flags & CU_EVENT_INTERPROCESS) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->imported)
        return CUDA_ERROR_INVALID_HANDLE; /* only its maker passes it on */
    if (event->shared == NULL) {
        event->shared = take_event(device);
        if (event->shared == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (event->work != NULL && !event->work->done)
            work_wait(event->work); /* recorded before it was shared */
        if (event_check(event) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_HANDLE; /* destroyed meanwhile */
    }
    fill_handle(&handle, event_magic, device);
    handle.slot = (uint32_t)(event->shared - area->events);
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event) {
    CUresult result;

    ENTER(cuIpcGetEventHandle);
    if (handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = event_check(event);
    if (result == CUDA_SUCCESS)
        result = export_event(event, handle);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle given) {
    struct CUctx_st *context;
    struct shared_area *area;
    struct handle handle;
    CUresult result;

    ENTER(cuIpcOpenEventHandle);
    memcpy(&handle, &given, sizeof handle);
    if (event == NULL || handle.magic != event_magic || handle.slot >= EVENTS_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.process == (int32_t)getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_lock();
    result = context_current(&context);
    area = result == CUDA_SUCCESS ? map_area(&handle) : NULL;
    if (result == CUDA_SUCCESS && area == NULL)
        result = CUDA_ERROR_MAP_FAILED;
    if (result == CUDA_SUCCESS)
        result = event_create(context, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, event);
    if (result == CUDA_SUCCESS) {
        (*event)->shared = &area->events[handle.slot];
        (*event)->imported = true;
    }
    sim_unlock();
    return result;
}
