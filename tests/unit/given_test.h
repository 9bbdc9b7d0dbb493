/* What given_addresses.c needs of the library, for its tests: a driver that knows one block of
 * device memory and the arguments of functions. */
#ifndef TESTS_UNIT_GIVEN_TEST_H
#define TESTS_UNIT_GIVEN_TEST_H

#include "interpose/given_addresses.h"

#include "counters/stats.h"
#include "interpose/host_addresses.h"
#include "interpose/launch_arguments.h"
#include "interpose/loader.h"
#include "interpose/real_entries.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { PAGE = 4096, FUNCTION = 0x1234, KERNEL = 0x5678, NEWER = 0x9abc };

_Atomic uint64_t loader_unloads;
void *real_entries[HOOKS];
static _Atomic uint64_t counters[STATS_COUNTERS];
_Atomic uint64_t *stats_counters = counters;
uint64_t stats_read(const _Atomic uint64_t *figure) {
    return *figure;
}

static enum pool_awaits awaits;
static bool capturing;
static int given, asked, pointers_asked;
static unsigned char *device; /* readable here, so that only the driver can tell what it is */
static unsigned memory_type;
static size_t argument_sizes[60];
static size_t argument_count;
static CUresult info_error;
static bool knows_functions;

enum pool_awaits pool_awaits_host_addresses(struct pool *pool) {
    (void)pool;
    return awaits;
}

void pool_host_address_given(struct pool *pool) {
    (void)pool;
    given++;
}

bool pool_is_capturing(struct pool *pool) {
    (void)pool;
    return capturing;
}

static CUresult info(void *wanted, void *handle, size_t index, size_t *size) {
    asked++;
    if (info_error)
        return info_error;
    if (handle != wanted)
        return CUDA_ERROR_INVALID_HANDLE;
    if (index >= argument_count)
        return CUDA_ERROR_INVALID_VALUE;
    *size = argument_sizes[index];
    return CUDA_SUCCESS;
}

static CUresult of_function(void *handle, size_t index, size_t *offset, size_t *size) {
    (void)offset;
    return info((void *)FUNCTION, handle, index, size);
}

static CUresult of_kernel(void *handle, size_t index, size_t *offset, size_t *size) {
    (void)offset;
    return info((void *)KERNEL, handle, index, size);
}

void *real_find(const char *name) {
    if (!knows_functions)
        return NULL;
    if (strcmp(name, "cuFuncGetParamInfo") == 0)
        return (void *)of_function;
    return strcmp(name, "cuKernelGetParamInfo") == 0 ? (void *)of_kernel : NULL;
}

static CUresult pointer_get_attribute(void *value, CUpointer_attribute attribute,
                                      CUdeviceptr pointer) {
    pointers_asked++;
    if (pointer < (uintptr_t)device || pointer >= (uintptr_t)device + PAGE)
        return CUDA_ERROR_INVALID_VALUE;
    *(unsigned *)value = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? memory_type : 0;
    return CUDA_SUCCESS;
}

static void *map(void *at, size_t bytes, int access) {
    void *memory =
        mmap(at, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

/* Alone in its 64 KiB, as device memory is. */
static int make_device(void **state) {
    (void)state;
    uintptr_t all = (uintptr_t)map(NULL, 3 << 16, PROT_NONE);
    device = map((void *)((all + 0xffff) & ~(uintptr_t)0xffff), PAGE, PROT_READ | PROT_WRITE);
    return 0;
}

static int begin(void **state) {
    (void)state;
    given_forget_after_fork();
    awaits = POOL_AWAITS_THE_FIRST;
    capturing = false;
    real_entries[HOOK_cuPointerGetAttribute] = (void *)pointer_get_attribute;
    memory_type = CU_MEMORYTYPE_DEVICE;
    given = asked = pointers_asked = 0;
    knows_functions = true;
    info_error = CUDA_SUCCESS;
    argument_count = 3;
    argument_sizes[0] = 4;
    argument_sizes[1] = 8;
    argument_sizes[2] = 24;
    return 0;
}

/* A call with so many words; the number of times that an address was found. */
static inline int look(unsigned row, const uint64_t *words) {
    int before = given;
    struct call_arguments arguments = {words, words + REGISTER_ARGUMENTS};
    if (given_looks_at(row))
        given_look(NULL, row, &arguments);
    return given - before;
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

#endif
