#include "interpose/checked.h"

CUresult checked_malloc(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                        const struct call_site *site) {
    struct check *check = state_check();
    return check ? check_malloc(check, pointer, bytes, site)
                 : pool_malloc(pool, pointer, bytes, site);
}

CUresult checked_malloc_pitch(struct pool *pool, CUdeviceptr *pointer, size_t *pitch, size_t width,
                              size_t height, unsigned int element, const struct call_site *site) {
    struct check *check = state_check();
    return check ? check_malloc_pitch(check, pointer, pitch, width, height, element, site)
                 : pool_malloc_pitch(pool, pointer, pitch, width, height, element, site);
}

CUresult checked_free(struct pool *pool, CUdeviceptr pointer, const struct call_site *at) {
    struct check *check = state_check();
    return check ? check_free(check, pointer, at) : pool_free(pool, pointer);
}

CUresult checked_free_host(struct pool *pool, void *memory) {
    struct check *check = state_check();
    return check ? check_free_host(check, memory) : pool_free_host(pool, memory);
}

void checked_given(CUdeviceptr address, size_t bytes) {
    if (state_check())
        check_given(state_check(), address, bytes);
}

bool checked_make_room(struct pool *pool, const char *call, unsigned attempt, enum pool_asks asks) {
    bool made = state_check() && !attempt && check_make_room(state_check());
    return pool_make_room(pool, call, attempt, asks) || made;
}
