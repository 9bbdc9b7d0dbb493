/* What PTX text declares at module scope: kernels and global variables. */
#ifndef SIMCUDA_PTX_H
#define SIMCUDA_PTX_H

#include <stdbool.h>
#include <stddef.h>

/* One declaration. Only the name of a kernel is set. */
struct ptx_symbol {
    const char *name; /* in the text, `length` characters */
    size_t length;
    bool variable;
    bool managed;
    size_t element;      /* bytes */
    size_t size;         /* bytes, all elements */
    const char *initial; /* in the text, behind the equals sign; NULL: zero */
};

enum ptx_found { PTX_SYMBOL, PTX_END, PTX_INVALID };

/* Finds the first declaration behind *text and moves *text behind it. */
enum ptx_found ptx_next(const char **text, struct ptx_symbol *symbol);

/* Writes a variable's initial integers to `memory`, which is zero and has its size. */
void ptx_initialize(const struct ptx_symbol *symbol, unsigned char *memory);

#endif
