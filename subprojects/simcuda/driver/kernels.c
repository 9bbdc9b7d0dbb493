#include "kernels.h"

#include "bytes.h"
#include "check_kernel.h"
#include "conditional.h"
#include "cost.h"
#include "memory.h"
#include "values.h"

#include <math.h>
#include <string.h>

size_t kernel_parameter_offset(const struct builtin_kernel *kernel, unsigned int index) {
    size_t offset = 0;

    for (unsigned int i = 0;; i++) {
        size_t size = kernel->parameter_sizes[i];

        offset = (offset + size - 1) / size * size;
        if (i == index)
            return offset;
        offset += size;
    }
}

static void load(const struct op *op, unsigned int index, void *value, size_t size) {
    const struct kernel_call *call = &op->as.kernel;

    memcpy(value, call->parameters + kernel_parameter_offset(call->kernel, index), size);
}

uint64_t kernel_parameter_u64(const struct op *op, unsigned int index) {
    uint64_t value;

    load(op, index, &value, sizeof value);
    return value;
}

uint32_t kernel_parameter_u32(const struct op *op, unsigned int index) {
    uint32_t value;

    load(op, index, &value, sizeof value);
    return value;
}

static float parameter_f32(const struct op *op, unsigned int index) {
    float value;

    load(op, index, &value, sizeof value);
    return value;
}

/* The elements that parameters `pointer` and `count` name; NULL if that is no one allocation. */
static void *elements(const struct op *op, unsigned int pointer, uint64_t count) {
    return count > SIZE_MAX / 4 ? NULL : memory_reach(kernel_parameter_u64(op, pointer), count * 4);
}

/* fill_u32(u32 *to, u64 count, u32 value): to[i] = value */
static void fill_declare(struct op *op) {
    op_access(op, kernel_parameter_u64(op, 0), kernel_parameter_u64(op, 1) * 4, true);
}

DEVICE_CODE static CUresult fill_run(struct op *op) {
    uint64_t count = kernel_parameter_u64(op, 1);
    uint32_t value = kernel_parameter_u32(op, 2);
    uint32_t *to = elements(op, 0, count);

    if (to == NULL)
        return count == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < count; i++)
        to[i] = value;
    return CUDA_SUCCESS;
}

/* add_u32(u32 *to, const u32 *a, const u32 *b, u64 count): to[i] = a[i] + b[i] */
static void add_declare(struct op *op) {
    size_t size = kernel_parameter_u64(op, 3) * 4;

    op_access(op, kernel_parameter_u64(op, 1), size, false);
    op_access(op, kernel_parameter_u64(op, 2), size, false);
    op_access(op, kernel_parameter_u64(op, 0), size, true);
}

DEVICE_CODE static CUresult add_run(struct op *op) {
    uint64_t count = kernel_parameter_u64(op, 3);
    uint32_t *to = elements(op, 0, count);
    const uint32_t *a = elements(op, 1, count);
    const uint32_t *b = elements(op, 2, count);

    if (to == NULL || a == NULL || b == NULL)
        return count == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < count; i++)
        to[i] = a[i] + b[i];
    return CUDA_SUCCESS;
}

/* scale_f32(float *x, u64 count, float factor): x[i] *= factor */
static void scale_declare(struct op *op) {
    op_access(op, kernel_parameter_u64(op, 0), kernel_parameter_u64(op, 1) * 4, true);
}

DEVICE_CODE static CUresult scale_run(struct op *op) {
    uint64_t count = kernel_parameter_u64(op, 1);
    float factor = parameter_f32(op, 2);
    float *x = elements(op, 0, count);

    if (x == NULL)
        return count == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < count; i++)
        x[i] *= factor;
    return CUDA_SUCCESS;
}

/* saxpy_f32(float *y, const float *x, u64 count, float a): y[i] = a * x[i] + y[i], rounded once */
static void saxpy_declare(struct op *op) {
    op_access(op, kernel_parameter_u64(op, 1), kernel_parameter_u64(op, 2) * 4, false);
    op_access(op, kernel_parameter_u64(op, 0), kernel_parameter_u64(op, 2) * 4, true);
}

DEVICE_CODE static CUresult saxpy_run(struct op *op) {
    uint64_t count = kernel_parameter_u64(op, 2);
    float a = parameter_f32(op, 3);
    float *y = elements(op, 0, count);
    const float *x = elements(op, 1, count);

    if (x == NULL || y == NULL)
        return count == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < count; i++)
        y[i] = fmaf(a, x[i], y[i]);
    return CUDA_SUCCESS;
}

/* sum_u32(const u32 *from, u64 count, u64 *sum): *sum += the sum of from[i] */
static void sum_declare(struct op *op) {
    op_access(op, kernel_parameter_u64(op, 0), kernel_parameter_u64(op, 1) * 4, false);
    op_access(op, kernel_parameter_u64(op, 2), sizeof(uint64_t), true);
}

DEVICE_CODE static CUresult sum_run(struct op *op) {
    uint64_t count = kernel_parameter_u64(op, 1);
    const uint32_t *from = elements(op, 0, count);
    uint64_t *sum = (uint64_t *)(void *)memory_reach(kernel_parameter_u64(op, 2), sizeof *sum);

    if (from == NULL || sum == NULL)
        return count == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < count; i++)
        *sum += from[i];
    return CUDA_SUCCESS;
}

/* fill_behind_u32(const struct {u32 *to; u64 count;} *where, u32 value): to[i] = value */
struct behind {
    CUdeviceptr to;
    uint64_t count;
};

/* What it finds there when it runs is not known before: only the struct is declared. */
static void fill_behind_declare(struct op *op) {
    op_access(op, kernel_parameter_u64(op, 0), sizeof(struct behind), false);
}

DEVICE_CODE static CUresult fill_behind_run(struct op *op) {
    const struct behind *where =
        (const struct behind *)(void *)memory_reach(kernel_parameter_u64(op, 0), sizeof *where);
    uint32_t *to;

    if (where == NULL || where->count > SIZE_MAX / 4)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    to = (uint32_t *)(void *)memory_reach(where->to, where->count * 4);
    if (to == NULL)
        return where->count == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < where->count; i++)
        to[i] = kernel_parameter_u32(op, 1);
    return CUDA_SUCCESS;
}

static void nothing_declare(struct op *op) {
    (void)op;
}

/* spin_ns(u64 ns): keeps its stream busy for that long */
static CUresult spin_run(struct op *op) {
    cost_keep_busy(kernel_parameter_u64(op, 0));
    return CUDA_SUCCESS;
}

/* early_fill_u32(u32 *to, u64 count, u32 value, u64 ns): lets its dependents begin, is busy for
 * that long, then to[i] = value */
static CUresult early_fill_run(struct op *op) {
    cost_keep_busy(kernel_parameter_u64(op, 3));
    return fill_run(op);
}

/* wait_flag(const volatile u32 *flag): runs until *flag != 0, which the host sets, or other work */
static void wait_flag_declare(struct op *op) {
    op_access(op, kernel_parameter_u64(op, 0), sizeof(uint32_t), false);
}

static CUresult wait_flag_run(struct op *op) {
    return value_await(&(struct awaited){
        .word = {.address = kernel_parameter_u64(op, 0), .bytes = sizeof(uint32_t)},
        .condition = CU_STREAM_WAIT_VALUE_AND,
        .value = UINT32_MAX});
}

/* set_conditional(u64 handle, u32 value): what cudaGraphSetConditional does in device code */
static CUresult set_conditional_run(struct op *op) {
    return conditional_set(kernel_parameter_u64(op, 0), kernel_parameter_u32(op, 1))
               ? CUDA_SUCCESS
               : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* loop_conditional(u64 handle, u32 *count): --*count, and whether that leaves any is the value */
static void loop_conditional_declare(struct op *op) {
    op_access(op, kernel_parameter_u64(op, 1), sizeof(uint32_t), true);
}

static CUresult loop_conditional_run(struct op *op) {
    uint32_t *count = (uint32_t *)(void *)memory_reach(kernel_parameter_u64(op, 1), sizeof *count);

    if (count == NULL)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    return conditional_set(kernel_parameter_u64(op, 0), --*count != 0) ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* fault(): writes to an address that is not mapped, a sticky error */
static CUresult fault_run(struct op *op) {
    (void)op;
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult skip_run(struct op *op) {
    (void)op;
    return CUDA_SUCCESS;
}

const struct builtin_kernel kernel_skipped = {"skipped kernel", 0,        {0},
                                              nothing_declare,  skip_run, false};

static const struct builtin_kernel kernels[] = {
    {"fill_u32", 3, {8, 8, 4}, fill_declare, fill_run, false},
    {"early_fill_u32", 4, {8, 8, 4, 8}, fill_declare, early_fill_run, true},
    {"fill_behind_u32", 2, {8, 4}, fill_behind_declare, fill_behind_run, false},
    {"add_u32", 4, {8, 8, 8, 8}, add_declare, add_run, false},
    {"scale_f32", 3, {8, 8, 4}, scale_declare, scale_run, false},
    {"saxpy_f32", 4, {8, 8, 8, 4}, saxpy_declare, saxpy_run, false},
    {"sum_u32", 3, {8, 8, 8}, sum_declare, sum_run, false},
    {"spin_ns", 1, {8}, nothing_declare, spin_run, false},
    {"wait_flag", 1, {8}, wait_flag_declare, wait_flag_run, false},
    {"set_conditional", 2, {8, 4}, nothing_declare, set_conditional_run, false},
    {"loop_conditional", 2, {8, 8}, loop_conditional_declare, loop_conditional_run, false},
    {"fault", 0, {0}, nothing_declare, fault_run, false},
    {CHECK_KERNEL_NAME, 3, {8, 4, 8}, check_kernel_declare, check_kernel_run, false},
};

const struct builtin_kernel *kernel_find(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strlen(kernels[i].name) == length && memcmp(kernels[i].name, name, length) == 0)
            return &kernels[i];
    return NULL;
}
