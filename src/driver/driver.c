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
