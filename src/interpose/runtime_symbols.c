#include "interpose/runtime_symbols.h"

#include "base/raw_files.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Not pointers: the loader would relocate each in every program that we are preloaded into. */
static const char names[][32] = {
    "cudaMalloc",
    "cudaMallocPitch",
    "cudaMalloc3D",
    "cudaMallocAsync",
    "cudaMallocAsync_ptsz",
    "cudaMallocFromPoolAsync",
    "cudaMallocFromPoolAsync_ptsz",
    "cudaMallocHost",
    "cudaHostAlloc",
    "cudaFree",
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaMemset",
};

struct file {
    const char *bytes;
    size_t size;
};

/* A table inside the file, NULL if it does not lie in it. */
static const void *part(const struct file *file, uint64_t offset, uint64_t size) {
    return offset <= file->size && size <= file->size - offset ? file->bytes + offset : NULL;
}

static bool is_entry(const char *name) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

struct visitor {
    void (*visit)(const char *name, uintptr_t low, uintptr_t high, void *state);
    void *state;
};

static void read_symbols(const struct file *file, const ElfW(Shdr) * sections, unsigned count,
                         const ElfW(Shdr) * table, uintptr_t base, const struct visitor *visitor) {
    if (table->sh_link >= count)
        return;
    const ElfW(Shdr) *names_section = &sections[table->sh_link];
    const ElfW(Sym) *symbols = part(file, table->sh_offset, table->sh_size);
    const char *strings = part(file, names_section->sh_offset, names_section->sh_size);
    if (!symbols || !strings || !names_section->sh_size || strings[names_section->sh_size - 1])
        return;
    for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
        const ElfW(Sym) *symbol = &symbols[i];
        if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_size &&
            symbol->st_shndx != SHN_UNDEF && symbol->st_name < names_section->sh_size)
            visitor->visit(strings + symbol->st_name, base + symbol->st_value,
                           base + symbol->st_value + symbol->st_size, visitor->state);
    }
}

/* The file may have been replaced since it was loaded: its header must be the loaded one. */
static bool is_loaded_file(const struct module *module, const ElfW(Ehdr) * header) {
    const ElfW(Phdr) *segments = (const void *)((const char *)header + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset == 0)
            return module->base + segments[i].p_vaddr == module->low &&
                   memcmp((const void *)module->low, header, sizeof *header) == 0;
    return false;
}

static void read_file(const struct module *module, const struct file *file,
                      const struct visitor *visitor) {
    const ElfW(Ehdr) *header = part(file, 0, sizeof *header);
    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_shentsize != sizeof(ElfW(Shdr)) || header->e_phentsize != sizeof(ElfW(Phdr)))
        return;
    const ElfW(Shdr) *sections =
        part(file, header->e_shoff, (uint64_t)header->e_shnum * sizeof(ElfW(Shdr)));
    if (!sections || !part(file, header->e_phoff, (uint64_t)header->e_phnum * sizeof(ElfW(Phdr))) ||
        !is_loaded_file(module, header))
        return;
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB)
            read_symbols(file, sections, header->e_shnum, &sections[i], module->base, visitor);
}

void runtime_symbols_each(const struct module *module,
                          void (*visit)(const char *name, uintptr_t low, uintptr_t high,
                                        void *state),
                          void *state) {
    int descriptor = raw_openat(AT_FDCWD, module->path, O_RDONLY | O_CLOEXEC, 0);
    if (descriptor < 0)
        return;
    off_t size = lseek(descriptor, 0, SEEK_END);
    void *bytes =
        size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
    close(descriptor);
    if (bytes == MAP_FAILED)
        return;
    struct file file = {bytes, (size_t)size};
    read_file(module, &file, &(struct visitor){visit, state});
    munmap(bytes, (size_t)size);
}

static void add_entry(const char *name, uintptr_t low, uintptr_t high, void *state) {
    struct runtime_entries *entries = state;
    if (entries->count == RUNTIME_ENTRIES_MAX || !is_entry(name))
        return;
    entries->range[entries->count].low = low;
    entries->range[entries->count].high = high;
    entries->count++;
}

void runtime_symbols_read(const struct module *module, struct runtime_entries *entries) {
    entries->count = 0;
    runtime_symbols_each(module, add_entry, entries);
}

bool runtime_symbols_contain(const struct runtime_entries *entries, uintptr_t address) {
    /* A return address may lie just behind a function that ends in a call. */
    for (int i = 0; i < entries->count; i++)
        if (address > entries->range[i].low && address <= entries->range[i].high)
            return true;
    return false;
}
