/* Opens the plugin named by its argument with RTLD_DEEPBIND and runs it. */
#include "program.h"

#include <dlfcn.h>

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    REQUIRE(plugin);
    void (*run)(void);
    *(void **)&run = dlsym(plugin, "run_plugin");
    REQUIRE(run);
    run();
    return 0;
}
