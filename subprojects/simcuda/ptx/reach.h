/* Where the memory is that a lane's address names. */
#ifndef SIMCUDA_PTX_REACH_H
#define SIMCUDA_PTX_REACH_H

#include "machine.h"

/* The end of what the frame's threads have of local memory. */
static inline size_t local_end(const struct warp *warp) {
    return warp->frame->local + warp->frame->function->local_bytes;
}

static inline unsigned char *within(unsigned char *memory, size_t size, uint64_t address,
                                    unsigned int bytes) {
    return address <= size && bytes <= size - address ? memory + address : NULL;
}

/* Without its window. NULL: it is outside. */
static inline unsigned char *reach_in(struct warp *warp, unsigned int lane, enum window window,
                                      uint64_t address, unsigned int bytes) {
    struct launch *launch = warp->block->launch;

    switch (window) {
    case WINDOW_GLOBAL:
        return global_memory(warp->worker, address, bytes);
    case WINDOW_SHARED:
        return within(warp->block->shared, warp->block->shared_size, address, bytes);
    case WINDOW_LOCAL:
        return within(local_memory(warp, lane, 0), local_end(warp), address, bytes);
    case WINDOW_PARAM:
        return within((unsigned char *)launch->asked->parameters,
                      launch->kernel->function->parameter_bytes, address, bytes);
    case WINDOW_GRID:
        return within((unsigned char *)launch->workspace, sizeof launch->workspace, address, bytes);
    default:
        return NULL;
    }
}

/* The window of an address in `space`; *address loses it. Shared and local memory have addresses of
 * 32 bits that wrap: nvcc writes a register below zero and what brings it back as the offset. */
static inline enum window window_in(enum space space, uint64_t *address) {
    enum window window;

    switch (space) {
    case SPACE_SHARED:
        *address = (uint32_t)*address;
        return WINDOW_SHARED;
    case SPACE_LOCAL:
        *address = (uint32_t)*address;
        return WINDOW_LOCAL;
    case SPACE_PARAM:
        return WINDOW_PARAM;
    case SPACE_GENERIC:
        window = *address >> WINDOW_SHIFT < WINDOWS ? (enum window)(*address >> WINDOW_SHIFT)
                                                    : WINDOW_CODE;
        *address &= (UINT64_C(1) << WINDOW_SHIFT) - 1;
        return window;
    default:
        return WINDOW_GLOBAL;
    }
}

/* Ends the launch: the address is outside or not aligned. */
enum step access_fault(struct warp *warp, const struct instruction *instruction, unsigned int lane,
                       uint64_t address, unsigned int bytes, const char *what);

#endif
