#include "tools.h"

#include <string.h>

static const struct tool {
    char name[32], part[32]; /* no pointers, which would cost every program at its start */
    bool checks_memory;
} tools[] = {
#define TOOL(name, part, checks_memory) {name, part, checks_memory},
#include "tools.def"
#undef TOOL
};

static const char direct_libraries[][24] = {
    "libibverbs.so", "librdmacm.so", "libcufile.so",        "libnvcuvid.so",
    "libmlx5.so",    "libgdrapi.so", "libnvidia-encode.so", "libnvshmem",
};

void tools_look(const char *path, struct tools_found *found) {
    for (size_t i = 0; i < TOOLS; i++)
        if (strstr(path, tools[i].part))
            found->found[i] = true;
}

void tools_look_environment(char *const *environment, struct tools_found *found) {
    for (; environment && *environment; environment++)
        if (strncmp(*environment, "LD_PRELOAD=", 11) == 0 ||
            strncmp(*environment, "CUDA_INJECTION64_PATH=", 22) == 0)
            tools_look(*environment, found);
}

const char *tools_name(size_t i) {
    return tools[i].name;
}

const char *tools_memory_checker(const struct tools_found *found) {
    for (size_t i = 0; i < TOOLS; i++)
        if (found->found[i] && tools[i].checks_memory)
            return tools[i].name;
    return NULL;
}

bool tools_is_direct_library(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof direct_libraries / sizeof direct_libraries[0]; i++)
        if (strncmp(name, direct_libraries[i], strlen(direct_libraries[i])) == 0)
            return true;
    return false;
}
