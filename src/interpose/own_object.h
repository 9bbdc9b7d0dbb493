/* Where libpoolcuda.so itself lies in memory. */
#ifndef POOLCUDA_INTERPOSE_OWN_OBJECT_H
#define POOLCUDA_INTERPOSE_OWN_OBJECT_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* Our ELF header, the first bytes of the object: set by the linker. */
extern const ElfW(Ehdr) own_object_header __asm__("__ehdr_start")
    __attribute__((visibility("hidden")));

static inline bool own_object_contains(uintptr_t address) {
    uintptr_t base = (uintptr_t)&own_object_header;
    const ElfW(Phdr) *segments = (const void *)(base + own_object_header.e_phoff);
    for (unsigned i = 0; i < own_object_header.e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && address >= base + segments[i].p_vaddr &&
            address - base - segments[i].p_vaddr < segments[i].p_memsz)
            return true;
    return false;
}

#endif
