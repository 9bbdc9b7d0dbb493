/* What PTX text declares at module scope: kernels and global variables. */
#ifndef SIMCUDA_PTX_H
#define SIMCUDA_PTX_H

#include <stdbool.h>
#include <stddef.h>

enum ptx_kind { PTX_KERNEL, PTX_VARIABLE, PTX_OPAQUE /* a texture, a sampler, a surface */ };

/* One declaration. Of a kernel the name is set, and where its parameters stand. */
struct ptx_symbol {
    enum ptx_kind kind;
    const char *name; /* in the text, `length` characters */
    size_t length;
    const char *parameters; /* in the text, behind the kernel's name */
    bool managed;
    size_t element;      /* bytes */
    size_t size;         /* bytes, all elements */
    const char *initial; /* in the text, behind the equals sign; NULL: zero */
};

/* One parameter of a kernel, in bytes. */
struct ptx_parameter {
    size_t offset;
    size_t size;
};

enum ptx_found { PTX_SYMBOL, PTX_END, PTX_INVALID };

/* Finds the first declaration behind *text and moves *text behind it. */
enum ptx_found ptx_next(const char **text, struct ptx_symbol *symbol);

/* *text: a symbol's `parameters` at first, with a parameter that is all zero, then as this leaves
 * both. False: there is no other, or *text is NULL then and the text is not PTX. */
bool ptx_next_parameter(const char **text, struct ptx_parameter *parameter);

/* Writes a variable's initial numbers to `memory`, which is zero and has its size. False: there are
 * also others than numbers, which stay zero. */
bool ptx_initialize(const struct ptx_symbol *symbol, unsigned char *memory);

#endif
