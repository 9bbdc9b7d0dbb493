/* Works with the library that the argument names, opened; without one, with what it is linked with.
 */
#include <dlfcn.h>
#include <stdio.h>

#ifdef LINKED
void stand_in_works(void);
#endif

int main(int argc, char **argv) {
    void (*works)(void) = NULL;
#ifdef LINKED
    works = stand_in_works;
    (void)argc;
    (void)argv;
#else
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library)
        *(void **)&works = dlsym(library, "stand_in_works");
#endif
    if (!works)
        return 1;
    works();
    return 0;
}
