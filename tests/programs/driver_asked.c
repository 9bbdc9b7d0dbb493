/* Asks cuGetProcAddress. Arguments: "4" or "5" for the form, then "per-thread" or nothing. */
#include "driver_functions.h"

#include <dlfcn.h>
#include <string.h>

static CUresult (*get_4)(const char *, void **, int, cuuint64_t);
static CUresult (*get_5)(const char *, void **, int, cuuint64_t, void *);
static cuuint64_t flags;

static void *ask(const char *name, int version, cuuint64_t with) {
    void *function = NULL;
    CUresult result =
        get_5 ? get_5(name, &function, version, with, NULL) : get_4(name, &function, version, with);
    return result == CUDA_SUCCESS ? function : NULL;
}

static void *find(const char *symbol) {
    char base[64];
    size_t length = strlen(symbol);
    int second = length > 3 && strcmp(symbol + length - 3, "_v2") == 0;
    snprintf(base, sizeof base, "%.*s", (int)(length - (second ? 3 : 0)), symbol);
    return ask(base, 12000, flags);
}

static const char *module_of(void *address) {
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') + 1 : "?";
}

int main(int argc, char **argv) {
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(handle && argc > 1);
    flags = argc > 2 ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
    if (*argv[1] == '5')
        *(void **)&get_5 = dlsym(handle, "cuGetProcAddress_v2");
    else
        *(void **)&get_4 = dlsym(handle, "cuGetProcAddress");
    REQUIRE(get_4 || get_5);
    struct driver_functions functions = driver_functions_find(find);
    /* The lookup function finds itself; forms that are not ours stay the driver's. */
    fprintf(stderr, "lookup %s\n", module_of(ask("cuGetProcAddress", 12000, 0)));
    CUresult (*old)(unsigned int *, unsigned int);
    unsigned int pointer = 0;
    *(void **)&old = ask("cuMemAlloc", 2000, 0);
    fprintf(stderr, "alloc 2000 says %d\n", (int)old(&pointer, 100));
    fprintf(stderr, "alloc 3020 %s\n", module_of(ask("cuMemAlloc", 3020, flags)));
    void *legacy = ask("cuMemFreeAsync", 11020, 0);
    void *per_thread = ask("cuMemFreeAsync", 11020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    fprintf(stderr, "async %s %s\n", module_of(legacy),
            legacy != per_thread ? module_of(per_thread) : "the same");
    REQUIRE(ask("cuNoSuchFunction", 12000, 0) == NULL);
    if (get_5) { /* status and code are the driver's */
        void *function = (void *)1;
        int status = -1;
        CUresult found = get_5("cuMemAlloc", &function, 12000, 0, &status);
        REQUIRE(found == CUDA_SUCCESS && status == 0);
        CUresult missing = get_5("cuNoSuchFunction", &function, 12000, 0, &status);
        fprintf(stderr, "missing %d %d %d\n", (int)missing, status, function == NULL);
        get_5("", &function, 0, 0, NULL);
    }
    driver_functions_loop(&functions);
    return 0;
}
