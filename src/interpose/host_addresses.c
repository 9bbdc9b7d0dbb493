/* How a word is judged, the cheapest first.
 *   1. It is too small, or too large for an address of a user's on any Linux.
 *   2. Its page is remembered as none of plain host memory.
 *   3. mincore: nothing is mapped there. Most integers end here; nothing is touched.
 *   4. The driver knows it: device memory, or memory of another kind, whose use is a reason of its
 *      own to wait. It is asked before the memory is touched: managed pages would come to the host.
 *   5. The page cannot be read (reserved addresses): rt_sigprocmask reads a set of signals before
 * it looks at what to do with it, and with a request that there is not does nothing else.
 *
 * What is left is plain host memory. Bare system calls on the address itself are chosen because
 * they are exact: a copy of /proc/self/maps would be out of date with the next mmap, of which
 * nobody tells, and reading it anew takes as long as a hundred launches. They go without a file,
 * memory or a lock, and a process that may make few calls may make these.
 *
 * Only what is none is remembered, as the first address found is the last that is looked for. */
#include "interpose/host_addresses.h"

#include "counters/stats.h"
#include "driver/cuda_api.h"
#include "interpose/real_entries.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    PAGE_BITS = 12,
    GRANULE_BITS = 16, /* the smallest unit of device memory: no other memory is in it */
    SLOT_BITS = 12,
    ADDRESS_BITS = 56, /* of no more does any Linux let a process have */
    EPOCH_SHIFT = ADDRESS_BITS - PAGE_BITS + 1,
};
static const uint64_t least_address = 1 << GRANULE_BITS;
static const uint64_t most_address = (uint64_t)1 << ADDRESS_BITS;

/* Each slot: the number of a page, or of a granule with PAGE_BITS shifted out as well and
 * GRANULE_MARK, and above it the epoch in which it was learnt. 0: nothing. */
#define GRANULE_MARK ((uint64_t)1 << (ADDRESS_BITS - PAGE_BITS))
static _Atomic uint64_t slots[1 << SLOT_BITS];

/* What has been forgotten by whom; threads write to it once in HOST_ADDRESSES_LOOKS calls. */
static _Atomic uint64_t forgotten;
static _Thread_local unsigned looks __attribute__((tls_model("initial-exec")));

void host_addresses_forget(void) {
    atomic_fetch_add_explicit(&forgotten, 1, memory_order_relaxed);
}

/* The epoch ends with everything by which addresses can come to mean something else. Device memory
 * that the pool gives back it counts itself: in figures that others may write to, but what they
 * could spoil is forgotten soon all the same. */
uint64_t host_addresses_begin(void) {
    if (++looks % HOST_ADDRESSES_LOOKS == 0)
        host_addresses_forget();
    uint64_t epoch = 1 + atomic_load_explicit(&forgotten, memory_order_relaxed) +
                     stats_read(&stats_counters[STATS_driver_frees]) +
                     stats_read(&stats_counters[STATS_free_unknown]) +
                     stats_read(&stats_counters[STATS_map_calls]);
    return epoch << EPOCH_SHIFT;
}

static _Atomic uint64_t *slot_of(uint64_t number) {
    return &slots[(number ^ number >> SLOT_BITS) % (1 << SLOT_BITS)];
}

static uint64_t granule_of(uint64_t word) {
    return word >> GRANULE_BITS | GRANULE_MARK;
}

static bool is_remembered(uint64_t number, uint64_t now) {
    return atomic_load_explicit(slot_of(number), memory_order_relaxed) == (number | now);
}

static void remember(uint64_t number, uint64_t now) {
    atomic_store_explicit(slot_of(number), number | now, memory_order_relaxed);
}

static bool is_mapped(uint64_t word) {
    unsigned char resident;
    uint64_t page = word >> PAGE_BITS << PAGE_BITS;
    return syscall(SYS_mincore, page, 1, &resident) == 0 || errno != ENOMEM;
}

/* unknown: what it is taken for where the kernel cannot be asked. */
static bool is_readable(uint64_t word, bool unknown) {
    enum { NO_REQUEST = -1, SIGNALS = 8 };
    errno = 0;
    syscall(SYS_rt_sigprocmask, NO_REQUEST, word & ~(uint64_t)7, NULL, SIGNALS);
    return errno == EFAULT ? false : errno == EINVAL || unknown;
}

/* For an address of a page that nothing is remembered of. */
__attribute__((noinline, cold)) static bool ask(uint64_t word, uint64_t now) {
    unsigned type;
    if (!is_mapped(word)) {
        remember(word >> PAGE_BITS, now);
        return false;
    }
    if (REAL(cuPointerGetAttribute) &&
        REAL(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word) ==
            CUDA_SUCCESS) {
        unsigned managed = 1;
        if (type == CU_MEMORYTYPE_DEVICE &&
            REAL(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, word) ==
                CUDA_SUCCESS &&
            !managed)
            remember(granule_of(word), now);
        return false; /* other memory's pages are soon somebody else's: they are asked for anew */
    }
    if (is_readable(word, true))
        return true;
    remember(word >> PAGE_BITS, now);
    return false;
}

static inline bool judge(uint64_t word, uint64_t now) {
    if (word - least_address >= most_address - least_address ||
        is_remembered(granule_of(word), now) || is_remembered(word >> PAGE_BITS, now))
        return false;
    return ask(word, now);
}

bool host_address_is(uint64_t word, uint64_t now) {
    return judge(word, now);
}

bool host_can_change(uint64_t at) {
    unsigned type, managed = 0;
    if (at < least_address || at >= most_address || !is_readable(at, false))
        return false;
    return !REAL(cuPointerGetAttribute) ||
           REAL(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) !=
               CUDA_SUCCESS ||
           type != CU_MEMORYTYPE_DEVICE ||
           (REAL(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at) ==
                CUDA_SUCCESS &&
            managed);
}

bool host_addresses_among(const void *at, size_t bytes, uint64_t now) {
    uint64_t word;
    for (size_t i = 0; i + sizeof word <= bytes; i += sizeof word) {
        memcpy(&word, (const char *)at + i, sizeof word);
        if (judge(word, now))
            return true;
    }
    return false;
}

bool host_addresses_in(uint64_t at, size_t bytes, uint64_t now) {
    bool readable = at >= least_address && at < most_address;
    for (uint64_t page = at; readable && page < at + bytes; page = (page | 0xfff) + 1)
        readable = is_readable(page, false);
    return readable && host_addresses_among((const void *)(uintptr_t)at, bytes, now);
}
