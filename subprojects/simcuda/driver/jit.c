#include "jit.h"

#include "image.h"
#include "interpret.h"
#include "kernel_attributes.h"
#include "settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

/* Options that older headers lack. */
enum { OPTION_MAX_THREADS = 32, OPTION_OVERRIDE = 33 };
enum { BEST_OPTIMIZATION = 4 };
enum { TARGET_FEATURES = 0x30000 }; /* CU_COMPUTE_ACCELERATED_TARGET_BASE, ..._FAMILY_... */

static unsigned int number(void *value) {
    return (unsigned int)(uintptr_t)value;
}

/* Whether the option is about all that is linked, and not about one input. */
static bool is_of_whole(CUjit_option option) {
    return option == CU_JIT_WALL_TIME || option == CU_JIT_INFO_LOG_BUFFER ||
           option == CU_JIT_ERROR_LOG_BUFFER || option == CU_JIT_TARGET_FROM_CUCONTEXT ||
           option == CU_JIT_TARGET;
}

static bool is_refused(enum jit_use use, CUjit_option option) {
    if ((int)option < 0 || option >= CU_JIT_NUM_OPTIONS)
        return true;
    if (option == CU_JIT_FALLBACK_STRATEGY && use != JIT_LOAD)
        return true; /* a linker requires exact matches */
    return use == JIT_INPUT && is_of_whole(option);
}

/* False: the option cannot have the value. Those that change only code change nothing here. */
static bool take(struct jit *jit, CUjit_option option, void **value) {
    switch ((int)option) {
    case CU_JIT_MAX_REGISTERS:
        jit->registers = number(*value);
        return true;
    case CU_JIT_WALL_TIME:
        jit->wall_time = value;
        return true;
    case CU_JIT_INFO_LOG_BUFFER:
        jit->info.buffer = *value;
        return true;
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        jit->info.room = number(*value);
        jit->info.filled = value;
        return true;
    case CU_JIT_ERROR_LOG_BUFFER:
        jit->error.buffer = *value;
        return true;
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        jit->error.room = number(*value);
        jit->error.filled = value;
        return true;
    case CU_JIT_OPTIMIZATION_LEVEL:
        return number(*value) <= BEST_OPTIMIZATION;
    case CU_JIT_TARGET:
        jit->target = number(*value) & ~(unsigned int)TARGET_FEATURES;
        return jit->target >= CU_TARGET_COMPUTE_50 && jit->target < 1000;
    case CU_JIT_LOG_VERBOSE:
        jit->verbose = number(*value) != 0;
        return true;
    case CU_JIT_CACHE_MODE:
        return number(*value) <= CU_JIT_CACHE_OPTION_CA;
    case CU_JIT_FALLBACK_STRATEGY:
        return number(*value) <= CU_PREFER_BINARY;
    case OPTION_MAX_THREADS:
        jit->threads = number(*value);
        return true;
    case OPTION_OVERRIDE:
        jit->overrides = number(*value) != 0;
        return true;
    default:
        return true;
    }
}

static void open_log(struct jit_log *log) {
    if (log->buffer == NULL)
        log->room = 0;
    if (log->room != 0)
        log->buffer[0] = '\0';
}

CUresult jit_read(struct jit *jit, enum jit_use use, unsigned int count,
                  const CUjit_option *options, void **values) {
    bool targets = false, has_threads = false;

    memset(jit, 0, sizeof *jit);
    if (count != 0 && (options == NULL || values == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++) {
        targets = targets || options[i] == CU_JIT_TARGET;
        has_threads = has_threads || options[i] == CU_JIT_THREADS_PER_BLOCK;
        if (is_refused(use, options[i]) || !take(jit, options[i], &values[i]))
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (targets && has_threads)
        return CUDA_ERROR_INVALID_VALUE;
    open_log(&jit->info);
    open_log(&jit->error);
    return CUDA_SUCCESS;
}

void jit_inherit(struct jit *jit, const struct jit *by) {
    jit->registers = jit->registers != 0 ? jit->registers : by->registers;
    jit->threads = jit->threads != 0 ? jit->threads : by->threads;
    jit->overrides = jit->overrides || by->overrides;
}

void jit_bound(const struct jit *jit, struct image *image) {
    struct image_kernel *kernel;

    if (image->binary_version != 0)
        return;
    LL_FOREACH(image->kernels, kernel) {
        struct image_needs *needs = &kernel->needs;

        if (jit->registers != 0 && (jit->overrides || needs->most_registers == 0))
            needs->most_registers = jit->registers;
        if (jit->threads != 0 && (jit->overrides || needs->threads == 0))
            needs->threads = jit->threads;
    }
}

void jit_print(struct jit_log *log, const char *format, ...) {
    size_t left = log->room - log->used;
    va_list arguments;
    int wanted;

    if (log->room == 0)
        return;
    va_start(arguments, format);
    wanted = vsnprintf(log->buffer + log->used, left, format, arguments);
    va_end(arguments);
    if (wanted > 0)
        log->used += (size_t)wanted < left ? (size_t)wanted : left - 1;
}

void jit_print_failure(struct jit *jit, CUresult result, const char *name) {
    const struct simt_failure *failure = interpret_failure();

    if (result == CUDA_ERROR_INVALID_PTX && failure->line != 0)
        jit_print(&jit->error, "error   : '%s', line %u: %s\n", name, failure->line, failure->text);
    else if (result == CUDA_ERROR_INVALID_PTX)
        jit_print(&jit->error, "error   : '%s' is no PTX that can be read\n", name);
    else if (result == CUDA_ERROR_NO_BINARY_FOR_GPU)
        jit_print(&jit->error, "error   : '%s' has no code for sm_%u\n", name,
                  (unsigned int)settings()->cc);
    else if (result == CUDA_ERROR_FILE_NOT_FOUND)
        jit_print(&jit->error, "error   : '%s' cannot be opened\n", name);
    else
        jit_print(&jit->error, "error   : '%s' is no device code\n", name);
}

void jit_print_kernels(struct jit *jit, const struct image *image) {
    const struct image_kernel *kernel;

    LL_FOREACH(image->kernels, kernel)
    if (jit->verbose)
        jit_print(&jit->info,
                  "info    : Function properties for '%s': used %u registers, %u bytes smem, "
                  "%u bytes lmem\n",
                  kernel->name, kernel_registers(kernel), kernel->needs.shared,
                  kernel->needs.local);
}

uint64_t jit_begin(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A slot of the program's is a pointer's size, of which it may read less. */
static void tell(void **slot, const void *value, size_t size) {
    if (slot == NULL)
        return;
    *slot = NULL;
    memcpy(slot, value, size);
}

void jit_end(struct jit *jit, uint64_t begun) {
    float milliseconds;

    jit->spent_ns += jit_begin() - begun;
    milliseconds = (float)jit->spent_ns / 1e6f;
    tell(jit->wall_time, &milliseconds, sizeof milliseconds);
    tell(jit->info.filled, &jit->info.used, sizeof jit->info.used);
    tell(jit->error.filled, &jit->error.used, sizeof jit->error.used);
}

static CUresult finish_load(struct jit *jit, CUresult result, struct image *image, const char *name,
                            uint64_t begun) {
    if (result == CUDA_SUCCESS) {
        jit_bound(jit, image);
        jit_print_kernels(jit, image);
    } else {
        jit_print_failure(jit, result, name);
    }
    jit_end(jit, begun);
    return result;
}

CUresult jit_load(struct jit *jit, const void *code, struct image **image) {
    uint64_t begun = jit_begin();
    CUresult result = image_read(code, image);

    return finish_load(jit, result, result == CUDA_SUCCESS ? *image : NULL, "<image>", begun);
}

CUresult jit_load_file(struct jit *jit, const char *path, struct image **image) {
    uint64_t begun = jit_begin();
    CUresult result = image_read_file(path, image);

    return finish_load(jit, result, result == CUDA_SUCCESS ? *image : NULL, path, begun);
}
