/* Devices and their properties. */
#include "context.h"
#include "lock.h"
#include "memory.h"
#include "settings.h"
#include "shared_memory.h"

#include <stdio.h>
#include <string.h>

static const struct {
    CUdevice_attribute attribute;
    int value;
} attributes[] = {
#define ATTRIBUTE(name, value) {CU_DEVICE_ATTRIBUTE_##name, value},
#include "device_attributes.def"
#undef ATTRIBUTE
};

CUresult device_check(CUdevice device) {
    return device >= 0 && device < (int)settings()->devices ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_DEVICE;
}

SIM_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    ENTER(cuDeviceGet);
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(ordinal) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetCount(int *count) {
    ENTER(cuDeviceGetCount);
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (int)settings()->devices;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    ENTER(cuDeviceGetName);
    if (name == NULL || size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)size, "Simulated GPU");
    return device_check(device);
}

static CUresult device_uuid(CUuuid *uuid, CUdevice device) {
    CUresult result = device_check(device);

    if (uuid == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) { /* each process has GPUs of its own, but with SIMCUDA_SHARED */
        sim_lock();
        uint64_t machine = shared_memory_identity();
        sim_unlock();
        char ordinal = (char)('0' + device);

        memcpy(uuid->bytes, "sim-gpu", sizeof uuid->bytes - sizeof machine - 1);
        memcpy(uuid->bytes + sizeof uuid->bytes - sizeof machine - 1, &ordinal, 1);
        memcpy(uuid->bytes + sizeof uuid->bytes - sizeof machine, &machine, sizeof machine);
    }
    return result;
}

SIM_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    ENTER(cuDeviceGetUuid);
    return device_uuid(uuid, device);
}

SIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    ENTER(cuDeviceGetUuid_v2);
    return device_uuid(uuid, device);
}

SIM_EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device) {
    CUresult result = device_check(device);

    ENTER(cuDeviceTotalMem);
    if (bytes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *bytes = memory_capacity(device) > 0xffffffffu ? 0xffffffffu
                                                       : (unsigned int)memory_capacity(device);
    return result;
}

SIM_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CUresult result = device_check(device);

    ENTER(cuDeviceTotalMem_v2);
    if (bytes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *bytes = memory_capacity(device);
    return result;
}

int device_attribute(CUdevice_attribute attribute, CUdevice device) {
    int value = 0;

    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute)
            value = attributes[i].value;
    if (attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)
        value = (int)settings()->pageable_access;
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        value = (int)(settings()->cc / 10);
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        value = (int)(settings()->cc % 10);
    if (attribute == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)
        value = settings()->cc >= 90;
    if (attribute == CU_DEVICE_ATTRIBUTE_INTEGRATED)
        value = (int)settings()->integrated;
    if (attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)
        value = settings()->pageable_access != 0 && settings()->host_page_tables != 0;
    if ((attribute == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED ||
         attribute == CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES) &&
        !settings()->memory_pools)
        value = 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)
        value = device + 1;
    return value;
}

SIM_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                                         CUdevice device) {
    ENTER(cuDeviceGetAttribute);
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    if (attribute < CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK ||
        attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = device_attribute(attribute, device);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    ENTER(cuDeviceComputeCapability);
    if (major == NULL || minor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *major = (int)(settings()->cc / 10);
    *minor = (int)(settings()->cc % 10);
    return device_check(device);
}

SIM_EXPORT CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device) {
    ENTER(cuDeviceGetPCIBusId);
    if (id == NULL || size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    return snprintf(id, (size_t)size, "0000:%02X:00.0", device + 1) < size
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
    unsigned int domain = 0, bus;

    ENTER(cuDeviceGetByPCIBusId);
    if (device == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(id, "%x:%x:00", &domain, &bus) != 2)
        return CUDA_ERROR_INVALID_VALUE;
    if (domain != 0 || device_check((int)bus - 1) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = (int)bus - 1;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    ENTER(cuDeviceCanAccessPeer);
    if (can == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS || device_check(peer) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute,
                                            CUdevice device, CUdevice peer) {
    ENTER(cuDeviceGetP2PAttribute);
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS || device_check(peer) != CUDA_SUCCESS ||
        device == peer)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    return CUDA_SUCCESS;
}
