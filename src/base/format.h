/* Formatted text in a buffer, through the one formatting function of libc that we import. */
#ifndef POOLCUDA_BASE_FORMAT_H
#define POOLCUDA_BASE_FORMAT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* As snprintf: returns the length that the whole text has, which may exceed what was stored. */
__attribute__((format(printf, 3, 4))) static inline int format(char *text, size_t size,
                                                               const char *pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    int length = vsnprintf(text, size, pattern, arguments);
    va_end(arguments);
    return length;
}

#endif
