/* What dlsym means to a program must not change. Prints one line for each fact; natively and under
 * the pool the lines are the same. */
#include "program.h"

#include <dlfcn.h>
#include <string.h>

int next_defined(void); /* in libnext_first.so, which asks RTLD_NEXT for libnext_second.so's */

static void tell(const char *what, void *handle, const char *name) {
    dlerror();
    void *found = dlsym(handle, name);
    const char *error = dlerror();
    printf("%s: %s, error %s\n", what, found ? "found" : "null",
           error ? strrchr(error, ':') + 1 : "none");
}

int main(void) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(cuda);
    printf("RTLD_NEXT reaches the second library: %d\n", next_defined());
    tell("unknown name", cuda, "cuNoSuchFunction");
    tell("longer than a hooked name", cuda, "cuMemAlloc_v2_extra");
    tell("a prefix of ours", cuda, "cu");
    tell("an empty name", cuda, "");
    tell("known name", cuda, "cuMemAlloc_v2");
    tell("malloc through a handle", dlopen(NULL, RTLD_NOW), "malloc");
    tell("default", RTLD_DEFAULT, "printf");
    tell("next", RTLD_NEXT, "printf");
    tell("next, unknown", RTLD_NEXT, "no_such_function_anywhere");
    /* The ABI of 2000 has other pointer types: it is the driver's business. */
    int (*allocate)(unsigned int *, unsigned int);
    unsigned int pointer = 0;
    *(void **)&allocate = dlsym(cuda, "cuMemAlloc");
    REQUIRE(allocate);
    printf("cuMemAlloc of 2000 says %d\n", allocate(&pointer, 100));
    return 0;
}
