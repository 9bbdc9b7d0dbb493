/* What is not simulated. A call says so, and the report counts it.
 *
 * Nothing here includes cuda.h, in which most of these functions have other parameters: they look
 * at none, so that one that a header lacks, or declares otherwise than the next, is the same to
 * them. */
#include "unsimulated.h"

#define CUDA_VERSION SIMCUDA_HEADERS

enum unsimulated {
#define ENTRY(symbol, base, since, form) UNSIMULATED_##symbol,
#include "unsimulated.def"
#undef ENTRY
};

#define ENTRY(symbol, base, since, form)                                                           \
    int symbol(void);                                                                              \
    __attribute__((visibility("default"))) int symbol(void) {                                      \
        return unsimulated_call(UNSIMULATED_##symbol, (uintptr_t)__builtin_return_address(0));     \
    }
#include "unsimulated.def"
#undef ENTRY

const struct entry_record unsimulated_records[] = {
#define ENTRY(symbol, base, since, form) {#base, (void *)(symbol), since, form},
#include "unsimulated.def"
#undef ENTRY
};

const size_t unsimulated_count = sizeof unsimulated_records / sizeof *unsimulated_records;
