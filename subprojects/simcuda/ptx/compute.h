/* Handlers of instructions that compute a value of each lane's operands alone. */
#ifndef SIMCUDA_PTX_COMPUTE_H
#define SIMCUDA_PTX_COMPUTE_H

#include "arithmetic.h"
#include "decode.h"
#include "machine.h"

/* The result of a lane, where x, y and z are its operands. */
#define COMPUTE_1(name, X, result)                                                                 \
    static enum step name(struct warp *warp, const struct instruction *instruction) {              \
        const uint64_t *a = source(warp, instruction->a);                                          \
        uint64_t *d = destination(warp, instruction->d);                                           \
                                                                                                   \
        FOR_LANES(warp, lane, {                                                                    \
            X x = (X)a[lane];                                                                      \
            d[lane] = (result);                                                                    \
        });                                                                                        \
        return STEP_ON;                                                                            \
    }
#define COMPUTE_2(name, X, Y, result)                                                              \
    static enum step name(struct warp *warp, const struct instruction *instruction) {              \
        const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);       \
        uint64_t *d = destination(warp, instruction->d);                                           \
                                                                                                   \
        FOR_LANES(warp, lane, {                                                                    \
            X x = (X)a[lane];                                                                      \
            Y y = (Y)b[lane];                                                                      \
            d[lane] = (result);                                                                    \
        });                                                                                        \
        return STEP_ON;                                                                            \
    }
#define COMPUTE_3(name, X, Y, Z, result)                                                           \
    static enum step name(struct warp *warp, const struct instruction *instruction) {              \
        const uint64_t *a = source(warp, instruction->a), *b = source(warp, instruction->b);       \
        const uint64_t *c = source(warp, instruction->c);                                          \
        uint64_t *d = destination(warp, instruction->d);                                           \
                                                                                                   \
        FOR_LANES(warp, lane, {                                                                    \
            X x = (X)a[lane];                                                                      \
            Y y = (Y)b[lane];                                                                      \
            Z z = (Z)c[lane];                                                                      \
            d[lane] = (result);                                                                    \
        });                                                                                        \
        return STEP_ON;                                                                            \
    }

#endif
