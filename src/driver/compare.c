/* Where another tool stands between the pool and the driver. */
#include "driver/driver.h"

#include <stddef.h>
#include <string.h>

/* The functions of memory pools, and those that allocate and free in stream order. */
static const struct {
    size_t place;
    char symbol[24]; /* no pointer, which the loader would have to set in every program */
} of_pools[] = {
    {offsetof(struct driver, mem_pool_create), "cuMemPoolCreate"},
    {offsetof(struct driver, mem_pool_destroy), "cuMemPoolDestroy"},
    {offsetof(struct driver, mem_pool_set_attribute), "cuMemPoolSetAttribute"},
    {offsetof(struct driver, mem_pool_get_attribute), "cuMemPoolGetAttribute"},
    {offsetof(struct driver, mem_pool_trim_to), "cuMemPoolTrimTo"},
    {offsetof(struct driver, mem_alloc_from_pool_async), "cuMemAllocFromPoolAsync"},
    {offsetof(struct driver, mem_free_async), "cuMemFreeAsync"},
};

void driver_compare(struct driver *driver, void *(*find_own)(const char *symbol)) {
    void *entry = (void *)driver->mem_get_info, *own = find_own("cuMemGetInfo_v2");
    if (entry != own)
        *(void **)&driver->own_mem_get_info = own;
    for (size_t i = 0; i < sizeof of_pools / sizeof of_pools[0]; i++) {
        memcpy(&entry, (const char *)driver + of_pools[i].place, sizeof entry);
        driver->others_pools = driver->others_pools || entry != find_own(of_pools[i].symbol);
    }
}
