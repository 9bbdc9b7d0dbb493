/* The few string functions that this object uses, as its own hidden copies.
 *
 * Every imported symbol costs several hundred instructions at the start of every process that the
 * object is preloaded into: shells and compilers as much as CUDA programs. These are the simplest
 * of them; none is used on long data but once, at exit. The compiler may call memcpy, memset and
 * memcmp on its own account too. */
#include <stddef.h>
#include <string.h>

#ifndef __clang__ /* gcc would turn the loop of memcpy into a call of memcpy */
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    for (size_t i = 0; i < size; i++)
        ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

HIDDEN void *memset(void *to, int value, size_t size) {
    for (size_t i = 0; i < size; i++)
        ((char *)to)[i] = (char)value;
    return to;
}

HIDDEN int memcmp(const void *one, const void *other, size_t size) {
    const unsigned char *a = one, *b = other;
    for (size_t i = 0; i < size; i++)
        if (a[i] != b[i])
            return a[i] - b[i];
    return 0;
}

HIDDEN size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

HIDDEN int strncmp(const char *one, const char *other, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (one[i] != other[i] || !one[i])
            return (unsigned char)one[i] - (unsigned char)other[i];
    return 0;
}

HIDDEN int strcmp(const char *one, const char *other) {
    return strncmp(one, other, (size_t)-1);
}

HIDDEN char *strchr(const char *text, int letter) {
    for (;; text++) {
        if (*text == (char)letter)
            return (char *)text;
        if (!*text)
            return NULL;
    }
}

HIDDEN char *strrchr(const char *text, int letter) {
    const char *found = NULL;
    for (;; text++) {
        if (*text == (char)letter)
            found = text;
        if (!*text)
            return (char *)found;
    }
}

HIDDEN char *strstr(const char *text, const char *part) {
    size_t length = strlen(part);
    for (; strncmp(text, part, length) != 0; text++)
        if (!*text)
            return NULL;
    return (char *)text;
}
