/* Has its own hooks for cuMemAlloc and cuMemFree, put into its import table as UCX and other
 * libraries of that kind do, over whatever stands there; each calls what it found. */
#include "driver/cuda_api.h"
#include "program.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

static CUresult (*next_alloc)(CUdeviceptr *, size_t);
static CUresult (*next_free)(CUdeviceptr);
static int allocs, frees;

static CUresult count_alloc(CUdeviceptr *pointer, size_t bytes) {
    allocs++;
    return next_alloc(pointer, bytes);
}

static CUresult count_free(CUdeviceptr pointer) {
    frees++;
    return next_free(pointer);
}

/* Puts `hook` into every slot of the program's own import table that is bound to `name`. */
static void *replace(const char *name, void *hook) {
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const ElfW(Rela) *relocations = NULL;
    size_t size = 0;
    void *found = NULL;
    for (const ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            symbols = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_STRTAB)
            strings = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_JMPREL)
            relocations = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_PLTRELSZ)
            size = entry->d_un.d_val;
    }
    REQUIRE(symbols && strings && relocations);
    const char *base = (const char *)_r_debug.r_map->l_addr;
    for (size_t i = 0; i < size / sizeof *relocations; i++) {
        const ElfW(Sym) *symbol = &symbols[relocations[i].r_info >> 32];
        if (strcmp(strings + symbol->st_name, name) != 0)
            continue;
        void **slot = (void **)(uintptr_t)(base + relocations[i].r_offset);
        REQUIRE(mprotect((void *)((uintptr_t)slot & ~(uintptr_t)4095), 4096,
                         PROT_READ | PROT_WRITE) == 0);
        found = *slot;
        *slot = hook;
    }
    return found;
}

int main(void) {
    CUcontext context;
    CUdeviceptr pointer;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc_v2(&pointer, 1000) == CUDA_SUCCESS); /* binds what is bound lazily */
    REQUIRE(cuMemFree_v2(pointer) == CUDA_SUCCESS);
    *(void **)&next_alloc = replace("cuMemAlloc_v2", (void *)count_alloc);
    *(void **)&next_free = replace("cuMemFree_v2", (void *)count_free);
    REQUIRE(next_alloc && next_free);
    for (int i = 0; i < ROUNDS; i++) {
        REQUIRE(cuMemAlloc_v2(&pointer, 5000) == CUDA_SUCCESS);
        REQUIRE(cuMemFree_v2(pointer) == CUDA_SUCCESS);
    }
    printf("hooked %d allocations and %d frees\n", allocs, frees);
    return 0;
}
