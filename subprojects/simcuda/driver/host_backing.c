#include "host_backing.h"

#include "address_space.h"
#include "context.h"
#include "host_room.h"
#include "lock.h"
#include "memory.h"
#include "physical_memory.h"
#include "report.h"
#include "settings.h"
#include "virtual_memory.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { HOST_PAGE = 4096, WORD_BITS = 64 };

/* After so many pages the host is asked again: others take and give memory meanwhile. */
static const size_t asked_every = ((size_t)256 << 20) / HOST_PAGE;

/* Bit i of a device's words is set while page i of its memory is promised; NULL: none is. */
static uint64_t *promises[DEVICES_MAX];
static size_t promised; /* pages: the bits set */
static size_t visible;  /* pages of memory that the process itself reaches */
static size_t room;     /* pages that may be promised before the host is asked again */

/* --- the pages of a device --- */

static uint64_t *words_of(CUdevice device) {
    size_t bytes = address_space_shared_offset(device) / HOST_PAGE / 8 + sizeof(uint64_t);

    if (promises[device] == NULL) {
        void *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        promises[device] = words != MAP_FAILED ? words : NULL;
    }
    return promises[device];
}

/* The bits of word `index` that stand for pages from `first` to before `end`. */
static uint64_t bits(size_t index, size_t first, size_t end) {
    uint64_t mask = UINT64_MAX;

    if (index == first / WORD_BITS)
        mask &= UINT64_MAX << (first % WORD_BITS);
    if (index == end / WORD_BITS)
        mask &= ~(UINT64_MAX << (end % WORD_BITS));
    return mask;
}

enum change { COUNT, PROMISE, FORGET };

/* Returns how many pages of [offset, offset + size) are promised (FORGET) or not, and changes it
 * unless they are only counted. */
static size_t change(CUdevice device, uint64_t offset, size_t size, enum change how) {
    size_t first = offset / HOST_PAGE, end = (offset + size + HOST_PAGE - 1) / HOST_PAGE;
    uint64_t *words = words_of(device);
    size_t pages = 0;

    if (words == NULL)
        return 0;
    for (size_t i = first / WORD_BITS; i * WORD_BITS < end; i++) {
        uint64_t there = bits(i, first, end) & (how == FORGET ? words[i] : ~words[i]);

        if (there == 0)
            continue; /* what is only read stays as sparse as it is */
        if (how != COUNT)
            words[i] ^= there;
        for (; there != 0; there &= there - 1)
            pages++;
    }
    return pages;
}

void host_backing_forget(CUdevice device, uint64_t offset, size_t bytes) {
    sim_check_held();
    if (promises[device] != NULL)
        promised -= change(device, offset, bytes, FORGET);
}

/* --- what an operation needs --- */

/* Where the memory at `address` of the block lies. False: not on a device of this process. */
static bool home_of(const struct block *block, CUdeviceptr address, CUdeviceptr *home) {
    switch (block->kind) {
    case MEMORY_DEVICE:
    case MEMORY_POOL:
    case MEMORY_GRAPH:
        *home = address;
        return true;
    case MEMORY_MAPPED:
        return virtual_memory_home(address, home);
    default:
        return false;
    }
}

/* Whether the access leaves memory that nothing was written to as it is. */
static bool needs_nothing(const struct op *op, const struct access *access,
                          const struct block *block) {
    if (block->kind == MEMORY_MAPPED && !access->write)
        return false; /* a copy sees no holes there */
    return op->host_use == HOST_USE_NONE || (op->host_use == HOST_USE_WRITES && !access->write);
}

static size_t change_access(const struct op *op, const struct access *access, enum change how) {
    CUdeviceptr at = access->address, end = access->address + access->size, home;
    struct block *block;
    size_t pages = 0;

    for (; at < end && (block = memory_containing(at)) != NULL; at = block->address + block->size) {
        CUdeviceptr until = block->address + block->size;

        if (!needs_nothing(op, access, block) && home_of(block, at, &home))
            pages += change(block->device, home - address_space_base(block->device),
                            (until < end ? until : end) - at, how);
    }
    return pages;
}

static size_t change_all(const struct op *op, enum change how) {
    size_t pages = 0;

    for (size_t i = 0; i < op->access_count; i++)
        pages += op->accesses[i].is_hint ? 0 : change_access(op, &op->accesses[i], how);
    for (size_t i = 0; i < op->child_count; i++)
        pages += change_all(op->children[i], how);
    return pages;
}

/* --- what the host has --- */

/* Pages that the devices' memory takes of the host already. */
static size_t backed(void) {
    size_t pages = physical_backed();

    for (CUdevice device = 0; device < DEVICES_MAX; device++) {
        struct stat status;

        if (promises[device] != NULL && fstat(address_space_file(device), &status) == 0)
            pages += (size_t)status.st_blocks / (HOST_PAGE / 512);
    }
    return pages;
}

static size_t resident_pages(const struct block *block) {
    enum { AT_ONCE = 1024 };
    unsigned char there[AT_ONCE];
    size_t pages = 0, all = block->extent / HOST_PAGE;

    for (size_t done = 0; done < all; done += AT_ONCE) {
        size_t count = all - done < AT_ONCE ? all - done : AT_ONCE;

        if (mincore(block->shadow + done * HOST_PAGE, count * HOST_PAGE, there) != 0)
            return all;
        for (size_t i = 0; i < count; i++)
            pages += there[i] & 1;
    }
    return pages;
}

static size_t visible_backed(void) {
    size_t pages = 0;

    for (struct block *block = memory_next(NULL); block != NULL; block = memory_next(block))
        if (block->kind == MEMORY_HOST || block->kind == MEMORY_MANAGED)
            pages += resident_pages(block);
    return pages;
}

static size_t above(size_t a, size_t b) {
    return a > b ? a - b : 0;
}

/* What may still be promised: what there is, less a share that keeps the system and the program
 * itself running, less what was promised and is still to be taken. */
static size_t ask_host(void) {
    const size_t most_kept = ((size_t)1 << 30) / HOST_PAGE;
    uint64_t available;
    size_t pages;

    if (settings()->host_room != 0)
        return above(settings()->host_room / HOST_PAGE, promised + visible);
    available = host_room("");
    pages = available / HOST_PAGE > SIZE_MAX ? SIZE_MAX : (size_t)(available / HOST_PAGE);
    pages -= pages / 8 < most_kept ? pages / 8 : most_kept;
    return above(pages, above(promised, backed()) + above(visible, visible_backed()));
}

/* The system may end a program that has shut itself in when a file is opened: the first share is
 * asked for before it could. */
static uint64_t early_bytes;
__attribute__((constructor)) static void ask_early(void) {
    early_bytes = host_room("");
}

static void take_early_room(void) {
    if (settings()->host_room == 0)
        room =
            early_bytes / HOST_PAGE < asked_every ? (size_t)early_bytes / HOST_PAGE : asked_every;
    early_bytes = 0;
}

/* The report has one line for each function, so it tells of the first time. */
static void refuse(size_t pages, size_t there) {
    static char detail[160];

    if (*detail == '\0')
        snprintf(detail, sizeof detail, "%zu MiB of host memory, which has %zu MiB left to give",
                 pages / 256 + (pages % 256 != 0), there / 256);
    report_unserved(detail);
}

static bool take_room(size_t pages) {
    size_t there;

    if (early_bytes != 0)
        take_early_room();
    if (pages > room) {
        there = ask_host();
        if (pages > there) {
            refuse(pages, there);
            return false;
        }
        room = there < pages + asked_every ? there : pages + asked_every;
    }
    room -= pages;
    return true;
}

bool host_backing_promise(const struct op *op) {
    sim_check_held();
    size_t pages = change_all(op, COUNT);

    if (pages == 0)
        return true;
    if (!take_room(pages))
        return false;
    promised += change_all(op, PROMISE);
    return true;
}

bool host_backing_promise_visible(size_t bytes) {
    sim_check_held();
    if (!take_room(bytes / HOST_PAGE))
        return false;
    visible += bytes / HOST_PAGE;
    return true;
}

void host_backing_end_visible(size_t bytes) {
    sim_check_held();
    visible -= bytes / HOST_PAGE;
}
