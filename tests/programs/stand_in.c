/* A library that stands in for the driver, and works with it.
 *
 * LAZY: as stub libraries are, it loads the driver at the first call, and says without one that a
 * shared object is missing. Else it is a driver itself, under a name of its own.
 * VARIABLES: as wrangler libraries are, it has variables of the driver's names, which point to the
 * driver's functions once they are loaded. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { NO_SHARED_OBJECT = 303, LOOPS = 50, BLOCK = 1 << 20 };
typedef unsigned long long pointer_t;
void stand_in_works(void);

/* FUNCTION(name, parameters, arguments, what a driver of its own does) */
#define FUNCTIONS                                                                                  \
    FUNCTION(cuInit, (unsigned flags), (flags), (void)flags)                                       \
    FUNCTION(cuDevicePrimaryCtxRetain, (void **context, int device), (context, device),            \
             (*context = &own, (void)device))                                                      \
    FUNCTION(cuCtxSetCurrent, (void *context), (context), (void)context)                           \
    FUNCTION(cuMemAlloc_v2, (pointer_t * pointer, size_t bytes), (pointer, bytes),                 \
             *pointer = (pointer_t)(size_t)malloc(bytes))                                          \
    FUNCTION(cuMemFree_v2, (pointer_t pointer), (pointer), free((void *)(size_t)pointer))

#ifdef VARIABLES
#define FUNCTION(name, parameters, arguments, does)                                                \
    extern int(*name) parameters;                                                                  \
    int(*name) parameters;
FUNCTIONS
#undef FUNCTION
static int load(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
#define FUNCTION(name, parameters, arguments, does)                                                \
    if (driver)                                                                                    \
        *(void **)&name = dlsym(driver, #name);
    FUNCTIONS
#undef FUNCTION
    return cuInit != NULL;
}
#else
#define FUNCTION(name, parameters, arguments, does) int name parameters;
FUNCTIONS
#undef FUNCTION
#ifdef LAZY
static void *real(const char *name) {
    static void *driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_LAZY);
    return driver ? dlsym(driver, name) : NULL;
}
#define FUNCTION(name, parameters, arguments, does)                                                \
    int name parameters {                                                                          \
        int(*function) parameters;                                                                 \
        *(void **)&function = real(#name);                                                         \
        return function ? function arguments : NO_SHARED_OBJECT;                                   \
    }
#else
static int own;
#define FUNCTION(name, parameters, arguments, does)                                                \
    int name parameters {                                                                          \
        does;                                                                                      \
        return 0;                                                                                  \
    }
#endif
FUNCTIONS
#undef FUNCTION
static int load(void) {
    return 1;
}
#endif

void stand_in_works(void) {
    void *context = NULL;
    int allocated = 0, freed = 0;
    if (!load()) {
        printf("no driver\n");
        return;
    }
    int begun = cuInit(0);
    int retained = cuDevicePrimaryCtxRetain(&context, 0);
    int set = cuCtxSetCurrent(context);
    printf("%d %d %d\n", begun, retained, set);
    for (int i = 0; i < LOOPS; i++) {
        pointer_t pointer = 0;
        allocated += cuMemAlloc_v2(&pointer, BLOCK) == 0;
        freed += pointer && cuMemFree_v2(pointer) == 0;
    }
    printf("allocated %d, freed %d\n", allocated, freed);
}
