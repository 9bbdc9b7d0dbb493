/* Opens the driver and asks dlsym. With the argument "deepbind" it is opened with RTLD_DEEPBIND. */
#include "driver_functions.h"

#include <dlfcn.h>
#include <string.h>

static void *handle;

static void *find(const char *symbol) {
    return dlsym(handle, symbol);
}

int main(int argc, char **argv) {
    int deep = argc > 1 && strcmp(argv[1], "deepbind") == 0 ? RTLD_DEEPBIND : 0;
    handle = dlopen("libcuda.so.1", RTLD_NOW | deep);
    REQUIRE(handle);
    struct driver_functions functions = driver_functions_find(find);
    driver_functions_loop(&functions);
    return 0;
}
