/* Lines of Python: where in a program's Python code a call of CUDA comes from. */
#ifndef POOLCUDA_INTERPOSE_PYTHON_LINE_H
#define POOLCUDA_INTERPOSE_PYTHON_LINE_H

#include "modules.h"
#include "site_tag.h"

#include <stdbool.h>
#include <stdint.h>

struct python_line {
    char text[SITE_TAG_SIZE]; /* function (file.py:12) */
    uintptr_t next_low,
        next_high; /* where the interpreter goes on: a word between these, both included */
};

/* The line that this thread is executing, if `interpreter` is one of CPython whose structures are
 * known. Takes no lock of the interpreter's, calls none of its functions, and reads its memory by
 * process_vm_readv, so that what is not as expected faults nothing; where that system call is
 * refused there are no lines. LOCK_LOADER held. */
bool python_line_find(const struct module *interpreter, struct python_line *line);

#endif
