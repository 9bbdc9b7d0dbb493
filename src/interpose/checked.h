/* The calls that go through the check, if memory is checked, and else to the pool at once. */
#ifndef POOLCUDA_INTERPOSE_CHECKED_H
#define POOLCUDA_INTERPOSE_CHECKED_H

#include "check/check.h"
#include "interpose/state.h"

/* As the pool's functions. `at`: where the program frees. */
CUresult checked_malloc(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                        const struct call_site *site);
CUresult checked_malloc_pitch(struct pool *pool, CUdeviceptr *pointer, size_t *pitch, size_t width,
                              size_t height, unsigned int element, const struct call_site *site);
CUresult checked_free(struct pool *pool, CUdeviceptr pointer, const struct call_site *at);
CUresult checked_free_host(struct pool *pool, void *memory);

/* To be called when the program has been given memory that is not checked. */
void checked_given(CUdeviceptr address, size_t bytes);

/* As pool_make_room: what is freed, but kept by the check, natively would be there. */
bool checked_make_room(struct pool *pool, const char *call, unsigned attempt, enum pool_asks asks);

#endif
