/* embedding LIBPYTHON ARGUMENT...: CPython from a shared library, run with the arguments. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments) {
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    int (*run)(int count, char **arguments) = NULL;
    if (library)
        *(void **)&run = dlsym(library, "Py_BytesMain");
    if (!run) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return run(count - 1, arguments + 1);
}
