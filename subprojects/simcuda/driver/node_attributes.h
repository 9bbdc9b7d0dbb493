/* Attributes of kernel nodes. All below: lock not needed. */
#ifndef SIMCUDA_NODE_ATTRIBUTES_H
#define SIMCUDA_NODE_ATTRIBUTES_H

#include "cuda_symbols.h"

struct kernel_attributes;

/* Whose memory is the caller's to free; NULL of NULL. */
struct kernel_attributes *node_attributes_copy(const struct kernel_attributes *from);

/* The attributes of a launch that nodes have, too; NULL: none. */
struct kernel_attributes *node_attributes_of(const CUlaunchAttribute *attributes,
                                             unsigned int count);

/* What it has or, where nothing was set, zeroes. `attributes` may be NULL. */
CUlaunchAttributeValue node_attribute(const struct kernel_attributes *attributes,
                                      CUlaunchAttributeID which);

/* Makes *attributes where it is NULL. */
void node_attributes_set(struct kernel_attributes **attributes, CUlaunchAttributeID which,
                         const CUlaunchAttributeValue *value);

#endif
