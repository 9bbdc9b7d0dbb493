/* What reading and writing cubins share of their format, as nvcc 12.9 and 13.0 write it. */
#ifndef SIMCUDA_CUBIN_H
#define SIMCUDA_CUBIN_H

#include "image.h"

enum { MACHINE_CUDA = 190 };                           /* EM_CUDA [elf.h] */
enum { ABI_OF_CUDA_12 = 0x33, ABI_OF_CUDA_13 = 0x41 }; /* of e_ident[EI_OSABI] */

/* Of symbols. */
enum { TYPE_TEXTURE = 10, TYPE_SURFACE = 12, TYPE_OBJECT = 13 /* a variable not yet linked */ };
enum { OTHER_MANAGED = 0x04, OTHER_ENTRY = 0x10 }; /* of st_other */

/* Sections of relocatable files that take no bytes in the file. */
enum { SECTION_GLOBAL = 0x70000007, SECTION_LOCAL = 0x70000009, SECTION_SHARED = 0x7000000a };
/* A section of the texts that the kernels run as, each with a 0 behind it. */
#define CUBIN_TEXTS ".simcuda.ptx"
enum { SECTION_INFO = 0x70000000 };

/* Items of .nv.info and of .nv.info.KERNEL. */
enum { FORMAT_NONE = 1, FORMAT_SIZED = 4 };
enum {
    ATTRIBUTE_MAX_THREADS = 0x05,
    ATTRIBUTE_REQUIRED_THREADS = 0x10,
    ATTRIBUTE_FRAME = 0x11,
    ATTRIBUTE_PARAMETER = 0x17,
    ATTRIBUTE_REGISTERS = 0x2f,
    ATTRIBUTE_CLUSTER = 0x3d,
    ATTRIBUTE_CLUSTER_AT_LAUNCH = 0x3e,
    ATTRIBUTE_LONG_PARAMETER = 0x45
};

/* In e_ident, behind what ELF uses: this driver's linker has written the file, which has no code of
 * a real device. */
#define CUBIN_MARK "simcuda"
enum { CUBIN_MARK_OFFSET = 9, CUBIN_MARK_SIZE = 7 };

/* The image as a cubin that cubin_read takes; the caller's. NULL: it has too many kernels for one.
 */
unsigned char *cubin_write(const struct image *image, size_t *size);

#endif
