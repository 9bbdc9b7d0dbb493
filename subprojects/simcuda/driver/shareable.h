/* What a file descriptor that processes pass on stands for: a file in memory that ends with a page
 * which says what it is. */
#ifndef SIMCUDA_SHAREABLE_H
#define SIMCUDA_SHAREABLE_H

#include "entry.h"

#include <stddef.h>
#include <stdint.h>

enum shareable_kind { SHAREABLE_MEMORY = 1, SHAREABLE_POOL };

struct shareable {
    enum shareable_kind kind;
    CUdevice device;
    size_t size;     /* bytes before the last page: of SHAREABLE_MEMORY, its contents */
    int32_t process; /* who made it */
    int32_t file;    /* of a pool: what has its memory, in that process */
    uint64_t id;     /* of a pool, in that process */
};

int shareable_make(const struct shareable *what); /* -1: the system has no more files */

/* A descriptor of its own for the file that `descriptor` names, with what it says. -1: it is no
 * such thing. */
int shareable_open(int descriptor, enum shareable_kind kind, struct shareable *what);

/* Writes a descriptor for the program, which has to close it. OUT_OF_MEMORY: there are no more. */
CUresult shareable_give(int file, void *out);

#endif
