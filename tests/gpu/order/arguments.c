/* What the driver says of kernels' arguments, and whether a kernel reaches plain host memory whose
 * address it is given: as an argument, or in memory that an argument points to. */
#include "probes.h"

#include "../../programs/order/fill_behind.h"

#include <string.h>

typedef CUresult parameter_info(void *handle, size_t index, size_t *offset, size_t *size);
typedef CUresult load_library(void **library, const void *code, void *, void *, unsigned, void *,
                              void *, unsigned);
typedef CUresult get_kernel(void **kernel, void *library, const char *name);

/* Whose arguments are asked for, by which function. A launch takes either handle as the other's. */
struct asked {
    const char *id, *by, *whose;
    void *handle;
};

static void tell_parameters(const struct asked *asked) {
    enum { ONE_TOO_MANY = 3 };
    parameter_info *info;
    char line[512], question[128];
    int used = 0;
    snprintf(question, sizeof question, "%s of %s", asked->by, asked->whose);
    *(void **)&info = driver_symbol(asked->by);
    if (info == NULL) {
        answer(asked->id, question, "not asked: this driver does not have it");
        return;
    }
    for (size_t index = 0; index <= ONE_TOO_MANY; index++) {
        size_t offset = 0, size = 0;
        CUresult code = info(asked->handle, index, &offset, &size);
        used += snprintf(line + used, sizeof line - (size_t)used, "%sargument %zu: %s",
                         index ? "; " : "", index, code_name(code));
        if (code == CUDA_SUCCESS)
            used += snprintf(line + used, sizeof line - (size_t)used, ", %zu bytes at %zu", size,
                             offset);
    }
    answer(asked->id, question, "%s", line);
}

/* A kernel of a library that is in no context yet. NULL: this driver has none. */
static void *library_kernel(void) {
    load_library *load;
    get_kernel *get;
    void *library = NULL, *kernel = NULL;
    *(void **)&load = driver_symbol("cuLibraryLoadData");
    *(void **)&get = driver_symbol("cuLibraryGetKernel");
    if (load == NULL || get == NULL)
        return NULL;
    CHECK(load(&library, fill_behind_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(get(&kernel, library, "fill_behind_u32"));
    return kernel;
}

void probe_parameters(void) {
    struct start start = start_device();
    tell_parameters(&(struct asked){"17.1", "cuFuncGetParamInfo", "a function", start.fill});
    tell_parameters(
        &(struct asked){"17.2", "cuFuncGetParamInfo", "a function without arguments", start.fault});
    void *kernel = library_kernel();
    if (kernel == NULL) {
        answer("17.3", "cuKernelGetParamInfo", "not asked: this driver has no libraries");
        return;
    }
    tell_parameters(&(struct asked){"17.3", "cuKernelGetParamInfo", "a kernel", kernel});
    tell_parameters(&(struct asked){"17.4", "cuFuncGetParamInfo", "a kernel", kernel});
    tell_parameters(&(struct asked){"17.5", "cuKernelGetParamInfo", "a function", start.fill});
}

static bool reaches_host(const char *id, const char *question, const struct start *start) {
    int reaches = 0, by_tables = 0;
    CHECK(
        cuDeviceGetAttribute(&reaches, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, start->device));
    CHECK(cuDeviceGetAttribute(&by_tables,
                               CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
                               start->device));
    if (!reaches)
        answer(id, question, "not asked: PAGEABLE_MEMORY_ACCESS is 0");
    else
        answer(id, "PAGEABLE_MEMORY_ACCESS is 1", "USES_HOST_PAGE_TABLES is %d", by_tables);
    return reaches;
}

/* The kernel has been launched behind running work, and no call is made between the free and the
 * look: what the host reads, it reads because the free waited. */
static void tell_seen(const char *id, const char *question, CUdeviceptr block,
                      const volatile uint32_t *memory) {
    uint32_t before = memory[WORDS - 1];
    CUresult code = cuMemFree_v2(block);
    uint32_t after = memory[WORDS - 1];
    CUresult synchronized = cuCtxSynchronize();
    answer(id, question, "the host reads %u before a free (%s), %u after it, %u at the end (%s)",
           before, code_name(code), after, memory[WORDS - 1], code_name(synchronized));
}

void probe_pageable_argument(void) {
    static const char question[] = "a kernel is given an address of plain host memory";
    struct start start = start_device();
    if (!reaches_host("17.6", question, &start))
        return;
    CUdeviceptr kept = allocate(BYTES), block = allocate(BYTES);
    uint32_t *memory = calloc(WORDS, sizeof *memory);
    REQUIRE(memory != NULL);
    keep_busy(&start, NULL);
    fill(&start, (CUdeviceptr)(uintptr_t)memory, NULL);
    tell_seen("17.7", question, block, memory);
    CHECK(cuMemFree_v2(kept));
}

void probe_pageable_behind(void) {
    static const char question[] = "a kernel finds an address of plain host memory on the device";
    struct start start = start_device();
    if (!reaches_host("17.8", question, &start))
        return;
    CUdeviceptr kept = allocate(BYTES), block = allocate(BYTES), there = allocate(BYTES);
    uint32_t *memory = calloc(WORDS, sizeof *memory), value = VALUE;
    CUmodule module;
    CUfunction fill_behind;
    REQUIRE(memory != NULL);
    CHECK(cuModuleLoadData(&module, fill_behind_ptx));
    CHECK(cuModuleGetFunction(&fill_behind, module, "fill_behind_u32"));
    const uint64_t where[2] = {(uintptr_t)memory, WORDS};
    CHECK(cuMemcpyHtoD_v2(there, where, sizeof where));
    keep_busy(&start, NULL);
    launch(fill_behind, (void *[]){&there, &value}, NULL);
    tell_seen("17.9", question, block, memory);
    CHECK(cuMemFree_v2(kept));
}
