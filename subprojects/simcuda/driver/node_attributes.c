#include "node_attributes.h"

#include "allocate.h"
#include "entry.h"
#include "graph.h"
#include "lock.h"

#include <stdlib.h>
#include <string.h>

/* By number, as older headers lack the younger names. */
enum {
    DEVICE_UPDATABLE = 13,
    /* window, cooperative, cluster dimension and policy, priority, both of memory domains,
     * preferred cluster, updatable, carve-out, NVLink */
    OF_NODES = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 |
               1 << DEVICE_UPDATABLE | 1 << 14 | 1 << 16,
    IDS = 17
};

/* Invariant: what was never set is zero. */
struct kernel_attributes {
    CUlaunchAttributeValue values[IDS];
};

static bool is_of_nodes(CUlaunchAttributeID which) {
    return (unsigned int)which < IDS && (OF_NODES >> which & 1) != 0;
}

struct kernel_attributes *node_attributes_copy(const struct kernel_attributes *from) {
    struct kernel_attributes *copy = NULL;

    if (from != NULL) {
        copy = allocate_zeroed(sizeof *copy);
        *copy = *from;
    }
    return copy;
}

void node_attributes_set(struct kernel_attributes **attributes, CUlaunchAttributeID which,
                         const CUlaunchAttributeValue *value) {
    if (*attributes == NULL)
        *attributes = allocate_zeroed(sizeof **attributes);
    (*attributes)->values[which] = *value;
}

struct kernel_attributes *node_attributes_of(const CUlaunchAttribute *attributes,
                                             unsigned int count) {
    struct kernel_attributes *made = NULL;

    for (unsigned int i = 0; i < count; i++)
        if (is_of_nodes(attributes[i].id))
            node_attributes_set(&made, attributes[i].id, &attributes[i].value);
    return made;
}

CUlaunchAttributeValue node_attribute(const struct kernel_attributes *attributes,
                                      CUlaunchAttributeID which) {
    return attributes != NULL ? attributes->values[which] : (CUlaunchAttributeValue){{0}};
}

/* --- entry points --- */

static bool is_kernel(CUgraphNode handle) {
    const struct CUgraphNode_st *node = graph_find_node(handle);

    return node != NULL && node->type == CU_GRAPH_NODE_TYPE_KERNEL;
}

SIM_EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID which,
                                                  CUkernelNodeAttrValue *value) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphKernelNodeGetAttribute);
    sim_lock();
    if (value != NULL && is_of_nodes(which) && is_kernel(node)) {
        *value = node_attribute(node->attributes, which);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID which,
                                                  const CUkernelNodeAttrValue *value) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphKernelNodeSetAttribute);
    if (which == (CUkernelNodeAttrID)DEVICE_UPDATABLE)
        return entry_not_simulated("nodes that kernels update");
    sim_lock();
    if (value != NULL && is_of_nodes(which) && is_kernel(node)) {
        node_attributes_set(&node->attributes, which, value);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphKernelNodeCopyAttributes);
    sim_lock();
    if (is_kernel(to) && is_kernel(from)) {
        if (to != from) {
            free(to->attributes);
            to->attributes = node_attributes_copy(from->attributes);
        }
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}
