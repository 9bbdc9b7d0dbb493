/* Tools and libraries that matter to the pool, known by their files' names; for the preloaded
 * library, which finds them in its process, and for `poolcuda doctor`, which looks beforehand. */
#ifndef POOLCUDA_TOOLS_H
#define POOLCUDA_TOOLS_H

#include <stdbool.h>
#include <stddef.h>

enum {
#define TOOL(name, part, checks_memory) +1
    TOOLS = 0
#include "tools.def"
#undef TOOL
};

/* Which rows of tools.def have been seen. */
struct tools_found {
    bool found[TOOLS];
};

/* Adds the tools to which a file of this path (or a list of paths) belongs. */
void tools_look(const char *path, struct tools_found *found);

/* Adds those that LD_PRELOAD and CUDA_INJECTION64_PATH name in a NULL-terminated environment. */
void tools_look_environment(char *const *environment, struct tools_found *found);

/* The name of row i < TOOLS. */
const char *tools_name(size_t i);

/* The name of a memory checker among those found, NULL if there is none. */
const char *tools_memory_checker(const struct tools_found *found);

/* Whether this is a library through which network cards, disks or video engines use device memory
 * by themselves. */
bool tools_is_direct_library(const char *path);

#endif
