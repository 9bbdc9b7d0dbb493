/* Memory pools. Both interfaces number types, attributes and rights alike and lay descriptions out
 * alike [driver_types.h, cuda.h]. */
#include "forms.h"

#define SITE() ((uintptr_t)__builtin_return_address(0))

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "one layout");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "one layout");

FORWARD(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device),
        driver.cuDeviceGetDefaultMemPool(pool, device))
FORWARD(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device),
        driver.cuDeviceGetMemPool(pool, device))
FORWARD(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool),
        driver.cuDeviceSetMemPool(device, pool))
FORWARD(cudaMemPoolCreate, (cudaMemPool_t * pool, const struct cudaMemPoolProps *properties),
        driver.cuMemPoolCreate(pool, (const CUmemPoolProps *)properties))
FORWARD(cudaMemPoolDestroy, (cudaMemPool_t pool), driver.cuMemPoolDestroy(pool))
FORWARD(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t kept), driver.cuMemPoolTrimTo(pool, kept))
FORWARD(cudaMemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
        driver.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value))
FORWARD(cudaMemPoolGetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
        driver.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value))
FORWARD(cudaMemPoolSetAccess,
        (cudaMemPool_t pool, const struct cudaMemAccessDesc *rights, size_t count),
        driver.cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)rights, count))
FORWARD(cudaMemPoolGetAccess,
        (enum cudaMemAccessFlags * flags, cudaMemPool_t pool, struct cudaMemLocation *place),
        driver.cuMemPoolGetAccess((CUmemAccess_flags *)flags, pool, (CUmemLocation *)place))
FORWARD(cudaMemPoolExportToShareableHandle,
        (void *handle, cudaMemPool_t pool, enum cudaMemAllocationHandleType type,
         unsigned int flags),
        driver.cuMemPoolExportToShareableHandle(handle, pool, (CUmemAllocationHandleType)type,
                                                flags))
FORWARD(cudaMemPoolImportFromShareableHandle,
        (cudaMemPool_t * pool, void *handle, enum cudaMemAllocationHandleType type,
         unsigned int flags),
        driver.cuMemPoolImportFromShareableHandle(pool, handle, (CUmemAllocationHandleType)type,
                                                  flags))
FORWARD(cudaMemPoolExportPointer, (struct cudaMemPoolPtrExportData * data, void *pointer),
        driver.cuMemPoolExportPointer((CUmemPoolPtrExportData *)data, (CUdeviceptr)pointer))
FORWARD(cudaMemPoolImportPointer,
        (void **pointer, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data),
        driver.cuMemPoolImportPointer((CUdeviceptr *)pointer, pool, (CUmemPoolPtrExportData *)data))

/* The program has memory for the hazard detector from when the call returns on. */
static CUresult owned(void *const *pointer, size_t bytes, uintptr_t site, CUresult result) {
    if (result == CUDA_SUCCESS && driver_owner_begin)
        driver_owner_begin((CUdeviceptr)*pointer, bytes, site);
    return result;
}

FORWARD_FORMS(cudaMallocFromPoolAsync, _ptsz,
              (void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
              owned(pointer, bytes, SITE(),
                    driver.cuMemAllocFromPoolAsync[per_thread]((CUdeviceptr *)pointer, bytes, pool,
                                                               stream)))
