/* PTX text as an image: its kernels with what they need, and its variables. */
#include "image.h"

#include "allocate.h"
#include "interpret.h"
#include "ptx.h"
#include "report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static bool take_parameters(struct image_kernel *kernel, const char *text) {
    struct ptx_parameter found = {0};

    for (size_t i = 0; ptx_next_parameter(&text, &found); i++) {
        struct image_parameter *parameter = image_parameter(kernel, i);

        if (parameter == NULL)
            return false;
        *parameter = (struct image_parameter){found.offset, found.size};
    }
    return text != NULL;
}

static unsigned int product(const unsigned int numbers[3], unsigned int count) {
    uint64_t all = count != 0;

    for (unsigned int i = 0; i < count; i++)
        all = all * numbers[i] < UINT32_MAX ? all * numbers[i] : UINT32_MAX;
    return (unsigned int)all;
}

static void take_directives(struct image_needs *needs, const struct ptx_symbol *symbol) {
    unsigned int numbers[3] = {0};
    unsigned int count = ptx_directive(symbol, "reqntid", numbers);

    if (count == 0)
        count = ptx_directive(symbol, "maxntid", numbers);
    needs->threads = product(numbers, count);
    if (ptx_directive(symbol, "maxnreg", numbers) != 0)
        needs->most_registers = numbers[0];
    count = ptx_directive(symbol, "reqnctapercluster", numbers);
    for (unsigned int i = 0; count != 0 && i < 3; i++)
        needs->cluster[i] = i < count ? numbers[i] : 1;
    needs->cluster_at_launch = ptx_has_directive(symbol, "explicitcluster");
}

/* A text that is being read. Invariant: kernel is that in whose body the text is now, if within is
 * a kernel's. */
struct reading {
    struct image *image;
    struct image_kernel *kernel;
    struct ptx_symbol within;  /* the last kernel or function */
    struct ptx_symbol *shared; /* what is declared outside of bodies; owned */
    size_t shared_count;
};

static bool has_readable_parameters(const char *text) {
    struct ptx_parameter found = {0};

    while (ptx_next_parameter(&text, &found))
        ;
    return text != NULL;
}

/* A kernel that is only declared is none, and does not stand in the way of its body. */
static bool take_kernel(struct reading *reading, const struct ptx_symbol *symbol) {
    if (symbol->body == NULL)
        return has_readable_parameters(symbol->parameters);
    reading->kernel = image_add_kernel(reading->image, symbol->name, symbol->length);
    if (reading->kernel == NULL)
        return true;
    take_directives(&reading->kernel->needs, symbol);
    return take_parameters(reading->kernel, symbol->parameters);
}

static void take_variable(struct image *image, const struct ptx_symbol *symbol) {
    struct image_variable *variable = image_add_variable(image, symbol->name, symbol->length);

    if (variable == NULL)
        return;
    variable->size = symbol->size;
    variable->managed = symbol->managed;
    variable->constant = symbol->constant;
    variable->external = symbol->linkage == PTX_EXTERN;
    if (symbol->initial == NULL)
        return;
    variable->initial = allocate_zeroed(symbol->size);
    if (!ptx_initialize(symbol, variable->initial))
        report_unserved("an initial value that is an address");
}

/* Shared and local memory that a body declares is its kernel's. */
static void take_memory(struct reading *reading, const struct ptx_symbol *symbol) {
    const struct ptx_symbol *within = &reading->within;

    if (within->body != NULL && symbol->name < within->body_end) {
        if (within->kind == PTX_KERNEL && reading->kernel != NULL)
            *(symbol->kind == PTX_SHARED ? &reading->kernel->needs.shared
                                         : &reading->kernel->needs.local) +=
                (unsigned int)symbol->size;
    } else if (symbol->kind == PTX_SHARED) {
        reading->shared =
            allocate_again(reading->shared, (reading->shared_count + 1) * sizeof *reading->shared);
        reading->shared[reading->shared_count++] = *symbol;
    }
}

/* What other texts can name, or must define. */
static void take_linkage(struct image *image, const struct ptx_symbol *symbol) {
    static const enum image_linkage linkages[] = {[PTX_VISIBLE] = IMAGE_DEFINES,
                                                  [PTX_WEAK] = IMAGE_DEFINES_WEAKLY,
                                                  [PTX_EXTERN] = IMAGE_NEEDS};
    bool is_code = symbol->kind == PTX_KERNEL || symbol->kind == PTX_FUNCTION;

    if (symbol->linkage == PTX_STATIC || symbol->kind == PTX_SHARED || symbol->kind == PTX_LOCAL)
        return;
    if (is_code && symbol->body == NULL && symbol->linkage != PTX_EXTERN)
        return; /* a prototype of what follows */
    image_add_symbol(image, symbol->name, symbol->length, linkages[symbol->linkage]);
}

static bool take(struct reading *reading, const struct ptx_symbol *symbol) {
    take_linkage(reading->image, symbol);
    switch (symbol->kind) {
    case PTX_KERNEL:
        reading->within = *symbol;
        return take_kernel(reading, symbol);
    case PTX_FUNCTION:
        reading->within = *symbol;
        return true;
    case PTX_VARIABLE:
        take_variable(reading->image, symbol);
        return true;
    case PTX_SHARED:
    case PTX_LOCAL:
        take_memory(reading, symbol);
        return true;
    case PTX_OPAQUE:
        if (!symbol->sampler)
            image_add_reference(reading->image, symbol->name, symbol->length, symbol->surface);
        return true;
    default:
        return true;
    }
}

/* Shared memory that is declared outside of bodies is each kernel's that names it. */
static void share(const struct reading *reading, const char *text) {
    struct ptx_symbol symbol;

    while (reading->shared_count != 0 && ptx_next(&text, &symbol) == PTX_SYMBOL) {
        struct image_kernel *kernel;

        if (symbol.kind != PTX_KERNEL)
            continue;
        LL_FOREACH(reading->image->kernels, kernel)
        if (strlen(kernel->name) == symbol.length &&
            memcmp(kernel->name, symbol.name, symbol.length) == 0)
            break;
        for (size_t i = 0; kernel != NULL && i < reading->shared_count; i++)
            if (ptx_mentions(&symbol, &reading->shared[i]))
                kernel->needs.shared += (unsigned int)reading->shared[i].size;
    }
}

/* The text with spaces in the place of its comments; the caller's. */
static char *without_comments(const char *text) {
    char *copy = memcpy(allocate_zeroed(strlen(text) + 1), text, strlen(text));
    bool in_string = false;

    for (char *at = copy; *at != '\0'; at++) {
        size_t length = 0;

        if (*at == '"' && (!in_string || at[-1] != '\\'))
            in_string = !in_string;
        if (in_string || *at != '/')
            continue;
        if (at[1] == '/') {
            length = strcspn(at, "\n");
        } else if (at[1] == '*') {
            const char *end = strstr(at + 2, "*/");

            length = end != NULL ? (size_t)(end + 2 - at) : strlen(at);
        }
        memset(at, ' ', length);
    }
    return copy;
}

static CUresult read_text(struct image *image, const char *text) {
    struct reading reading = {.image = image};
    enum ptx_found found = PTX_SYMBOL;
    struct ptx_symbol symbol;
    const char *at = text;

    if (!ptx_begins_statements(text))
        return CUDA_ERROR_INVALID_PTX;
    image->ptx_version = ptx_target(text);
    while (found == PTX_SYMBOL && (found = ptx_next(&at, &symbol)) == PTX_SYMBOL)
        if (!take(&reading, &symbol))
            found = PTX_INVALID;
    share(&reading, text);
    free(reading.shared);
    return found == PTX_INVALID ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
}

CUresult image_read_ptx(struct image *image, const char *text) {
    char *plain;
    CUresult result;

    if (strstr(text, ".version") == NULL)
        return CUDA_ERROR_INVALID_IMAGE;
    plain = without_comments(text);
    result = read_text(image, plain);
    free(plain);
    image_add_text(image, text, strlen(text));
    if (result == CUDA_SUCCESS)
        return interpret_image(image);
    interpret_image(image); /* for the line of what is wrong */
    return result;
}
