/* User objects: what the program wants to have destroyed once no graph, and no launch of one, uses
 * it any more. All below: lock held. */
#ifndef SIMCUDA_USER_OBJECT_H
#define SIMCUDA_USER_OBJECT_H

#include "cuda_symbols.h"

#include <stddef.h>

/* The references that a graph has, those of one object together. Owns the array. */
struct user_references {
    struct user_reference {
        struct CUuserObject_st *object;
        size_t count;
    } * items;
    size_t count;
};

void user_references_copy(struct user_references *to, const struct user_references *from);
void user_references_clear(struct user_references *references);

#endif
