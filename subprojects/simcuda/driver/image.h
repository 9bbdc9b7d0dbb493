/* What a program gives the driver to load: PTX text, a fatbin, or a cubin. */
#ifndef SIMCUDA_IMAGE_H
#define SIMCUDA_IMAGE_H

#include "cuda_symbols.h"

#include <stdbool.h>
#include <stddef.h>

struct simt_program;

struct image_parameter {
    size_t offset; /* bytes, in the kernel's parameters */
    size_t size;   /* bytes */
};

/* What a kernel's code says that it takes. 0: it does not say. */
struct image_needs {
    unsigned int threads;        /* the most in a block */
    unsigned int registers;      /* of a thread */
    unsigned int most_registers; /* where the compiler is to choose them */
    unsigned int shared;         /* bytes of a block, without those that a launch adds */
    unsigned int local;          /* bytes of a thread */
    unsigned int cluster[3];
    bool cluster_at_launch; /* a launch has to give its size */
};

struct image_kernel {
    char *name;
    struct image_needs needs;
    struct image_parameter *parameters;
    size_t parameter_count;
    struct image_kernel *next;
};

struct image_variable {
    char *name;
    size_t size; /* bytes */
    bool managed;
    bool constant;
    bool external; /* another image is to define it; alone, the image has it all the same */
    unsigned char *initial; /* `size` bytes; NULL: zero */
    struct image_variable *next;
};

/* A texture or a surface that kernels name. */
struct image_reference {
    char *name;
    bool surface;
    struct image_reference *next;
};

enum image_linkage { IMAGE_DEFINES, IMAGE_DEFINES_WEAKLY, IMAGE_NEEDS };

/* What images that are linked can name across them: a kernel, a function, a variable. */
struct image_symbol {
    char *name;
    enum image_linkage linkage;
    struct image_symbol *next;
};

/* Everything in it is its own. Invariant: references != 0, and nothing changes once it is read. */
struct image {
    unsigned int references;     /* lock held to change it, but for the first one */
    unsigned int binary_version; /* compute capability, times 10; 0: this device's */
    unsigned int ptx_version;
    struct image_kernel *kernels;
    struct image_variable *variables;
    struct image_reference *textures;
    struct image_symbol *symbols;
    char **texts; /* the PTX that its kernels run as; more than one of a linker's */
    unsigned int text_count;
    struct simt_program *program; /* a reference; NULL: there are no texts that can be run */
};

struct image *image_new(void); /* with a reference, and empty */

/* The caller gets a reference. `code` is read as far as it says itself that it goes. Lock not
 * needed. */
CUresult image_read(const void *code, struct image **image);
CUresult image_read_file(const char *path, struct image **image);

/* Reads `code`, which goes on for `limit` bytes at most and is text up to a 0, into an image that
 * is empty. */
CUresult image_read_bytes(struct image *image, const void *code, size_t limit);

/* All of a file, and a 0 behind it; the caller's. FILE_NOT_FOUND, OPERATING_SYSTEM. */
CUresult image_load_file(const char *path, unsigned char **bytes, size_t *size);

void image_drop(struct image *image);

const struct image_kernel *image_find_kernel(const struct image *image, const char *name);

/* --- for those who read one form --- */

/* The name has `length` characters. NULL: the image has one of that name, which stays as it is. */
struct image_kernel *image_add_kernel(struct image *image, const char *name, size_t length);
struct image_variable *image_add_variable(struct image *image, const char *name, size_t length);

void image_add_reference(struct image *image, const char *name, size_t length, bool surface);
void image_add_text(struct image *image, const char *text, size_t length);
void image_add_symbol(struct image *image, const char *name, size_t length,
                      enum image_linkage linkage);

/* Makes room: what lies between is of size 0 until it is set. */
struct image_parameter *image_parameter(struct image_kernel *kernel, size_t index);

CUresult image_read_ptx(struct image *image, const char *text); /* ends with a 0; image_ptx.c */

/* `limit` bytes can be read. */
CUresult cubin_read(struct image *image, const unsigned char *code, size_t limit);
CUresult fatbin_read(struct image *image, const unsigned char *code, size_t limit);

#endif
