/* Text that grows in a buffer; what does not fit is left out. */
#ifndef POOLCUDA_BASE_TEXT_H
#define POOLCUDA_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Invariant: length < size, and start[length] is 0. */
struct text {
    char *start;
    size_t size, length;
};

__attribute__((format(printf, 2, 3))) static inline void text_add(struct text *text,
                                                                  const char *pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    int added =
        vsnprintf(text->start + text->length, text->size - text->length, pattern, arguments);
    va_end(arguments);
    if (added > 0)
        text->length += (size_t)added < text->size - text->length ? (size_t)added
                                                                  : text->size - text->length - 1;
}

#endif
