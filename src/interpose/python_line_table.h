/* The tables by which a code object of CPython knows its lines. */
#ifndef POOLCUDA_INTERPOSE_PYTHON_LINE_TABLE_H
#define POOLCUDA_INTERPOSE_PYTHON_LINE_TABLE_H

#include <stddef.h>

/* The line of the instruction that is `unit` units of two bytes behind the code's beginning, in a
 * version's table of so many bytes; `first` is the code's first line. 0 or less: it has none. */
int python_line_table_find(unsigned version, const unsigned char *table, size_t size, int first,
                           size_t unit);

#endif
