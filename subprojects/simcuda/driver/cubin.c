/* A cubin is an ELF file: its symbols are kernels and variables, a section .nv.info.KERNEL tells of
 * the kernel's parameters. Its code is a real device's. Nothing is believed: each offset and size
 * is held against what the file's headers cover. */
#include "cubin.h"

#include "allocate.h"
#include "interpret.h"
#include "report.h"
#include "settings.h"

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Invariant: what the sections hold, and the names, lies within `size` bytes. */
struct cubin {
    const unsigned char *bytes;
    size_t size;
    Elf64_Shdr *sections; /* owned: in the file they may be unaligned */
    size_t section_count;
    const char *section_names;
    size_t section_names_size;
    unsigned int architecture; /* compute capability, times 10 */
    unsigned int ptx_version;
    bool marked; /* this driver's linker has written it */
};

static bool is_within(const struct cubin *cubin, uint64_t offset, uint64_t size) {
    return offset <= cubin->size && size <= cubin->size - offset;
}

/* Whether the section takes no bytes in the file. */
static bool is_empty(const Elf64_Shdr *section) {
    return section->sh_type == SHT_NOBITS || section->sh_type == SECTION_GLOBAL ||
           section->sh_type == SECTION_LOCAL || section->sh_type == SECTION_SHARED;
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
    cubin->architecture =
        (header.e_ident[EI_OSABI] == ABI_OF_CUDA_13 ? header.e_flags >> 8 : header.e_flags) & 0xff;
    cubin->ptx_version =
        header.e_ident[EI_OSABI] == ABI_OF_CUDA_12 ? header.e_flags >> 16 & 0xff : 0;
    cubin->marked = memcmp(header.e_ident + CUBIN_MARK_OFFSET, CUBIN_MARK, CUBIN_MARK_SIZE) == 0;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != MACHINE_CUDA ||
        header.e_shentsize != sizeof(Elf64_Shdr) || !measure(&header, limit, &cubin->size) ||
        header.e_shstrndx >= header.e_shnum)
        return false;
    cubin->sections = memcpy(allocate_zeroed(header.e_shnum * sizeof *cubin->sections),
                             code + header.e_shoff, header.e_shnum * sizeof *cubin->sections);
    for (size_t i = 0; i < cubin->section_count; i++)
        if (!is_empty(&cubin->sections[i]) &&
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

/* The three extents of a block. */
static bool take_threads(struct image_needs *needs, const unsigned char *content, size_t size) {
    uint64_t threads;

    if (size < 12)
        return false;
    threads = (uint64_t)read_u32(content) * (read_u32(content + 4) & 0xffff) *
              (read_u32(content + 8) & 0xffff);
    needs->threads = threads < 1 << 16 ? (unsigned int)threads : 1 << 16;
    return true;
}

static bool take_cluster(struct image_needs *needs, const unsigned char *content, size_t size) {
    if (size < 12)
        return false;
    for (size_t i = 0; i < 3; i++)
        needs->cluster[i] = read_u32(content + 4 * i);
    return true;
}

/* One item of .nv.info.KERNEL; content: of the sized ones. */
static bool take_item(struct image_kernel *kernel, const unsigned char *item, size_t size) {
    const unsigned char *content = item + 4;

    if (item[0] == FORMAT_NONE && item[1] == ATTRIBUTE_CLUSTER_AT_LAUNCH)
        kernel->needs.cluster_at_launch = true;
    if (item[0] != FORMAT_SIZED)
        return true;
    switch (item[1]) {
    case ATTRIBUTE_PARAMETER:
    case ATTRIBUTE_LONG_PARAMETER:
        return take_parameter(kernel, item[1], content, size);
    case ATTRIBUTE_MAX_THREADS:
    case ATTRIBUTE_REQUIRED_THREADS:
        return take_threads(&kernel->needs, content, size);
    case ATTRIBUTE_CLUSTER:
        return take_cluster(&kernel->needs, content, size);
    default:
        return true;
    }
}

/* The next item at *at, as many bytes as *size behind its head. False: there is none, and *at is
 * `end` unless the last one goes beyond it. */
static const unsigned char *next_item(const unsigned char **at, const unsigned char *end,
                                      size_t *size) {
    const unsigned char *item = *at;
    size_t left = (size_t)(end - item);

    if (left < 4)
        return NULL;
    *size = item[0] == FORMAT_SIZED ? read_u32(item) >> 16 : 0;
    if (*size > left - 4)
        return NULL;
    *at = item + 4 + *size;
    return item;
}

static bool take_items(struct image_kernel *kernel, const unsigned char *at,
                       const unsigned char *end) {
    const unsigned char *item;
    size_t size;

    while ((item = next_item(&at, end, &size)) != NULL)
        if (!take_item(kernel, item, size))
            return false;
    return end - at < 4;
}

/* .nv.info has what the linker wants to know of each function: it is named by the symbol's index.
 */
static void take_global_items(struct image_needs *needs, size_t index, const unsigned char *at,
                              const unsigned char *end) {
    const unsigned char *item;
    size_t size;

    while ((item = next_item(&at, end, &size)) != NULL) {
        if (item[0] != FORMAT_SIZED || size < 8 || read_u32(item + 4) != index)
            continue;
        if (item[1] == ATTRIBUTE_REGISTERS)
            needs->registers = read_u32(item + 8);
        if (item[1] == ATTRIBUTE_FRAME)
            needs->local = read_u32(item + 8);
    }
}

static bool is_section_of(const char *title, const char *prefix, const char *name) {
    return strncmp(title, prefix, strlen(prefix)) == 0 && strcmp(title + strlen(prefix), name) == 0;
}

static bool take_kernel(const struct cubin *cubin, struct image *image, size_t index,
                        const char *name) {
    struct image_kernel *kernel = image_add_kernel(image, name, strlen(name));

    for (size_t i = 0; kernel != NULL && i < cubin->section_count; i++) {
        const Elf64_Shdr *section = &cubin->sections[i];
        const char *title = section_name(cubin, section);

        if (is_section_of(title, ".nv.shared.", name))
            kernel->needs.shared = (unsigned int)section->sh_size;
        if (is_empty(section))
            continue;
        const unsigned char *at = cubin->bytes + section->sh_offset, *end = at + section->sh_size;
        if (strcmp(title, ".nv.info") == 0)
            take_global_items(&kernel->needs, index, at, end);
        if (is_section_of(title, ".nv.info.", name) && !take_items(kernel, at, end))
            return false;
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
    variable->constant = strcmp(section_name(cubin, section), ".nv.constant3") == 0;
    if (!is_empty(section))
        variable->initial =
            memcpy(allocate_zeroed(symbol->st_size),
                   cubin->bytes + section->sh_offset + symbol->st_value, symbol->st_size);
    return true;
}

static bool is_variables(const char *section) {
    return strcmp(section, ".nv.global") == 0 || strcmp(section, ".nv.global.init") == 0 ||
           strcmp(section, ".nv.constant3") == 0;
}

/* What other files can name, or must define. */
static void take_linkage(struct image *image, const Elf64_Sym *symbol, const char *name) {
    unsigned int binding = ELF64_ST_BIND(symbol->st_info);

    if (symbol->st_shndx == SHN_UNDEF && binding == STB_GLOBAL)
        image_add_symbol(image, name, strlen(name), IMAGE_NEEDS);
    else if (symbol->st_shndx != SHN_UNDEF && binding != STB_LOCAL)
        image_add_symbol(image, name, strlen(name),
                         binding == STB_WEAK ? IMAGE_DEFINES_WEAKLY : IMAGE_DEFINES);
}

/* False: the symbol contradicts the file. */
static bool take_symbol(const struct cubin *cubin, struct image *image, const Elf64_Sym *symbol,
                        size_t index, const char *name) {
    unsigned int type = ELF64_ST_TYPE(symbol->st_info);

    if (*name == 0)
        return true;
    if (type == TYPE_TEXTURE || type == TYPE_SURFACE) { /* in no section */
        image_add_reference(image, name, strlen(name), type == TYPE_SURFACE);
        return true;
    }
    take_linkage(image, symbol, name);
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= cubin->section_count)
        return true;
    if (type == STT_FUNC && symbol->st_other & OTHER_ENTRY)
        return take_kernel(cubin, image, index, name);
    if ((type == STT_OBJECT || type == TYPE_OBJECT) && symbol->st_size != 0 &&
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
            !take_symbol(cubin, image, &symbol, i, names + symbol.st_name))
            return false;
    }
    return true;
}

/* What the kernels run as: the linker of this driver has kept it. */
static void take_texts(const struct cubin *cubin, struct image *image) {
    for (size_t i = 0; i < cubin->section_count; i++) {
        const Elf64_Shdr *section = &cubin->sections[i];
        const char *at, *end;

        if (is_empty(section) || strcmp(section_name(cubin, section), CUBIN_TEXTS) != 0)
            continue;
        at = (const char *)cubin->bytes + section->sh_offset;
        for (end = at + section->sh_size; at < end;) {
            size_t length = strnlen(at, (size_t)(end - at));

            image_add_text(image, at, length);
            at += length + 1;
        }
    }
}

static CUresult read_all(const struct cubin *cubin, struct image *image) {
    if (cubin->marked &&
        (cubin->architecture / 10 != settings()->cc / 10 || cubin->architecture > settings()->cc))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!cubin->marked && !settings()->skips_kernels) { /* as on another architecture */
        report_unserved("a cubin: only SIMCUDA_KERNELS=skip loads it");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    image->binary_version = cubin->architecture;
    image->ptx_version = cubin->ptx_version;
    for (size_t i = 0; i < cubin->section_count; i++)
        if (cubin->sections[i].sh_type == SHT_SYMTAB &&
            !take_symbols(cubin, image, &cubin->sections[i]))
            return CUDA_ERROR_INVALID_IMAGE;
    if (cubin->marked)
        take_texts(cubin, image);
    return interpret_image(image);
}

CUresult cubin_read(struct image *image, const unsigned char *code, size_t limit) {
    struct cubin cubin = {.sections = NULL};
    CUresult result =
        open_cubin(code, limit, &cubin) ? read_all(&cubin, image) : CUDA_ERROR_INVALID_IMAGE;

    free(cubin.sections);
    return result;
}
