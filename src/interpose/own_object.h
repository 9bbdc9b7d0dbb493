/* Where libpoolcuda.so itself lies in memory. */
#ifndef POOLCUDA_INTERPOSE_OWN_OBJECT_H
#define POOLCUDA_INTERPOSE_OWN_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

/* Both are set by the linker for every ELF object. */
extern const char own_object_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char own_object_end[] __asm__("_end") __attribute__((visibility("hidden")));

static inline bool own_object_contains(uintptr_t address) {
    return address >= (uintptr_t)own_object_start && address < (uintptr_t)own_object_end;
}

#endif
