/* What the kernel has told the program beside its arguments and its environment. */
#ifndef POOLCUDA_BASE_AUXILIARY_H
#define POOLCUDA_BASE_AUXILIARY_H

#include <elf.h>
#include <link.h>
#include <stddef.h>

/* The value of an entry (AT_SECURE, AT_EXECFN), found behind the environment, which must still lie
 * where the kernel has put it: to be called before main. 0: there is none. */
static inline unsigned long auxiliary_value(int argc, char *const *argv, unsigned long type) {
    char *const *at = argv + argc + 1;
    while (*at)
        at++;
    const ElfW(auxv_t) *entry = (const void *)(at + 1);
    for (; entry->a_type != AT_NULL; entry++)
        if (entry->a_type == type)
            return entry->a_un.a_val;
    return 0;
}

#endif
