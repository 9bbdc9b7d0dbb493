/* To be opened with RTLD_DEEPBIND: its calls of dlsym go to libc past every interposer. */
#include "driver_functions.h"

#include <dlfcn.h>

static void *handle;

static void *find(const char *symbol) {
    return dlsym(handle, symbol);
}

void run_plugin(void);
void run_plugin(void) {
    handle = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(handle);
    struct driver_functions functions = driver_functions_find(find);
    driver_functions_loop(&functions);
}
