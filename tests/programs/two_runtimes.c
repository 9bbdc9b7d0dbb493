/* A program bound to one runtime; the plugins named by its arguments are bound to others. Prints
 * which runtime served each. "global:" before a name opens it RTLD_GLOBAL. Each is closed again if
 * its name is followed by "-", so that the next may come to lie in the same place. */
#include "program.h"

#include <dlfcn.h>
#include <string.h>

size_t main_user(void);

int main(int argc, char **argv) {
    printf("program %zu\n", main_user());
    for (int i = 1; i < argc; i++) {
        char *name = argv[i];
        int global = strncmp(name, "global:", 7) == 0;
        if (global)
            name += 7;
        size_t length = strlen(name);
        int close_it = name[length - 1] == '-';
        if (close_it)
            name[length - 1] = '\0';
        void *plugin = dlopen(name, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
        if (!plugin)
            fprintf(stderr, "%s\n", dlerror());
        REQUIRE(plugin);
        size_t (*use)(void);
        *(void **)&use = dlsym(plugin, "plugin_user");
        REQUIRE(use);
        printf("%s %zu\n", strrchr(name, '/') + 1, use());
        printf("again %zu\n", use());
        if (close_it)
            dlclose(plugin);
    }
    printf("program %zu\n", main_user());
    return 0;
}
