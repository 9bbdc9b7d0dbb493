#include "cli/symbol_file.h"

#ifdef HAVE_BACKTRACE

#include "backtrace.h" /* a copy of the compiler's: clang has none of its own */

#include <dlfcn.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct backtrace_state *opened;
static char opened_path[PATH_MAX];

/* libbacktrace names the running process's code: it asks the loader where the file that it was
 * given is loaded. The linker leads its question here (--wrap), and the answer is "at 0", once and
 * with the empty name that the loader gives a program; addresses are then offsets in that file. */
int __real_dl_iterate_phdr(int (*)(struct dl_phdr_info *, size_t, void *), void *);
int __wrap_dl_iterate_phdr(int (*)(struct dl_phdr_info *, size_t, void *), void *);
int __wrap_dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data) {
    if (!*opened_path)
        return __real_dl_iterate_phdr(visit, data);
    struct dl_phdr_info info = {.dlpi_name = ""};
    return visit(&info, sizeof info, data);
}

static bool id_in_notes(Elf_Data *notes, const struct symbol_module *module, bool *has_id) {
    GElf_Nhdr note;
    size_t name, content;
    for (size_t at = 0; notes && (at = gelf_getnote(notes, at, &note, &name, &content)) > 0;) {
        const char *bytes = notes->d_buf;
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof ELF_NOTE_GNU ||
            memcmp(bytes + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) != 0)
            continue;
        *has_id = true;
        return note.n_descsz == module->build_id_size &&
               memcmp(bytes + content, module->build_id, note.n_descsz) == 0;
    }
    return false;
}

/* Whether the file has the module's build id. A debug file has it in its sections alone. */
static bool same_id(Elf *elf, const struct symbol_module *module) {
    bool has_id = false;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL && !has_id;) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) && header.sh_type == SHT_NOTE &&
            id_in_notes(elf_getdata(section, NULL), module, &has_id))
            return true;
    }
    size_t count = 0;
    if (has_id || elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count && i < INT_MAX && !has_id; i++) {
        GElf_Phdr header;
        if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_NOTE &&
            id_in_notes(elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz,
                                             header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR),
                        module, &has_id))
            return true;
    }
    return false;
}

static enum symbol_file_state check(const char *path, const struct symbol_module *module) {
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return SYMBOL_FILE_ABSENT;
    enum symbol_file_state state = SYMBOL_FILE_CHANGED;
    Elf *elf = NULL;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
        state = SYMBOL_FILE_ABSENT;
    else if (!module->build_id_size)
        state = (uint64_t)about.st_mtim.tv_sec < module->run_start_ns / 1000000000u
                    ? SYMBOL_FILE_FOUND
                    : SYMBOL_FILE_CHANGED;
    else if ((elf = elf_begin(file, ELF_C_READ, NULL)) != NULL && same_id(elf, module))
        state = SYMBOL_FILE_FOUND;
    elf_end(elf);
    close(file);
    return state;
}

/* FOLDER/.build-id/xx/yyyy.debug */
static bool find_debug_file(const char *folder, const struct symbol_module *module) {
    char id[2 * 64 + 2] = "";
    if (!folder || module->build_id_size < 2 || module->build_id_size > 64)
        return false;
    for (size_t i = 0, at = 0; i < module->build_id_size; i++)
        at += (size_t)snprintf(id + at, sizeof id - at, i ? "%02x" : "%02x/", module->build_id[i]);
    int length = snprintf(opened_path, sizeof opened_path, "%s/.build-id/%s.debug", folder, id);
    return length > 0 && (size_t)length < sizeof opened_path &&
           check(opened_path, module) == SYMBOL_FILE_FOUND;
}

static void ignore(void *state, const char *text, int number) {
    (void)state, (void)text, (void)number;
}

enum symbol_file_state symbol_file_open(const struct symbol_module *module) {
    elf_version(EV_CURRENT);
    enum symbol_file_state state = SYMBOL_FILE_FOUND;
    if (!find_debug_file(module->debug_folder, module) &&
        !find_debug_file("/usr/lib/debug", module)) {
        snprintf(opened_path, sizeof opened_path, "%s", module->path);
        state = check(opened_path, module);
    }
    if (state == SYMBOL_FILE_FOUND)
        opened = backtrace_create_state(opened_path, 0, ignore, NULL);
    return state;
}

/* C++'s own names are for linkers. Its library is there where a program in C++ is. */
static char *demangled(const char *name) {
    typedef char *demangle(const char *, char *, size_t *, int *);
    static demangle *function;
    static bool tried;
    if (strncmp(name, "_Z", 2) != 0)
        return NULL;
    if (!tried) {
        void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
        function = library ? (demangle *)(uintptr_t)dlsym(library, "__cxa_demangle") : NULL;
        tried = true;
    }
    int status = -1;
    return function ? function(name, NULL, NULL, &status) : NULL;
}

struct search {
    void (*found)(const struct symbol *symbol, void *state);
    void *state;
    uint64_t offset; /* within the call */
    uint64_t place;  /* where it returns to */
    bool told;
};

static void tell(struct search *search, const char *function, const char *file, int line,
                 uint64_t into) {
    char *readable = demangled(function);
    bool has_line = file && line > 0;
    const struct symbol symbol = {readable ? readable : function, has_line ? file : NULL,
                                  has_line ? (unsigned)line : 0, has_line ? 0 : into};
    search->found(&symbol, search->state);
    free(readable);
    search->told = true;
}

struct nearest {
    struct search *search;
    const char *file;
    int line;
};

static void see_symbol(void *state, uintptr_t offset, const char *name, uintptr_t value,
                       uintptr_t size) {
    struct nearest *nearest = state;
    (void)offset, (void)size;
    if (name)
        tell(nearest->search, name, nearest->file, nearest->line, nearest->search->place - value);
}

static int see_line(void *state, uintptr_t offset, const char *file, int line,
                    const char *function) {
    struct search *search = state;
    if (function && file && line > 0)
        tell(search, function, file, line, 0);
    else if (file)
        backtrace_syminfo(opened, offset, see_symbol, ignore,
                          &(struct nearest){search, file, line});
    return 0;
}

void symbol_file_find(uint64_t offset, void (*found)(const struct symbol *symbol, void *state),
                      void *state) {
    /* A return address is the next line's if the call was the last of its line. */
    struct search search = {
        .found = found, .state = state, .offset = offset ? offset - 1 : 0, .place = offset};
    if (!opened)
        return;
    backtrace_pcinfo(opened, search.offset, see_line, ignore, &search);
    if (!search.told)
        backtrace_syminfo(opened, search.offset, see_symbol, ignore,
                          &(struct nearest){&search, NULL, 0});
}

#else

enum symbol_file_state symbol_file_open(const struct symbol_module *module) {
    (void)module;
    return SYMBOL_FILE_ABSENT;
}

void symbol_file_find(uint64_t offset, void (*found)(const struct symbol *symbol, void *state),
                      void *state) {
    (void)offset, (void)found, (void)state;
}

#endif
