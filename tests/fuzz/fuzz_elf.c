/* What the doctor reads of a file, on any file: an ELF program with the input's changes in it, and
 * the input itself, as a file, as a script and as a Python program. */
#include "cli/doctor/elf_file.h"
#include "cli/doctor/python_text.h"
#include "cli/doctor/script.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LOADS = 2, SYMBOLS = 4, SECTIONS = 4, DYNAMICS = 8 };

/* A small program as linkers make them: the doctor finds something in each of its parts. */
struct program {
    Elf64_Ehdr header;
    Elf64_Phdr segments[LOADS + 2];
    char interpreter[32];
    Elf64_Sym symbols[SYMBOLS];
    char names[128];
    Elf64_Dyn dynamic[DYNAMICS];
    char texts[128];
    Elf64_Sym inner[2];
    Elf64_Shdr sections[SECTIONS];
};

static void make_program(struct program *program) {
    static const char names[] = "\0libcudart.so.13\0cudaMalloc\0dlsym\0__asan_init\0libapp.so";
    static const char texts[] =
        "libcuda.so.1\0cuGetProcAddress_v2\0Cuda compilation tools, release 13.0, V13.0.88";
    *program = (struct program){
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                   .e_type = ET_DYN,
                   .e_machine = EM_X86_64,
                   .e_version = EV_CURRENT,
                   .e_phoff = offsetof(struct program, segments),
                   .e_shoff = offsetof(struct program, sections),
                   .e_ehsize = sizeof(Elf64_Ehdr),
                   .e_phentsize = sizeof(Elf64_Phdr),
                   .e_phnum = LOADS + 2,
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = SECTIONS},
        .segments = {{.p_type = PT_INTERP,
                      .p_offset = offsetof(struct program, interpreter),
                      .p_filesz = sizeof program->interpreter},
                     {.p_type = PT_LOAD, .p_filesz = offsetof(struct program, texts)},
                     {.p_type = PT_LOAD,
                      .p_offset = offsetof(struct program, texts),
                      .p_vaddr = 0x10000,
                      .p_filesz = sizeof program->texts},
                     {.p_type = PT_DYNAMIC,
                      .p_offset = offsetof(struct program, dynamic),
                      .p_filesz = sizeof program->dynamic}},
        .interpreter = "/lib64/ld-linux-x86-64.so.2",
        .symbols = {{.st_name = 0},
                    {.st_name = 17, .st_info = STB_GLOBAL << 4 | STT_FUNC},
                    {.st_name = 28, .st_info = STB_GLOBAL << 4 | STT_FUNC},
                    {.st_name = 34, .st_info = STB_GLOBAL << 4 | STT_FUNC, .st_shndx = 1}},
        .dynamic = {{DT_NEEDED, {1}},
                    {DT_SONAME, {46}},
                    {DT_STRTAB, {offsetof(struct program, names)}},
                    {DT_STRSZ, {sizeof program->names}},
                    {DT_SYMTAB, {offsetof(struct program, symbols)}},
                    {DT_FLAGS_1, {DF_1_PIE}}},
        .inner = {{.st_name = 0}, {.st_name = 17, .st_info = STT_FUNC, .st_shndx = 1}},
        .sections = {{.sh_type = SHT_NULL},
                     {.sh_type = SHT_STRTAB,
                      .sh_offset = offsetof(struct program, names),
                      .sh_size = sizeof program->names},
                     {.sh_type = SHT_SYMTAB,
                      .sh_offset = offsetof(struct program, inner),
                      .sh_size = sizeof program->inner,
                      .sh_entsize = sizeof(Elf64_Sym),
                      .sh_link = 1}},
    };
    memcpy(program->names, names, sizeof names);
    memcpy(program->texts, texts, sizeof texts);
}

static void check_file(const struct elf_file *file) {
    if ((file->kind == ELF_DAMAGED) != (file->damaged != NULL))
        abort();
    if (file->kind != ELF_GOOD)
        return;
    if (!file->interpreter || !file->soname || !file->needed ||
        (file->bits != 32 && file->bits != 64))
        abort();
    for (size_t i = 0; i < file->needed_count; i++)
        if (strlen(file->needed[i]) > sizeof(struct program) + 65536)
            abort();
    if (memchr(file->marks.toolkit, 0, sizeof file->marks.toolkit) == NULL)
        abort();
}

static void check_script(const char *path) {
    struct script script = script_read(path);
    if (!script.interpreter)
        abort();
    for (size_t i = 0; i < script.word_count; i++)
        if (!*script.words[i] || (i && strcmp(script.words[i - 1], script.words[i]) >= 0) ||
            !script_has(&script, script.words[i]))
            abort();
    script_free(&script);
}

static void check_python(const char *path) {
    struct python_text text = python_text_read_file(path);
    for (size_t i = 0; i < text.import_count; i++)
        if (!text.imports[i].name ||
            (!*text.imports[i].name && !text.imports[i].level && text.imports[i].perhaps))
            abort();
    for (size_t i = 0; i < text.library_count; i++)
        if (!text.libraries[i])
            abort();
    for (size_t i = 0; i < text.string_count; i++)
        if (!text.strings[i])
            abort();
    python_text_free(&text);
}

/* Reads these bytes as a file. whole: it is the program without changes, of which all is seen. */
static void look(const void *bytes, size_t size, bool whole, bool as_script) {
    char path[64];
    int memory = memfd_create("program", MFD_CLOEXEC);
    if (memory < 0 || write(memory, bytes, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    struct elf_file file = elf_file_read(path);
    check_file(&file);
    if (whole && (file.kind != ELF_GOOD || file.needed_count != 1 || !file.is_program ||
                  !file.marks.found[MARK_imports_malloc] || !file.marks.found[MARK_imports_dlsym] ||
                  !file.marks.found[MARK_runtime_inside] || !file.marks.found[MARK_asan_inside] ||
                  !file.marks.found[MARK_driver_text] || strcmp(file.soname, "libapp.so") != 0 ||
                  strcmp(file.marks.toolkit, "13.0") != 0))
        abort();
    elf_file_free(&file);
    if (as_script) {
        check_script(path);
        check_python(path);
    }
    close(memory);
}

/* The input is a list of changes: two bytes that choose a place, one that says how many follow. The
 * last byte may cut the file off. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool checked;
    struct program program;
    const uint8_t *at = data, *end = data + size;
    size_t length = sizeof program;
    make_program(&program);
    if (!checked)
        look(&program, sizeof program, true, false);
    checked = true;
    while (end - at > 3) {
        size_t where = (at[0] | (size_t)at[1] << 8) % sizeof program, count = at[2] % 16u;
        at += 3;
        for (; count && at < end && where < sizeof program; count--)
            ((uint8_t *)&program)[where++] = *at++;
    }
    if (size && data[size - 1] % 8 == 0)
        length = size * 97 % sizeof program;
    look(&program, length, false, false);
    look(data, size, false, true);
    return 0;
}
