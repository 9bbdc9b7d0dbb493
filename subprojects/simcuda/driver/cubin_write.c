/* Writes an image as a cubin: what a linker leaves of it, without code. The sections are .shstrtab,
 * .strtab, .symtab, .nv.info, three of variables, one of texts, and three of each kernel. */
#include "allocate.h"
#include "cubin.h"
#include "kernel_attributes.h"

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    SECTION_NONE,
    TITLES,
    NAMES,
    SYMBOLS,
    INFO,
    INITIAL,
    ZERO,
    CONSTANT,
    TEXTS,
    FIRST_OF_KERNELS
};
enum { OF_KERNEL = 3 }; /* .text, .nv.info, .nv.shared */
enum { MOST_SECTIONS = SHN_LORESERVE - 1 };
enum { FLAGS_OF_CUDA_12 = 0x500 };

/* Bytes that grow. Invariant: size <= room. */
struct buffer {
    unsigned char *bytes;
    size_t size, room;
};

/* Invariant: the sections up to `count` are written, but for those of names, symbols and
 * variables, which grow apart until the end. */
struct writing {
    const struct image *image;
    struct buffer file, titles, names, symbols, info, initial, constant, texts;
    size_t zero; /* bytes of variables that begin as zero */
    Elf64_Shdr *sections;
    size_t symbol_count;
};

static size_t append(struct buffer *buffer, const void *bytes, size_t size) {
    size_t at = buffer->size;

    if (size == 0)
        return at;
    if (size > buffer->room - at) {
        buffer->room = (at + size) * 2;
        buffer->bytes = allocate_again(buffer->bytes, buffer->room);
    }
    if (bytes != NULL)
        memcpy(buffer->bytes + at, bytes, size);
    else
        memset(buffer->bytes + at, 0, size);
    buffer->size += size;
    return at;
}

static void align(struct buffer *buffer) {
    append(buffer, NULL, (8 - buffer->size % 8) % 8);
}

static uint32_t append_name(struct buffer *names, const char *prefix, const char *name) {
    uint32_t at = (uint32_t)append(names, prefix, strlen(prefix));

    append(names, name, strlen(name) + 1);
    return at;
}

static void add_item(struct buffer *info, unsigned int format, unsigned int attribute,
                     const uint32_t *content, uint32_t words) {
    uint32_t head = format | attribute << 8 | words * 4 << 16;

    append(info, &head, sizeof head);
    append(info, content, words * 4);
}

static void add_symbol(struct writing *writing, const char *name, unsigned int type,
                       unsigned int other, unsigned int section, uint64_t value, uint64_t size) {
    const Elf64_Sym symbol = {append_name(&writing->names, "", name),
                              (unsigned char)ELF64_ST_INFO(STB_GLOBAL, type),
                              (unsigned char)other,
                              (uint16_t)section,
                              value,
                              size};

    append(&writing->symbols, &symbol, sizeof symbol);
    writing->symbol_count++;
}

/* `content`: NULL if the section takes none in the file. */
static void add_section(struct writing *writing, size_t index, uint32_t title, uint32_t type,
                        const void *content, size_t size) {
    align(&writing->file);
    writing->sections[index] = (Elf64_Shdr){.sh_name = title,
                                            .sh_type = type,
                                            .sh_offset = writing->file.size,
                                            .sh_size = size,
                                            .sh_addralign = 8};
    if (content != NULL)
        append(&writing->file, content, size);
}

static void add_variable(struct writing *writing, const struct image_variable *variable) {
    unsigned int other = variable->managed ? OTHER_MANAGED : 0;
    struct buffer *content = variable->constant ? &writing->constant : &writing->initial;

    if (!variable->constant && variable->initial == NULL) {
        add_symbol(writing, variable->name, STT_OBJECT, other, ZERO, writing->zero, variable->size);
        writing->zero += (variable->size + 7) / 8 * 8;
        return;
    }
    align(content);
    add_symbol(writing, variable->name, STT_OBJECT, other, variable->constant ? CONSTANT : INITIAL,
               content->size, variable->size);
    append(content, variable->initial, variable->size);
}

/* What .nv.info.KERNEL says. */
static void describe(struct buffer *info, const struct image_kernel *kernel) {
    const struct image_needs *needs = &kernel->needs;

    for (size_t i = 0; i < kernel->parameter_count; i++)
        add_item(info, FORMAT_SIZED, ATTRIBUTE_LONG_PARAMETER,
                 (const uint32_t[]){0, (uint32_t)i, (uint32_t)kernel->parameters[i].offset,
                                    (uint32_t)kernel->parameters[i].size},
                 4);
    if (needs->threads != 0)
        add_item(info, FORMAT_SIZED, ATTRIBUTE_MAX_THREADS,
                 (const uint32_t[]){needs->threads, 1, 1}, 3);
    if (needs->cluster[0] != 0)
        add_item(info, FORMAT_SIZED, ATTRIBUTE_CLUSTER, needs->cluster, 3);
    if (needs->cluster_at_launch)
        add_item(info, FORMAT_NONE, ATTRIBUTE_CLUSTER_AT_LAUNCH, NULL, 0);
}

static void add_kernel(struct writing *writing, const struct image_kernel *kernel, size_t section) {
    uint32_t index = (uint32_t)writing->symbol_count;
    struct buffer info = {NULL, 0, 0};

    describe(&info, kernel);
    add_section(writing, section, append_name(&writing->titles, ".text.", kernel->name),
                SHT_PROGBITS, "", 0);
    add_section(writing, section + 1, append_name(&writing->titles, ".nv.info.", kernel->name),
                SECTION_INFO, info.bytes, info.size);
    add_section(writing, section + 2, append_name(&writing->titles, ".nv.shared.", kernel->name),
                SHT_NOBITS, NULL, kernel->needs.shared);
    free(info.bytes);
    add_symbol(writing, kernel->name, STT_FUNC, OTHER_ENTRY, (unsigned int)section, 0, 0);
    add_item(&writing->info, FORMAT_SIZED, ATTRIBUTE_REGISTERS,
             (const uint32_t[]){index, kernel_registers(kernel)}, 2);
    add_item(&writing->info, FORMAT_SIZED, ATTRIBUTE_FRAME,
             (const uint32_t[]){index, kernel->needs.local}, 2);
}

static void add_contents(struct writing *writing) {
    const struct image_reference *reference;
    const struct image_variable *variable;
    const struct image_kernel *kernel;
    size_t section = FIRST_OF_KERNELS;

    append(&writing->names, "", 1);
    append(&writing->symbols, NULL, sizeof(Elf64_Sym)); /* the first is none */
    writing->symbol_count = 1;
    LL_FOREACH(writing->image->variables, variable)
    add_variable(writing, variable);
    LL_FOREACH(writing->image->textures, reference)
    add_symbol(writing, reference->name, reference->surface ? TYPE_SURFACE : TYPE_TEXTURE, 0,
               SHN_UNDEF, 0, 0);
    for (unsigned int i = 0; i < writing->image->text_count; i++)
        append(&writing->texts, writing->image->texts[i], strlen(writing->image->texts[i]) + 1);
    LL_FOREACH(writing->image->kernels, kernel) {
        add_kernel(writing, kernel, section);
        section += OF_KERNEL;
    }
}

/* What grew apart. */
static void add_common_sections(struct writing *writing) {
    static const struct {
        const char *title;
        uint32_t type;
    } common[FIRST_OF_KERNELS] = {
        [TITLES] = {".shstrtab", SHT_STRTAB},          [NAMES] = {".strtab", SHT_STRTAB},
        [SYMBOLS] = {".symtab", SHT_SYMTAB},           [INFO] = {".nv.info", SECTION_INFO},
        [INITIAL] = {".nv.global.init", SHT_PROGBITS}, [ZERO] = {".nv.global", SHT_NOBITS},
        [CONSTANT] = {".nv.constant3", SHT_PROGBITS},  [TEXTS] = {CUBIN_TEXTS, SHT_PROGBITS}};
    const struct buffer *const contents[FIRST_OF_KERNELS] = {
        [TITLES] = &writing->titles, [NAMES] = &writing->names,     [SYMBOLS] = &writing->symbols,
        [INFO] = &writing->info,     [INITIAL] = &writing->initial, [CONSTANT] = &writing->constant,
        [TEXTS] = &writing->texts};
    uint32_t titles[FIRST_OF_KERNELS] = {0};

    for (int i = TITLES; i < FIRST_OF_KERNELS; i++)
        titles[i] = append_name(&writing->titles, "", common[i].title);
    for (int i = TITLES; i < FIRST_OF_KERNELS; i++)
        add_section(writing, (size_t)i, titles[i], common[i].type,
                    contents[i] != NULL ? contents[i]->bytes : NULL,
                    contents[i] != NULL ? contents[i]->size : writing->zero);
    writing->sections[SYMBOLS].sh_link = NAMES;
    writing->sections[SYMBOLS].sh_info = 1; /* the first that is not local */
    writing->sections[SYMBOLS].sh_entsize = sizeof(Elf64_Sym);
}

static void write_header(struct writing *writing, size_t section_count) {
    Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                                     EV_CURRENT, ABI_OF_CUDA_12, 7},
                         .e_type = ET_EXEC,
                         .e_machine = MACHINE_CUDA,
                         .e_version = EV_CURRENT,
                         .e_shoff = writing->file.size,
                         .e_flags = writing->image->binary_version | FLAGS_OF_CUDA_12 |
                                    writing->image->ptx_version << 16,
                         .e_ehsize = sizeof header,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = (uint16_t)section_count,
                         .e_shstrndx = TITLES};

    memcpy(header.e_ident + CUBIN_MARK_OFFSET, CUBIN_MARK, CUBIN_MARK_SIZE);
    memcpy(writing->file.bytes, &header, sizeof header);
}

unsigned char *cubin_write(const struct image *image, size_t *size) {
    struct writing writing = {.image = image};
    const struct image_kernel *kernel;
    size_t count = FIRST_OF_KERNELS;

    LL_FOREACH(image->kernels, kernel)
    count += OF_KERNEL;
    if (count > MOST_SECTIONS)
        return NULL;
    writing.sections = allocate_zeroed(count * sizeof *writing.sections);
    append(&writing.file, NULL, sizeof(Elf64_Ehdr));
    append(&writing.titles, "", 1);
    add_contents(&writing);
    add_common_sections(&writing);
    align(&writing.file);
    write_header(&writing, count);
    append(&writing.file, writing.sections, count * sizeof *writing.sections);
    free(writing.sections);
    free(writing.titles.bytes);
    free(writing.names.bytes);
    free(writing.symbols.bytes);
    free(writing.info.bytes);
    free(writing.initial.bytes);
    free(writing.constant.bytes);
    free(writing.texts.bytes);
    *size = writing.file.size;
    return writing.file.bytes;
}
