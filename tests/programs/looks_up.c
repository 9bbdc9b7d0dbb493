/* Looks up names of CUDA's and others in each way and prints what it is told. Arguments: libraries
 * that it opens first, a path for its own use or g:PATH for everybody's. */
#include "program.h"

#include <dlfcn.h>
#include <string.h>

static void tell(const char *way, const char *name, const void *found) {
    const char *error = dlerror();
    printf("%s %s: %s, %s", way, name, found ? "there" : "NULL", error ? error : "no error");
    printf(", %s\n", dlerror() ? "an error again" : "none");
}

/* The lookups are not to be the last things that their functions do: RTLD_NEXT is this program's.
 */
static void look_up(void *handle, const char *name) {
    tell("handle", name, dlsym(handle, name));
    tell("RTLD_DEFAULT", name, dlsym(RTLD_DEFAULT, name));
    tell("RTLD_NEXT", name, dlsym(RTLD_NEXT, name));
}

int main(int argc, char **argv) {
    static const char *const names[] = {"cudaMalloc",     "cudaMallocPitch", "cuMemAlloc_v2",
                                        "cuLaunchKernel", "cuInit",          "cuGetProcAddress",
                                        "cuNothing",      "printf",          "curl_version"};
    /* An error of a function that the pool has nothing to do with, before all others. */
    tell("dlvsym", "printf", dlvsym(RTLD_DEFAULT, "printf", "NO_SUCH_VERSION"));
    for (int i = 1; i < argc; i++) {
        const char *path = strncmp(argv[i], "g:", 2) == 0 ? argv[i] + 2 : argv[i];
        REQUIRE(dlopen(path, RTLD_LAZY | (path == argv[i] ? 0 : RTLD_GLOBAL)));
    }
    void *handle = dlopen(NULL, RTLD_LAZY);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        look_up(handle, names[i]);
    /* An error stays until it is asked for, or until another function of the loader's is called. */
    REQUIRE(!dlsym(handle, "cuNothing"));
    const void *last = dlsym(handle, "cudaMalloc");
    tell("handle, after another error,", "cudaMalloc", last);
    REQUIRE(!dlsym(handle, "cuNothing"));
    last = dlsym(handle, "printf");
    tell("handle, after an error,", "printf", last);
    return 0;
}
