#include "device_resource.h"

#include "context.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>

#if CUDA_VERSION >= 12040

enum { SM_COUNT = 108 }; /* the attribute table's */

/* "On Compute Architecture 6.X, 7.X: the minimum count is 2 SMs and must be a multiple of 2. 8.X: 4
 * and 2. 9.0+: 8 and 8" (cuda.h, green contexts). */
static unsigned int least_part(void) {
    if (settings()->cc >= 90)
        return 8;
    return settings()->cc >= 80 ? 4 : 2;
}

static unsigned int alignment(void) {
    return settings()->cc >= 90 ? 8 : 2;
}

unsigned int device_resource_all(void) {
    return SM_COUNT;
}

CUresult device_resource_check(const CUdevResource *resource, CUdevResourceType type) {
    if (resource == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return type == CU_DEV_RESOURCE_TYPE_SM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

/* A resource keeps its device where only the driver looks. */
void device_resource_fill(CUdevResource *resource, CUdevice device, unsigned int count) {
    memset(resource, 0, sizeof *resource);
    resource->type = CU_DEV_RESOURCE_TYPE_SM;
    resource->sm.smCount = count;
#if CUDA_VERSION >= 13000
    resource->sm.minSmPartitionSize = least_part();
    resource->sm.smCoscheduledAlignment = alignment();
#endif
    memcpy(resource->_internal_padding, &device, sizeof device);
}

CUdevice device_resource_owner(const CUdevResource *resource) {
    CUdevice device;

    memcpy(&device, resource->_internal_padding, sizeof device);
    return device;
}

SIM_EXPORT CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource,
                                           CUdevResourceType type) {
    CUresult result = device_resource_check(resource, type);

    ENTER(cuDeviceGetDevResource);
    if (result == CUDA_SUCCESS)
        result = device_check(device);
    if (result == CUDA_SUCCESS)
        device_resource_fill(resource, device, SM_COUNT);
    return result;
}

SIM_EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource *groups, unsigned int *count,
                                                const CUdevResource *input,
                                                CUdevResource *remaining, unsigned int flags,
                                                unsigned int minimum) {
    unsigned int size, fitting, made;

    ENTER(cuDevSmResourceSplitByCount);
    (void)flags;
    if (count == NULL || input == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (minimum > input->sm.smCount)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    size = minimum < least_part() ? least_part() : minimum;
    size = (size + alignment() - 1) / alignment() * alignment();
    fitting = size != 0 ? input->sm.smCount / size : 0; /* 0: it was too large to be rounded */
    made = groups == NULL || fitting < *count ? fitting : *count;
    for (unsigned int i = 0; groups != NULL && i < made; i++)
        device_resource_fill(&groups[i], device_resource_owner(input), size);
    if (remaining != NULL)
        device_resource_fill(remaining, device_resource_owner(input),
                             input->sm.smCount - made * size);
    *count = made;
    return CUDA_SUCCESS;
}

/* --- groups of different sizes: cuDevSmResourceSplit's documentation, of CUDA 13.5 --- */

enum { BACKFILL = 1, LOCALITY_DOMAIN = 2, SUPPLEMENTAL = 4, ALL_FLAGS = 7 };

/* The largest number of multiprocessors that are scheduled together. */
static unsigned int most_together(void) {
    return settings()->cc >= 90 ? 32 : 2;
}

static bool is_wish(const CU_DEV_SM_RESOURCE_GROUP_PARAMS *wish) {
    return (wish->flags & ~(unsigned int)ALL_FLAGS) == 0 && wish->coscheduledSmCount % 2 == 0 &&
           wish->coscheduledSmCount <= most_together() &&
           wish->preferredCoscheduledSmCount <= most_together() && wish->smCount % 2 == 0;
}

/* How many of what is left the group gets, 0 if it cannot be had. Where the number that are
 * scheduled together is not told, any even one does, as in the documentation's first example. */
static unsigned int granted(const CU_DEV_SM_RESOURCE_GROUP_PARAMS *wish, unsigned int left) {
    unsigned int together = wish->coscheduledSmCount != 0 ? wish->coscheduledSmCount : 2;
    unsigned int step = (wish->flags & BACKFILL) != 0 ? 2 : together;
    unsigned int count = wish->smCount != 0 ? wish->smCount : left / step * step;

    if ((wish->flags & (LOCALITY_DOMAIN | SUPPLEMENTAL)) != 0)
        return 0; /* the devices have no such domains */
    return count <= left && count % step == 0 && count >= together ? count : 0;
}

/* Nothing is written where a group cannot be had (assumed). */
SIM_EXPORT CUresult cuDevSmResourceSplit(CUdevResource *groups, unsigned int count,
                                         const CUdevResource *input, CUdevResource *remaining,
                                         unsigned int flags,
                                         CU_DEV_SM_RESOURCE_GROUP_PARAMS *wishes) {
    unsigned int left;

    ENTER(cuDevSmResourceSplit);
    if (input == NULL || wishes == NULL || count == 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    left = input->sm.smCount;
    for (unsigned int i = 0; i < count; i++) {
        unsigned int size = is_wish(&wishes[i]) ? granted(&wishes[i], left) : 0;
        bool may_be_none = groups == NULL && is_wish(&wishes[i]) && wishes[i].smCount == 0;

        if (size == 0 && !may_be_none)
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        left -= size;
    }
    if (remaining != NULL)
        memset(remaining, 0, sizeof *remaining); /* CU_DEV_RESOURCE_TYPE_INVALID */
    if (remaining != NULL && left != 0)
        device_resource_fill(remaining, device_resource_owner(input), left);
    left = input->sm.smCount;
    for (unsigned int i = 0; i < count; i++) {
        wishes[i].smCount = granted(&wishes[i], left);
        left -= wishes[i].smCount;
        if (groups != NULL)
            device_resource_fill(&groups[i], device_resource_owner(input), wishes[i].smCount);
    }
    return CUDA_SUCCESS;
}

#endif
