#include "image.h"

#include "allocate.h"
#include "simt.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { MOST_PARAMETERS = 4096 }; /* bytes, and so no more parameters */

static char *copy_name(const char *name, size_t length) {
    return memcpy(allocate_zeroed(length + 1), name, length);
}

static bool is_named(const char *known, const char *name, size_t length) {
    return strlen(known) == length && memcmp(known, name, length) == 0;
}

struct image *image_new(void) {
    struct image *image = allocate_zeroed(sizeof *image);

    image->references = 1;
    return image;
}

struct image_kernel *image_add_kernel(struct image *image, const char *name, size_t length) {
    struct image_kernel *kernel;

    LL_FOREACH(image->kernels, kernel)
    if (is_named(kernel->name, name, length))
        return NULL;
    kernel = allocate_zeroed(sizeof *kernel);
    kernel->name = copy_name(name, length);
    LL_PREPEND(image->kernels, kernel);
    return kernel;
}

struct image_variable *image_add_variable(struct image *image, const char *name, size_t length) {
    struct image_variable *variable;

    LL_FOREACH(image->variables, variable)
    if (is_named(variable->name, name, length))
        return NULL;
    variable = allocate_zeroed(sizeof *variable);
    variable->name = copy_name(name, length);
    LL_PREPEND(image->variables, variable);
    return variable;
}

void image_add_reference(struct image *image, const char *name, size_t length, bool surface) {
    struct image_reference *reference;

    LL_FOREACH(image->textures, reference)
    if (is_named(reference->name, name, length))
        return;
    reference = allocate_zeroed(sizeof *reference);
    reference->name = copy_name(name, length);
    reference->surface = surface;
    LL_PREPEND(image->textures, reference);
}

void image_add_symbol(struct image *image, const char *name, size_t length,
                      enum image_linkage linkage) {
    struct image_symbol *symbol = allocate_zeroed(sizeof *symbol);

    symbol->name = copy_name(name, length);
    symbol->linkage = linkage;
    LL_PREPEND(image->symbols, symbol);
}

void image_add_text(struct image *image, const char *text, size_t length) {
    image->texts =
        allocate_again((void *)image->texts, (image->text_count + 1) * sizeof *image->texts);
    image->texts[image->text_count++] = copy_name(text, length);
}

struct image_parameter *image_parameter(struct image_kernel *kernel, size_t index) {
    if (index >= MOST_PARAMETERS)
        return NULL;
    if (index >= kernel->parameter_count) {
        kernel->parameters =
            allocate_again(kernel->parameters, (index + 1) * sizeof *kernel->parameters);
        memset(kernel->parameters + kernel->parameter_count, 0,
               (index + 1 - kernel->parameter_count) * sizeof *kernel->parameters);
        kernel->parameter_count = index + 1;
    }
    return &kernel->parameters[index];
}

const struct image_kernel *image_find_kernel(const struct image *image, const char *name) {
    struct image_kernel *kernel;

    LL_FOREACH(image->kernels, kernel)
    if (strcmp(kernel->name, name) == 0)
        return kernel;
    return NULL;
}

void image_drop(struct image *image) {
    struct image_kernel *kernel, *next_kernel;
    struct image_variable *variable, *next_variable;
    struct image_reference *reference, *next_reference;
    struct image_symbol *symbol, *next_symbol;

    if (image == NULL || --image->references != 0)
        return;
    LL_FOREACH_SAFE(image->kernels, kernel, next_kernel) {
        free(kernel->name);
        free(kernel->parameters);
        free(kernel);
    }
    LL_FOREACH_SAFE(image->variables, variable, next_variable) {
        free(variable->name);
        free(variable->initial);
        free(variable);
    }
    LL_FOREACH_SAFE(image->textures, reference, next_reference) {
        free(reference->name);
        free(reference);
    }
    LL_FOREACH_SAFE(image->symbols, symbol, next_symbol) {
        free(symbol->name);
        free(symbol);
    }
    for (unsigned int i = 0; i < image->text_count; i++)
        free(image->texts[i]);
    free((void *)image->texts);
    simt_drop(image->program);
    free(image);
}

/* --- all of them --- */

/* What nvcc embeds in a program: it points to the fatbin. */
struct fatbin_wrapper {
    uint32_t magic;
    uint32_t version;
    const void *fatbin;
    const void *unused;
};

/* Byte by byte: text may be shorter than a magic number. */
static bool begins_with(const void *code, const char *magic) {
    return strncmp(code, magic, 4) == 0;
}

CUresult image_read_bytes(struct image *image, const void *code, size_t limit) {
    if (begins_with(code, "\177ELF"))
        return cubin_read(image, code, limit);
    if (begins_with(code, "\x50\xed\x55\xba"))
        return fatbin_read(image, code, limit);
    return image_read_ptx(image, code);
}

/* Gives the image away if it was read, and drops it otherwise. */
static CUresult finish(struct image *image, CUresult result, struct image **out) {
    if (result == CUDA_SUCCESS)
        *out = image;
    else
        image_drop(image);
    return result;
}

CUresult image_read(const void *code, struct image **out) {
    struct image *image;

    if (code == NULL || out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (begins_with(code, "\xb1\x43\x62\x46"))
        return image_read(((const struct fatbin_wrapper *)code)->fatbin, out);
    image = image_new();
    return finish(image, image_read_bytes(image, code, SIZE_MAX), out);
}

/* All of the file, and a 0 behind it. NULL: it cannot be read. */
static unsigned char *read_all(FILE *file, size_t *size) {
    unsigned char *bytes = NULL;
    size_t room = 0, got = 0;

    do {
        room = room == 0 ? 1 << 16 : room * 2;
        bytes = allocate_again(bytes, room);
        got += fread(bytes + got, 1, room - 1 - got, file);
    } while (got == room - 1);
    bytes[got] = 0;
    *size = got;
    if (ferror(file)) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

CUresult image_load_file(const char *path, unsigned char **bytes, size_t *size) {
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return CUDA_ERROR_FILE_NOT_FOUND;
    *bytes = read_all(file, size);
    fclose(file);
    return *bytes != NULL ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult image_read_file(const char *path, struct image **out) {
    struct image *image;
    unsigned char *code;
    size_t size;
    CUresult result = image_load_file(path, &code, &size);

    if (result != CUDA_SUCCESS)
        return result;
    image = image_new();
    result = image_read_bytes(image, code, size);
    free(code);
    return finish(image, result, out);
}
