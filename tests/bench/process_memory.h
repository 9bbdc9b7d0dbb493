/* What memory this process has of its own, by the kernel's account. */
#ifndef BENCH_PROCESS_MEMORY_H
#define BENCH_PROCESS_MEMORY_H

#include <stddef.h>

struct process_memory {
    size_t present;  /* bytes in RAM that are no file's: private ones, and those that are shared
                        (System V) */
    size_t reserved; /* bytes of address space that may become so: as above, present or not */
};

/* Reads /proc/self/smaps, which counts page by page; the totals in /proc/self/status may be
 * hundreds of KiB behind. Ends the program if that cannot be read. */
struct process_memory process_memory(void);

#endif
