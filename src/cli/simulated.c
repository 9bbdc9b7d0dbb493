#include "cli/simulated.h"

#include "cli/installed.h"

bool simulated_driver(char *path, size_t size) {
    static const char *const places[] = {"../../subprojects/simcuda/driver/libcuda.so.1",
                                         POOLCUDA_SIM_FROM_BIN};
    return installed_find(places, sizeof places / sizeof places[0], path, size);
}
