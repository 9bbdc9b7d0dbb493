#include "value_op.h"

#include "allocate.h"
#include "lock.h"

#include <stdlib.h>
#include <string.h>

struct value_step {
    bool writes;
    struct awaited awaited; /* of what it writes: the word and the value */
};

/* [order:wait-value] cuda.h 16897; [order:write-value] cuda.h 510; [order:semaphore] cuda.h 16665,
 * 16760 */
static CUresult run(struct op *op) {
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; i < op->as.values.count && result == CUDA_SUCCESS; i++) {
        const struct value_step *step = &op->as.values.steps[i];

        result = step->writes ? value_write(&step->awaited.word, step->awaited.value)
                              : value_await(&step->awaited);
    }
    return result;
}

static void dispose(struct op *op) {
    for (size_t i = 0; i < op->as.values.count; i++)
        outside_word_drop(op->as.values.steps[i].awaited.word.outside);
    free(op->as.values.steps);
    free(op->as.values.arrays);
}

struct op *value_op_create(const char *name, size_t room) {
    sim_check_held();
    struct op *op = op_create(name, run);

    op->dispose = dispose;
    op->as.values.steps = allocate_zeroed(room * sizeof *op->as.values.steps);
    return op;
}

void *value_op_keep(struct op *op, const void *first, size_t first_size, const void *second,
                    size_t second_size) {
    sim_check_held();
    unsigned char *arrays = allocate_zeroed(first_size + second_size);

    memcpy(arrays, first, first_size);
    if (second_size != 0)
        memcpy(arrays + first_size, second, second_size);
    op->as.values.arrays = arrays;
    return arrays;
}

static void add(struct op *op, bool writes, const struct awaited *awaited) {
    const struct word *word = &awaited->word;

    op->as.values.steps[op->as.values.count++] = (struct value_step){writes, *awaited};
    if (word->outside != NULL)
        outside_word_keep(word->outside);
    else
        op_access(op, word->address, word->bytes, writes);
}

void value_op_wait(struct op *op, const struct awaited *awaited) {
    sim_check_held();
    add(op, false, awaited);
}

void value_op_write(struct op *op, const struct word *word, uint64_t value) {
    sim_check_held();
    add(op, true, &(struct awaited){.word = *word, .value = value});
}
