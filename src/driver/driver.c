#include "driver/driver.h"

bool driver_fill(struct driver *driver, void *(*find)(const char *symbol)) {
    bool complete = true;
#define FILL(field, symbol, parameters, required)                                                  \
    *(void **)&driver->field = find(symbol);                                                       \
    complete = complete && (driver->field || !(required));
    DRIVER_ENTRIES(FILL)
#undef FILL
    driver->own_mem_get_info = NULL;
    driver->others_pools = false;
    return complete;
}

void driver_compare(struct driver *driver, void *(*find_own)(const char *symbol)) {
#define IS_OTHERS(field, symbol) (*(void **)&driver->field != find_own(symbol))
    if (IS_OTHERS(mem_get_info, "cuMemGetInfo_v2"))
        *(void **)&driver->own_mem_get_info = find_own("cuMemGetInfo_v2");
    driver->others_pools = IS_OTHERS(mem_pool_create, "cuMemPoolCreate") ||
                           IS_OTHERS(mem_pool_destroy, "cuMemPoolDestroy") ||
                           IS_OTHERS(mem_pool_set_attribute, "cuMemPoolSetAttribute") ||
                           IS_OTHERS(mem_pool_get_attribute, "cuMemPoolGetAttribute") ||
                           IS_OTHERS(mem_pool_trim_to, "cuMemPoolTrimTo") ||
                           IS_OTHERS(mem_alloc_from_pool_async, "cuMemAllocFromPoolAsync") ||
                           IS_OTHERS(mem_free_async, "cuMemFreeAsync");
#undef IS_OTHERS
}
