/* Options of the just-in-time compiler and linker, as a program gives them: where its logs go, and
 * what bounds a kernel that is compiled. Lock not needed. */
#ifndef SIMCUDA_JIT_H
#define SIMCUDA_JIT_H

#include "cuda_symbols.h"

#include <stdbool.h>
#include <stdint.h>

struct image;

/* A buffer of the program's. Invariant: used < room, and a 0 stands behind what is used; or room is
 * 0, and what is logged is lost. */
struct jit_log {
    char *buffer;
    size_t room, used;
    void **filled; /* where the program reads how much; may be NULL */
};

struct jit {
    struct jit_log info, error;
    void **wall_time; /* where the program reads milliseconds; may be NULL */
    uint64_t spent_ns;
    bool verbose;
    unsigned int target;             /* compute capability, times 10; 0: the device's */
    unsigned int registers, threads; /* the most; 0: as the code says */
    bool overrides;                  /* even where the code says something else */
};

enum jit_use {
    JIT_LOAD,
    JIT_LINK,
    JIT_INPUT /* of a linker: options about the whole are refused */
};

/* INVALID_VALUE: an option that is none, has no place there, or a value that it cannot have. */
CUresult jit_read(struct jit *jit, enum jit_use use, unsigned int count,
                  const CUjit_option *options, void **values);

/* The bounds that `by` sets and `jit` does not. */
void jit_inherit(struct jit *jit, const struct jit *by);

/* Applies the bounds to an image that was compiled: of text. */
void jit_bound(const struct jit *jit, struct image *image);

/* Adds a line, as far as it fits. */
__attribute__((format(printf, 2, 3))) void jit_print(struct jit_log *log, const char *format, ...);

/* image_read and image_read_file with these options, which tell the program all that it reads. */
CUresult jit_load(struct jit *jit, const void *code, struct image **image);
CUresult jit_load_file(struct jit *jit, const char *path, struct image **image);

/* Says in the error log that `name` could not be read. */
void jit_print_failure(struct jit *jit, CUresult result, const char *name);

/* One line for each kernel, if the program wants to know so much. */
void jit_print_kernels(struct jit *jit, const struct image *image);

uint64_t jit_begin(void);

/* Adds the time since jit_begin, and tells the program all that it reads. */
void jit_end(struct jit *jit, uint64_t begun);

#endif
