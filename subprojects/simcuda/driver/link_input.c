#include "link_input.h"

#include "allocate.h"

#include <ctype.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static const char LIBRARY[] = "!<arch>\n";
static const char FATBIN[] = "\x50\xed\x55\xba";
enum { MAGIC = 4, FATBIN_HEADER = 16 };

/* What an input is read to. Invariant: `list` is in the order of reading. */
struct reading {
    struct link_input *list;
    const char *name;
    bool on_demand;
};

static void drop(struct link_input *input) {
    image_drop(input->image);
    free(input->name);
    free(input);
}

void link_input_drop(struct link_input *inputs) {
    struct link_input *input, *next;

    LL_FOREACH_SAFE(inputs, input, next)
    drop(input);
}

static CUresult add(struct reading *reading, const unsigned char *code, size_t size) {
    struct link_input *input = allocate_zeroed(sizeof *input);
    size_t length = strlen(reading->name);
    CUresult result;

    input->image = image_new();
    input->name = memcpy(allocate_zeroed(length + 1), reading->name, length);
    input->on_demand = reading->on_demand;
    result = image_read_bytes(input->image, code, size);
    if (result == CUDA_SUCCESS)
        LL_APPEND(reading->list, input);
    else
        drop(input);
    return result;
}

/* Fatbins behind each other, each aligned to 8 bytes. */
static CUresult add_fatbins(struct reading *reading, const unsigned char *at,
                            const unsigned char *end) {
    CUresult result = CUDA_SUCCESS;

    while (result == CUDA_SUCCESS && (size_t)(end - at) >= FATBIN_HEADER) {
        size_t left = (size_t)(end - at);
        uint64_t size;

        memcpy(&size, at + 8, sizeof size);
        if (memcmp(at, FATBIN, MAGIC) != 0 || size > left - FATBIN_HEADER)
            return CUDA_ERROR_INVALID_IMAGE;
        result = add(reading, at, FATBIN_HEADER + size);
        size = (FATBIN_HEADER + size + 7) / 8 * 8;
        at += size < left ? size : left;
    }
    return result;
}

static bool holds_fatbins(const char *section) {
    return strcmp(section, ".nv_fatbin") == 0 || strcmp(section, "__nv_relfatbin") == 0;
}

/* Where [offset, offset + size) is. NULL: not all of it is in the object. */
static const unsigned char *within(const unsigned char *object, size_t all, uint64_t offset,
                                   uint64_t size) {
    return offset <= all && size <= all - offset ? object + offset : NULL;
}

static CUresult add_sections(struct reading *reading, const unsigned char *object, size_t size,
                             const Elf64_Ehdr *header) {
    const unsigned char *table =
        within(object, size, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr));
    const unsigned char *names, *content;
    Elf64_Shdr titles, section;
    CUresult result = CUDA_SUCCESS;

    if (table == NULL || header->e_shstrndx >= header->e_shnum)
        return CUDA_ERROR_INVALID_IMAGE;
    memcpy(&titles, table + header->e_shstrndx * sizeof titles, sizeof titles);
    names = within(object, size, titles.sh_offset, titles.sh_size);
    if (names == NULL || titles.sh_size == 0 || names[titles.sh_size - 1] != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    for (size_t i = 0; i < header->e_shnum && result == CUDA_SUCCESS; i++) {
        memcpy(&section, table + i * sizeof section, sizeof section);
        if (section.sh_type == SHT_NOBITS || section.sh_name >= titles.sh_size ||
            !holds_fatbins((const char *)names + section.sh_name))
            continue;
        content = within(object, size, section.sh_offset, section.sh_size);
        result = content != NULL ? add_fatbins(reading, content, content + section.sh_size)
                                 : CUDA_ERROR_INVALID_IMAGE;
    }
    return result;
}

/* An object of the host's, as nvcc writes it: without device code it has nothing to link. */
static CUresult add_object(struct reading *reading, const unsigned char *object, size_t size) {
    Elf64_Ehdr header;

    if (size < sizeof header || memcmp(object, ELFMAG, SELFMAG) != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    memcpy(&header, object, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr))
        return CUDA_ERROR_INVALID_IMAGE;
    return add_sections(reading, object, size, &header);
}

/* A member's head is text: a name, six fields, of which the last but one is the size. */
enum { MEMBER_HEAD = 60, SIZE_AT = 48, SIZE_LENGTH = 10 };

static size_t member_size(const unsigned char *head) {
    size_t size = 0;

    for (size_t i = 0; i < SIZE_LENGTH && isdigit(head[SIZE_AT + i]); i++)
        size = size * 10 + (size_t)(head[SIZE_AT + i] - '0');
    return size;
}

/* Members that are no objects, and those without code for the device, are passed over. */
static CUresult add_library(struct reading *reading, const unsigned char *library, size_t size) {
    const unsigned char *at = library + strlen(LIBRARY), *end = library + size;

    if (size < strlen(LIBRARY) || memcmp(library, LIBRARY, strlen(LIBRARY)) != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    reading->on_demand = true;
    while (end - at >= MEMBER_HEAD) {
        size_t content = member_size(at), left = (size_t)(end - at) - MEMBER_HEAD;

        if (content > left)
            return CUDA_ERROR_INVALID_IMAGE;
        if (content >= MAGIC && memcmp(at + MEMBER_HEAD, ELFMAG, SELFMAG) == 0)
            (void)add_object(reading, at + MEMBER_HEAD, content);
        content += content % 2;
        at += MEMBER_HEAD + (content < left ? content : left);
    }
    return CUDA_SUCCESS;
}

static CUresult read_input(struct reading *reading, CUjitInputType type, const unsigned char *data,
                           size_t size) {
    bool is_elf = size >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0;
    bool is_fatbin = size >= MAGIC && memcmp(data, FATBIN, MAGIC) == 0;

    switch ((int)type) {
    case CU_JIT_INPUT_PTX:
        if (is_elf || is_fatbin || strstr((const char *)data, ".version") == NULL)
            return CUDA_ERROR_INVALID_PTX;
        return add(reading, data, size);
    case CU_JIT_INPUT_CUBIN:
        return is_elf ? add(reading, data, size) : CUDA_ERROR_INVALID_IMAGE;
    case CU_JIT_INPUT_FATBINARY:
        return is_fatbin ? add(reading, data, size) : CUDA_ERROR_INVALID_IMAGE;
    case CU_JIT_INPUT_OBJECT:
        return add_object(reading, data, size);
    case CU_JIT_INPUT_LIBRARY:
        return add_library(reading, data, size);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult link_input_read(struct link_input **inputs, CUjitInputType type, const char *name,
                         const unsigned char *data, size_t size) {
    struct reading reading = {.name = name};
    CUresult result = read_input(&reading, type, data, size);

    if (result == CUDA_SUCCESS)
        LL_CONCAT(*inputs, reading.list);
    else
        link_input_drop(reading.list);
    return result;
}
