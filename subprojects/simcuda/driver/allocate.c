#include "allocate.h"

#include <stdio.h>
#include <stdlib.h>

static void *or_abort(void *memory, size_t size) {
    if (memory == NULL && size != 0) {
        fprintf(stderr, "simcuda: out of host memory for the simulator's records (%zu bytes)\n",
                size);
        abort();
    }
    return memory;
}

void *allocate_zeroed(size_t size) {
    return or_abort(calloc(1, size), size);
}

void *allocate_again(void *memory, size_t size) {
    return or_abort(realloc(memory, size), size);
}
