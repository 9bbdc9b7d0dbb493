/* A cubin is an ELF file: its symbols are kernels and variables, a section .nv.info.KERNEL tells of
 * the kernel's parameters. Its code is a real device's. Nothing is believed: each offset and size
 * is held against what the file's headers cover. */
#include "image.h"

#include "allocate.h"
#include "report.h"
#include "settings.h"

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MACHINE_CUDA = 190 };                       /* EM_CUDA [elf.h] */
enum { OTHER_MANAGED = 0x04, OTHER_ENTRY = 0x10 }; /* of st_other; seen in what nvcc 13.0 writes */

/* Items of .nv.info: seen there, too. */
enum { FORMAT_SIZED = 4, ATTRIBUTE_PARAMETER = 0x17, ATTRIBUTE_LONG_PARAMETER = 0x45 };
static const char INFO[] = ".nv.info.";

/* Invariant: what the sections hold, and the names, lies within `size` bytes. */
struct cubin {
    const unsigned char *bytes;
    size_t size;
    Elf64_Shdr *sections; /* owned: in the file they may be unaligned */
    size_t section_count;
    const char *section_names;
    size_t section_names_size;
};

static bool is_within(const struct cubin *cubin, uint64_t offset, uint64_t size) {
    return offset <= cubin->size && size <= cubin->size - offset;
}

/* How far the headers say that the file goes: nvcc writes them last. */
static bool measure(const Elf64_Ehdr *header, size_t limit, size_t *size) {
    uint64_t sections = (uint64_t)header->e_shnum * sizeof(Elf64_Shdr),
             segments = (uint64_t)header->e_phnum * sizeof(Elf64_Phdr), end_of_sections,
             end_of_segments;

    if (__builtin_add_overflow(header->e_shoff, sections, &end_of_sections) ||
        __builtin_add_overflow(header->e_phoff, segments, &end_of_segments))
        return false;
    *size = end_of_sections > end_of_segments ? end_of_sections : end_of_segments;
    return *size >= sizeof *header && *size <= limit && *size <= 1ull << 32;
}

/* A section of names ends with a 0. */
static const char *names_of(const struct cubin *cubin, const Elf64_Shdr *section, size_t *size) {
    const char *names = (const char *)cubin->bytes + section->sh_offset;

    *size = section->sh_size;
    return section->sh_type == SHT_STRTAB && *size != 0 && names[*size - 1] == 0 ? names : NULL;
}

static bool open_cubin(const unsigned char *code, size_t limit, struct cubin *cubin) {
    Elf64_Ehdr header;

    if (limit < sizeof header)
        return false;
    memcpy(&header, code, sizeof header);
    *cubin = (struct cubin){.bytes = code, .section_count = header.e_shnum};
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != MACHINE_CUDA ||
        header.e_shentsize != sizeof(Elf64_Shdr) || !measure(&header, limit, &cubin->size) ||
        header.e_shstrndx >= header.e_shnum)
        return false;
    cubin->sections = memcpy(allocate_zeroed(header.e_shnum * sizeof *cubin->sections),
                             code + header.e_shoff, header.e_shnum * sizeof *cubin->sections);
    for (size_t i = 0; i < cubin->section_count; i++)
        if (cubin->sections[i].sh_type != SHT_NOBITS &&
            !is_within(cubin, cubin->sections[i].sh_offset, cubin->sections[i].sh_size))
            return false;
    cubin->section_names =
        names_of(cubin, &cubin->sections[header.e_shstrndx], &cubin->section_names_size);
    return cubin->section_names != NULL;
}

static const char *section_name(const struct cubin *cubin, const Elf64_Shdr *section) {
    return section->sh_name < cubin->section_names_size ? cubin->section_names + section->sh_name
                                                        : "";
}

/* Not aligned in the file. */
static uint32_t read_u32(const unsigned char *at) {
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

/* An item's content: what it is an index of, which parameter (16 bits), its offset (16 bits), its
 * size in the upper bits of the last word. The long form has whole words for the last two. */
static bool take_parameter(struct image_kernel *kernel, unsigned int attribute,
                           const unsigned char *content, size_t size) {
    bool is_long = attribute == ATTRIBUTE_LONG_PARAMETER;
    struct image_parameter *parameter;

    if (size < (is_long ? 16u : 12u))
        return false;
    parameter = image_parameter(kernel, read_u32(content + 4) & 0xffff);
    if (parameter == NULL)
        return false;
    parameter->offset = is_long ? read_u32(content + 8) : read_u32(content + 4) >> 16;
    parameter->size = is_long ? read_u32(content + 12) : read_u32(content + 8) >> 18;
    return true;
}

static bool take_parameters(struct image_kernel *kernel, const unsigned char *items, size_t size) {
    size_t at = 0;

    while (size - at >= 4) {
        size_t content = items[at] == FORMAT_SIZED ? read_u32(items + at) >> 16 : 0;
        unsigned int attribute = items[at + 1];

        if (content > size - at - 4)
            return false;
        if ((attribute == ATTRIBUTE_PARAMETER || attribute == ATTRIBUTE_LONG_PARAMETER) &&
            items[at] == FORMAT_SIZED &&
            !take_parameter(kernel, attribute, items + at + 4, content))
            return false;
        at += 4 + content;
    }
    return true;
}

static bool take_kernel(const struct cubin *cubin, struct image *image, const char *name) {
    struct image_kernel *kernel = image_add_kernel(image, name, strlen(name));

    for (size_t i = 0; kernel != NULL && i < cubin->section_count; i++) {
        const Elf64_Shdr *section = &cubin->sections[i];
        const char *title = section_name(cubin, section);

        if (section->sh_type != SHT_NOBITS && strncmp(title, INFO, strlen(INFO)) == 0 &&
            strcmp(title + strlen(INFO), name) == 0)
            return take_parameters(kernel, cubin->bytes + section->sh_offset, section->sh_size);
    }
    return true;
}

static bool take_variable(const struct cubin *cubin, struct image *image, const Elf64_Sym *symbol,
                          const char *name) {
    const Elf64_Shdr *section = &cubin->sections[symbol->st_shndx];
    struct image_variable *variable;

    if (symbol->st_value > section->sh_size ||
        symbol->st_size > section->sh_size - symbol->st_value)
        return false;
    variable = image_add_variable(image, name, strlen(name));
    if (variable == NULL)
        return true;
    variable->size = symbol->st_size;
    variable->managed = symbol->st_other & OTHER_MANAGED;
    if (section->sh_type != SHT_NOBITS)
        variable->initial =
            memcpy(allocate_zeroed(symbol->st_size),
                   cubin->bytes + section->sh_offset + symbol->st_value, symbol->st_size);
    return true;
}

static bool is_variables(const char *section) {
    return strcmp(section, ".nv.global") == 0 || strcmp(section, ".nv.global.init") == 0 ||
           strcmp(section, ".nv.constant3") == 0;
}

/* False: the symbol contradicts the file. */
static bool take_symbol(const struct cubin *cubin, struct image *image, const Elf64_Sym *symbol,
                        const char *name) {
    unsigned int type = ELF64_ST_TYPE(symbol->st_info);

    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= cubin->section_count || *name == 0)
        return true;
    if (type == STT_FUNC && symbol->st_other & OTHER_ENTRY)
        return take_kernel(cubin, image, name);
    if (type == STT_OBJECT && symbol->st_size != 0 &&
        is_variables(section_name(cubin, &cubin->sections[symbol->st_shndx])))
        return take_variable(cubin, image, symbol, name);
    return true;
}

static bool take_symbols(const struct cubin *cubin, struct image *image, const Elf64_Shdr *table) {
    const char *names = NULL;
    size_t names_size = 0;

    if (table->sh_link < cubin->section_count)
        names = names_of(cubin, &cubin->sections[table->sh_link], &names_size);
    if (names == NULL)
        return false;
    for (size_t i = 0; i < table->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym symbol;

        memcpy(&symbol, cubin->bytes + table->sh_offset + i * sizeof symbol, sizeof symbol);
        if (symbol.st_name >= names_size ||
            !take_symbol(cubin, image, &symbol, names + symbol.st_name))
            return false;
    }
    return true;
}

static CUresult read_all(const struct cubin *cubin, struct image *image) {
    if (!settings()->skips_kernels) { /* as on another architecture */
        report_unserved("a cubin: only SIMCUDA_KERNELS=skip loads it");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    for (size_t i = 0; i < cubin->section_count; i++)
        if (cubin->sections[i].sh_type == SHT_SYMTAB &&
            !take_symbols(cubin, image, &cubin->sections[i]))
            return CUDA_ERROR_INVALID_IMAGE;
    return CUDA_SUCCESS;
}

CUresult cubin_read(struct image *image, const unsigned char *code, size_t limit) {
    struct cubin cubin = {.sections = NULL};
    CUresult result =
        open_cubin(code, limit, &cubin) ? read_all(&cubin, image) : CUDA_ERROR_INVALID_IMAGE;

    free(cubin.sections);
    return result;
}
