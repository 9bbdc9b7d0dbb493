/* Which idle block may serve a request: by its size, and by what the bound on waste leaves. */
#include "base/sizes.h"
#include "keep/site.h"

/* Blocks up to this size serve every smaller request: what that wastes is not worth a call. */
static const size_t any_below = 4096;

enum {
    FOR_OTHERS = 5,   /* this part of what the bound on waste leaves is not one request's to take */
    LITTLE_WASTE = 6, /* any block serves that wastes this part, or less, of what one may take */
    MOST_GROWTH = 4
};

/* Bytes that one request may waste. */
static size_t most_waste(const struct fit *fit) {
    return fit->surplus - fit->surplus / FOR_OTHERS;
}

/* Bytes that may be wasted whatever the ratio is, but the fewer the nearer it is to 1. */
static size_t little_waste(const struct fit *fit) {
    double part = (fit->ratio < 2 ? fit->ratio - 1 : 1) / LITTLE_WASTE;
    return fit->little ? (size_t)(part * (double)most_waste(fit)) : 0;
}

/* Bytes that a block of any size may waste. */
static size_t spare_waste(const struct fit *fit) {
    size_t left = fit->surplus > fit->strict ? fit->surplus - fit->strict : 0;
    return left - left / FOR_OTHERS;
}

bool site_fits(const struct pool_block *block, const struct fit *fit) {
    if (block->size == fit->size)
        return true;
    size_t more = block->size - fit->size;
    bool near = more <= spare_waste(fit) || (double)block->size <= fit->ratio * (double)fit->size ||
                (double)block->asked <= fit->ratio * (double)fit->bytes ||
                block->size <= any_below || more <= little_waste(fit);
    return near && more <= most_waste(fit);
}

size_t site_most(const struct fit *fit) {
    double near = fit->ratio * (double)fit->size;
    size_t rounded = near < (double)(SIZE_MAX / 2) ? round_physical((size_t)near) : SIZE_MAX;
    size_t wasting = fit->size + little_waste(fit); /* wraps only where `rounded` is the most */
    size_t least = wasting > any_below ? wasting : any_below, spare = fit->size + spare_waste(fit);
    least = spare > least ? spare : least;
    return rounded > least ? rounded : least;
}

size_t site_reach(const struct fit *fit) {
    lock_check_held(LOCK_POOL);
    size_t size = site_most(fit), bounded = fit->size + most_waste(fit);
    if (fit->ratio <= 1 || fit->size > SIZE_MAX / MOST_GROWTH)
        return fit->size;
    if (bounded >= fit->size && size > bounded)
        size = bounded;
    if (size > MOST_GROWTH * fit->size)
        size = MOST_GROWTH * fit->size;
    size -= size % (size >= ROUND_PAGE ? ROUND_PAGE : ROUND_SMALL);
    return size > fit->size ? size : fit->size;
}
