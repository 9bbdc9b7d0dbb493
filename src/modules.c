#include "modules.h"

#include <link.h>
#include <string.h>
#include <unistd.h>

static void copy_path(char *to, size_t size, const char *from) {
    size_t length = strlen(from);
    if (length >= size)
        length = size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

/* The loader names the program "". */
static void name_module(struct module *module, const struct dl_phdr_info *info) {
    copy_path(module->path, sizeof module->path, info->dlpi_name ? info->dlpi_name : "");
    if (module->path[0])
        return;
    module->executable = true;
    ssize_t length = readlink("/proc/self/exe", module->path, sizeof module->path - 1);
    module->path[length > 0 ? length : 0] = '\0';
}

/* Fills *module, its path aside, if `address` (any, if 0) is in an executable segment of it. */
static bool describe_segments(const struct dl_phdr_info *info, uintptr_t address,
                              struct module *module) {
    *module = (struct module){.base = info->dlpi_addr};
    bool found = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t low = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_DYNAMIC)
            module->dynamic = (const void *)low;
        else if (header->p_type == PT_GNU_EH_FRAME)
            module->eh_frame_header = (const void *)low;
        else if (header->p_type == PT_LOAD && (header->p_flags & PF_X) && !found &&
                 (!address || (address >= low && address - low < header->p_memsz))) {
            module->text_low = low;
            module->text_high = low + header->p_memsz;
            found = true;
        }
    }
    return found;
}

struct search {
    uintptr_t address;
    struct module *module;
    bool found;
};

static int visit_search(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    if (!describe_segments(info, search->address, search->module))
        return 0;
    name_module(search->module, info);
    search->found = true;
    return 1;
}

bool modules_find(uintptr_t address, struct module *module) {
    if (!address)
        return false;
    struct search search = {.address = address, .module = module};
    dl_iterate_phdr(visit_search, &search);
    return search.found;
}

struct walk {
    bool (*visit)(const struct module *module, void *state);
    void *state;
};

static int visit_walk(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct walk *walk = data;
    struct module module;
    if (!describe_segments(info, 0, &module))
        return 0;
    name_module(&module, info);
    return !walk->visit(&module, walk->state);
}

void modules_each(bool (*visit)(const struct module *module, void *state), void *state) {
    struct walk walk = {visit, state};
    dl_iterate_phdr(visit_walk, &walk);
}

bool modules_describe(uintptr_t address, char *path, size_t size, uint64_t *offset) {
    struct module module;
    if (!modules_find(address, &module))
        return false;
    copy_path(path, size, module.path);
    *offset = address - module.base;
    return true;
}
