/* Lines of Python: where in a program's Python code a call of CUDA comes from. */
#ifndef POOLCUDA_INTERPOSE_PYTHON_LINE_H
#define POOLCUDA_INTERPOSE_PYTHON_LINE_H

#include "base/modules.h"
#include "site_tag.h"

#include <stdint.h>

struct python_line {
    char text[SITE_TAG_SIZE]; /* function (file.py:12) */
    uintptr_t next_low,
        next_high; /* where the interpreter goes on: a word between these, both included */
};

/* NOT_KNOWN: the module is no interpreter whose structures are known. NONE: of this call it is not
 * known, perhaps of others. */
enum python_line_found { PYTHON_LINE_NOT_KNOWN, PYTHON_LINE_NONE, PYTHON_LINE_FOUND };

/* The line that this thread is executing, if `interpreter` is one of CPython whose structures are
 * known. Takes no lock of the interpreter's and calls none of its functions. What is read is this
 * thread's own, and what that refers to, so that nobody frees it meanwhile; it is read by
 * safe_read, so that what is not as expected faults nothing. LOCK_LOADER held. */
enum python_line_found python_line_find(const struct module *interpreter, struct python_line *line);

#endif
