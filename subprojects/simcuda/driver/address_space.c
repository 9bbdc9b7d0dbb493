#include "address_space.h"

#include "address_runs.h"
#include "context.h"
#include "host_backing.h"
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HOST_PAGE = 4096 };

/* Invariant: base != 0 once used; shadow + i and base + i are the same byte of the device. */
struct address_space {
    CUdeviceptr base;
    size_t size;
    unsigned char *shadow;
    void *shared;
    int file;
    struct address_runs free;
};

static struct address_space spaces[DEVICES_MAX];

static _Noreturn void fail(const char *what) {
    fprintf(stderr,
            "simcuda: cannot reserve device memory (%s: %s); a smaller SIMCUDA_MEMORY may "
            "help\n",
            what, strerror(errno));
    abort();
}

/* Four times the device's memory, so that there are addresses wherever there is memory. A small
 * device's small allocations may be spread over more pages than it has. */
static struct address_space *space_of(CUdevice device) {
    static const size_t least = (size_t)64 << 20;
    struct address_space *space = &spaces[device];

    if (space->base != 0)
        return space;
    space->size = (memory_capacity(device) + memory_page - 1) / memory_page * memory_page * 4;
    if (space->size < least)
        space->size = least;
    while ((space->base = address_runs_reserve(space->size)) == 0) {
        if (space->size <= memory_capacity(device))
            fail("addresses");
        space->size /= 2; /* checkers such as sanitizers leave less room */
    }
    space->file = memfd_create("simcuda", MFD_CLOEXEC);
    if (space->file < 0 || ftruncate(space->file, (off_t)(space->size + ADDRESS_SPACE_SHARED)) != 0)
        fail("file");
    space->shadow =
        mmap(NULL, space->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, space->file, 0);
    space->shared = mmap(NULL, ADDRESS_SPACE_SHARED, PROT_READ | PROT_WRITE, MAP_SHARED,
                         space->file, (off_t)space->size);
    if (space->shadow == MAP_FAILED || space->shared == MAP_FAILED)
        fail("mapping");
    address_runs_give(&space->free, space->base, space->size);
    return space;
}

bool address_space_take(CUdevice device, size_t bytes, CUdeviceptr *address) {
    uint64_t taken;
    bool found = address_runs_take(&space_of(device)->free, bytes, memory_page, &taken);

    if (found)
        *address = taken;
    return found;
}

void address_space_give(CUdevice device, CUdeviceptr address, size_t bytes) {
    address_runs_give(&space_of(device)->free, address, bytes);
}

void address_space_clear(CUdevice device, CUdeviceptr address, size_t bytes) {
    struct address_space *space = space_of(device);
    uint64_t begin = address - space->base;
    uint64_t end = begin + bytes;
    uint64_t first = (begin + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE;
    uint64_t last = end / HOST_PAGE * HOST_PAGE;

    if (first >= last) {
        memset(space->shadow + begin, 0, bytes);
        return;
    }
    if (fallocate(space->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first,
                  (off_t)(last - first)) != 0)
        memset(space->shadow + first, 0, last - first);
    memset(space->shadow + begin, 0, first - begin);
    memset(space->shadow + last, 0, end - last);
    host_backing_forget(device, first, last - first);
}

unsigned char *address_space_shadow(CUdevice device, CUdeviceptr address) {
    struct address_space *space = space_of(device);

    return space->shadow + (address - space->base);
}

bool address_space_overlaps(CUdeviceptr address, size_t bytes) {
    for (size_t i = 0; i < DEVICES_MAX; i++)
        if (spaces[i].base != 0 && address < spaces[i].base + spaces[i].size &&
            spaces[i].base < address + bytes)
            return true;
    return false;
}

bool address_space_find(const unsigned char *shadow, int *file, uint64_t *offset) {
    for (size_t i = 0; i < DEVICES_MAX; i++)
        if (spaces[i].base != 0 && shadow >= spaces[i].shadow &&
            shadow < spaces[i].shadow + spaces[i].size) {
            *file = spaces[i].file;
            *offset = (uint64_t)(shadow - spaces[i].shadow);
            return true;
        }
    return false;
}

CUdeviceptr address_space_base(CUdevice device) {
    return space_of(device)->base;
}

int address_space_file(CUdevice device) {
    return space_of(device)->file;
}

uint64_t address_space_shared_offset(CUdevice device) {
    return space_of(device)->size;
}

void *address_space_shared(CUdevice device) {
    return space_of(device)->shared;
}
