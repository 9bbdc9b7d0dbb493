/* Operations that wait for words of memory and write them, one after another. All below: lock held.
 */
#ifndef SIMCUDA_VALUE_OP_H
#define SIMCUDA_VALUE_OP_H

#include "op.h"
#include "values.h"

struct op *value_op_create(const char *name, size_t room); /* with room for so many steps */
/* Keeps a copy of two arrays behind one another, of which the second may be empty, as the one that
 * `told` points into. Returns it. */
void *value_op_keep(struct op *op, const void *first, size_t first_size, const void *second,
                    size_t second_size);
void value_op_wait(struct op *op, const struct awaited *awaited);
void value_op_write(struct op *op, const struct word *word, uint64_t value);

#endif
