/* To interpret kernels that fill megabytes, or a hundred thousand that wait, takes seconds where
 * samples and tests want to see calls. Known are the kernels of one text, by all of its characters,
 * so that none of a program's own is taken for one of them. tests/e2e/test_shortcuts.py of
 * poolcuda, whose samples have the text, runs each in both ways. */
#include "shortcuts.h"

#include "bytes.h"
#include "cost.h"
#include "memory.h"
#include "settings.h"

#include <math.h>
#include <string.h>

/* FNV-1a, of samples/kernels.h. */
static const uint64_t known_text = 0xfabc4305fac0930e;

static float parameter_f32(const struct op *op, unsigned int index) {
    uint32_t bits = kernel_parameter_u32(op, index);
    float value;

    memcpy(&value, &bits, sizeof value);
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

/* spin_ns(u64 ns): keeps its stream busy for that long */
static CUresult spin_run(struct op *op) {
    cost_keep_busy(kernel_parameter_u64(op, 0));
    return CUDA_SUCCESS;
}

static const struct builtin_kernel shortcuts[] = {
    {"fill_u32", 3, {8, 8, 4}, fill_declare, fill_run},
    {"add_u32", 4, {8, 8, 8, 8}, add_declare, add_run},
    {"scale_f32", 3, {8, 8, 4}, scale_declare, scale_run},
    {"saxpy_f32", 4, {8, 8, 8, 4}, saxpy_declare, saxpy_run},
    {"sum_u32", 3, {8, 8, 8}, sum_declare, sum_run},
    {"spin_ns", 1, {8}, kernel_declares_nothing, spin_run},
};

static uint64_t hash(const char *text) {
    uint64_t hash = 0xcbf29ce484222325;

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

const struct builtin_kernel *shortcut_find(const struct image *image, const char *name) {
    if (settings()->interprets_all || image->text_count != 1)
        return NULL;
    for (size_t i = 0; i < sizeof shortcuts / sizeof *shortcuts; i++)
        if (strcmp(shortcuts[i].name, name) == 0)
            return hash(image->texts[0]) == known_text ? &shortcuts[i] : NULL;
    return NULL;
}
