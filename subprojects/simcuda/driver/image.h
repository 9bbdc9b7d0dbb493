/* What a program gives the driver to load: PTX text, a fatbin, or a cubin. */
#ifndef SIMCUDA_IMAGE_H
#define SIMCUDA_IMAGE_H

#include "cuda_symbols.h"

#include <stdbool.h>
#include <stddef.h>

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
    unsigned char *initial; /* `size` bytes; NULL: zero */
    struct image_variable *next;
};

/* Everything in it is its own. Invariant: references != 0, and nothing changes once it is read. */
struct image {
    unsigned int references;     /* lock held to change it, but for the first one */
    unsigned int binary_version; /* compute capability, times 10; 0: this device's */
    unsigned int ptx_version;
    struct image_kernel *kernels;
    struct image_variable *variables;
};

/* The caller gets a reference. `code` is read as far as it says itself that it goes. Lock not
 * needed. */
CUresult image_read(const void *code, struct image **image);
CUresult image_read_file(const char *path, struct image **image);

void image_drop(struct image *image);

const struct image_kernel *image_find_kernel(const struct image *image, const char *name);

/* --- for those who read one form --- */

/* The name has `length` characters. NULL: the image has one of that name, which stays as it is. */
struct image_kernel *image_add_kernel(struct image *image, const char *name, size_t length);
struct image_variable *image_add_variable(struct image *image, const char *name, size_t length);

/* Makes room: what lies between is of size 0 until it is set. */
struct image_parameter *image_parameter(struct image_kernel *kernel, size_t index);

CUresult image_read_ptx(struct image *image, const char *text); /* ends with a 0; image_ptx.c */

/* `limit` bytes can be read. */
CUresult cubin_read(struct image *image, const unsigned char *code, size_t limit);
CUresult fatbin_read(struct image *image, const unsigned char *code, size_t limit);

#endif
