#include "op.h"

#include "allocate.h"

#include <stdlib.h>

struct op *op_create(const char *name, CUresult (*run)(struct op *op)) {
    struct op *op = allocate_zeroed(sizeof *op);

    op->references = 1;
    op->name = name;
    op->node_type = CU_GRAPH_NODE_TYPE_EMPTY;
    op->run = run;
    return op;
}

static CUresult run_nothing(struct op *op) {
    (void)op;
    return CUDA_SUCCESS;
}

struct op *op_marker(const char *name) {
    struct op *op = op_create(name, run_nothing);

    op->marker = true;
    return op;
}

void op_access(struct op *op, CUdeviceptr address, size_t size, bool write) {
    if (size == 0)
        return;
    if (op->access_count == op->access_room) {
        op->access_room = op->access_room == 0 ? 4 : op->access_room * 2;
        op->accesses = allocate_again(op->accesses, op->access_room * sizeof *op->accesses);
    }
    op->accesses[op->access_count++] =
        (struct access){.address = address, .size = size, .write = write};
}

struct op *op_keep(struct op *op) {
    op->references++;
    return op;
}

void op_drop(struct op *op) {
    if (--op->references != 0)
        return;
    if (op->dispose != NULL)
        op->dispose(op);
    for (size_t i = 0; i < op->child_count; i++)
        op_drop(op->children[i]);
    free(op->children);
    free(op->accesses);
    free(op);
}
