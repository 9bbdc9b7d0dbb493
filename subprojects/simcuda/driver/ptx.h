/* What PTX text declares: kernels, functions and variables. */
#ifndef SIMCUDA_PTX_H
#define SIMCUDA_PTX_H

#include <stdbool.h>
#include <stddef.h>

enum ptx_kind {
    PTX_KERNEL,
    PTX_FUNCTION, /* that device code calls */
    PTX_VARIABLE, /* .global or .const */
    PTX_SHARED,
    PTX_LOCAL,
    PTX_OPAQUE /* a texture, a sampler, a surface */
};

/* Who may name what is declared: PTX_STATIC is the text alone. */
enum ptx_linkage { PTX_STATIC, PTX_VISIBLE, PTX_WEAK, PTX_EXTERN };

/* One declaration. Of a kernel the name is set, and where its parameters and its body stand.
 * Invariant: body == NULL or body <= body_end. */
struct ptx_symbol {
    enum ptx_kind kind;
    enum ptx_linkage linkage;
    const char *name; /* in the text, `length` characters */
    size_t length;
    const char *parameters; /* in the text, behind the kernel's name */
    const char *directives; /* behind them: .maxntid and so on, as far as the body */
    const char *body;       /* a kernel's or a function's; NULL: it is only declared */
    const char *body_end;
    bool managed;
    bool constant;
    bool surface; /* of an opaque one: neither it nor a sampler is a texture */
    bool sampler;
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

/* All below: in text without comments. */

/* Whether each statement outside of bodies begins as one: with a directive. */
bool ptx_begins_statements(const char *text);

/* Finds the first declaration behind *text and moves *text behind it: what a kernel's body declares
 * comes after the kernel. */
enum ptx_found ptx_next(const char **text, struct ptx_symbol *symbol);

/* *text: a symbol's `parameters` at first, with a parameter that is all zero, then as this leaves
 * both. False: there is no other, or *text is NULL then and the text is not PTX. */
bool ptx_next_parameter(const char **text, struct ptx_parameter *parameter);

/* The numbers of the kernel's directive `word`, as .maxntid 32, 4. How many there are: 0 to 3. */
unsigned int ptx_directive(const struct ptx_symbol *kernel, const char *word,
                           unsigned int numbers[3]);
bool ptx_has_directive(const struct ptx_symbol *kernel, const char *word);

/* Whether the kernel's body names it. */
bool ptx_mentions(const struct ptx_symbol *kernel, const struct ptx_symbol *symbol);

/* The architecture of the text's .target, times 10; 0: it has none. */
unsigned int ptx_target(const char *text);

/* Writes a variable's initial numbers to `memory`, which is zero and has its size. False: there are
 * also others than numbers, which stay zero. */
bool ptx_initialize(const struct ptx_symbol *symbol, unsigned char *memory);

#endif
