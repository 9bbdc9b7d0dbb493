/* What the simulated device does for a launch: all that PTX says (interpret.h), nothing at all, or,
 * for kernels that it knows by name, what is written here. */
#ifndef SIMCUDA_KERNELS_H
#define SIMCUDA_KERNELS_H

#include "op.h"

struct builtin_kernel {
    const char *name;
    unsigned int parameter_count;
    unsigned char parameter_sizes[4]; /* bytes: 4 or 8; aligned to themselves, in order */
    void (*declare)(struct op *op);   /* notes what op's parameters make it touch */
    CUresult (*run)(struct op *op);
};

const struct builtin_kernel *kernel_find(const char *name, size_t length); /* NULL: unknown */
/* Stands for one that does nothing, where kernels are skipped. */
extern const struct builtin_kernel kernel_skipped;

void kernel_declares_nothing(struct op *op);

size_t kernel_parameter_offset(const struct builtin_kernel *kernel, unsigned int index);

/* The parameters of a launched kernel. */
uint64_t kernel_parameter_u64(const struct op *op, unsigned int index);
uint32_t kernel_parameter_u32(const struct op *op, unsigned int index);

/* check_kernel.c */
void check_kernel_declare(struct op *op);
CUresult check_kernel_run(struct op *op);

#endif
