#include "cli/doctor/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
    LOADS = 64,
    NEEDED_MAX = 4096,
    SYMBOLS_MAX = 4 << 20,
    PIECE = 1 << 20,
    SEARCHED = 512 << 20, /* bytes of a file in which strings are looked for */
};

/* The file while it is read. Invariant: every load lies within the file. */
struct image {
    Elf *elf;
    int descriptor;
    uint64_t size;
    GElf_Ehdr header;
    struct load {
        uint64_t address, offset, size;
    } loads[LOADS];
    size_t load_count;
    GElf_Phdr dynamic;
    uint64_t names, names_size; /* where the names of symbols and needed libraries lie: no texts */
};

static bool is_inside(const struct image *image, uint64_t offset, uint64_t size) {
    return offset <= image->size && size <= image->size - offset;
}

/* The place in the file of what lies at `address` when loaded, and how much of it there is. */
static bool find_in_file(const struct image *image, uint64_t address, uint64_t *offset,
                         uint64_t *room) {
    for (size_t i = 0; i < image->load_count; i++) {
        const struct load *load = &image->loads[i];
        if (address < load->address || address - load->address >= load->size)
            continue;
        *offset = load->offset + (address - load->address);
        *room = load->size - (address - load->address);
        return true;
    }
    return false;
}

/* Up to `size` bytes of type `type` from there on; NULL if there are none. libelf owns them. */
static Elf_Data *get_loaded(const struct image *image, uint64_t address, uint64_t size,
                            Elf_Type type) {
    uint64_t offset, room;
    if (!find_in_file(image, address, &offset, &room))
        return NULL;
    size = size < room ? size : room;
    return elf_getdata_rawchunk(image->elf, (int64_t)offset, size, type);
}

/* The string at `offset` of a table; "" if it does not end inside. */
static const char *get_string(const Elf_Data *table, uint64_t offset) {
    if (!table || !table->d_buf || offset >= table->d_size ||
        !memchr((const char *)table->d_buf + offset, 0, table->d_size - offset))
        return "";
    return (const char *)table->d_buf + offset;
}

static const char *read_program_headers(struct image *image, struct elf_file *file) {
    size_t count;
    if (elf_getphdrnum(image->elf, &count) != 0)
        return "its program headers cannot be read";
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr header;
        if (!gelf_getphdr(image->elf, (int)i, &header))
            return "its program headers cannot be read";
        if (header.p_type != PT_LOAD && header.p_type != PT_DYNAMIC && header.p_type != PT_INTERP)
            continue;
        if (!is_inside(image, header.p_offset, header.p_filesz))
            return "it is shorter than its headers say";
        if (header.p_type == PT_LOAD && image->load_count < LOADS)
            image->loads[image->load_count++] =
                (struct load){header.p_vaddr, header.p_offset, header.p_filesz};
        if (header.p_type == PT_DYNAMIC)
            image->dynamic = header;
        if (header.p_type == PT_INTERP) {
            const Elf_Data *text = elf_getdata_rawchunk(image->elf, (int64_t)header.p_offset,
                                                        header.p_filesz, ELF_T_BYTE);
            free(file->interpreter);
            file->interpreter = strdup(get_string(text, 0));
            if (!file->interpreter || !*file->interpreter)
                return "the name of its program interpreter does not end";
        }
    }
    return image->load_count ? NULL : "it has nothing to load";
}

/* What the dynamic section says: places of its tables, and a few answers. */
struct dynamic {
    bool present, is_pie;
    uint64_t strings, strings_size, symbols;
    uint64_t needed[NEEDED_MAX], soname;
    size_t needed_count;
    bool has_soname;
};

static void read_dynamic(const struct image *image, struct dynamic *dynamic) {
    Elf_Data *data = NULL;
    if (image->dynamic.p_filesz)
        data = elf_getdata_rawchunk(image->elf, (int64_t)image->dynamic.p_offset,
                                    image->dynamic.p_filesz, ELF_T_DYN);
    GElf_Dyn entry;
    for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
        dynamic->present = true;
        switch (entry.d_tag) {
        case DT_STRTAB:
            dynamic->strings = entry.d_un.d_ptr;
            break;
        case DT_STRSZ:
            dynamic->strings_size = entry.d_un.d_val;
            break;
        case DT_SYMTAB:
            dynamic->symbols = entry.d_un.d_ptr;
            break;
        case DT_NEEDED:
            if (dynamic->needed_count < NEEDED_MAX)
                dynamic->needed[dynamic->needed_count++] = entry.d_un.d_val;
            break;
        case DT_SONAME:
            dynamic->soname = entry.d_un.d_val;
            dynamic->has_soname = true;
            break;
        case DT_FLAGS_1:
            dynamic->is_pie = (entry.d_un.d_val & DF_1_PIE) != 0;
            break;
        default:
            break;
        }
    }
}

/* A runtime that is linked statically keeps its functions to itself; hooks export theirs. */
static bool is_hidden(const GElf_Sym *symbol) {
    return GELF_ST_BIND(symbol->st_info) == STB_LOCAL ||
           GELF_ST_VISIBILITY(symbol->st_other) != STV_DEFAULT;
}

static void look_at_symbol(struct elf_file *file, const GElf_Sym *symbol, const char *name,
                           bool is_dynamic) {
    if (!*name)
        return;
    if (symbol->st_shndx == SHN_UNDEF)
        elf_marks_look(&file->marks, name, PLACE_IMPORT);
    else if (is_dynamic && GELF_ST_BIND(symbol->st_info) != STB_LOCAL)
        elf_marks_look(&file->marks, name, PLACE_EXPORT);
    else if (GELF_ST_TYPE(symbol->st_info) == STT_FUNC)
        elf_marks_look(&file->marks, name, PLACE_INSIDE | (is_hidden(symbol) ? PLACE_HIDDEN : 0));
}

/* The dynamic symbols. Their number stands nowhere but in hash tables; linkers put their names
 * right behind them. */
static void read_imports(const struct image *image, const struct dynamic *dynamic,
                         const Elf_Data *strings, struct elf_file *file) {
    GElf_Sym symbol;
    uint64_t size = (uint64_t)SYMBOLS_MAX * sizeof symbol;
    if (!strings || !dynamic->symbols)
        return;
    if (dynamic->strings > dynamic->symbols && dynamic->strings - dynamic->symbols < size)
        size = dynamic->strings - dynamic->symbols;
    size_t entry = gelf_fsize(image->elf, ELF_T_SYM, 1, EV_CURRENT);
    Elf_Data *data =
        get_loaded(image, dynamic->symbols, entry ? size / entry * entry : 0, ELF_T_SYM);
    for (int i = 1; data && i < SYMBOLS_MAX && gelf_getsym(data, i, &symbol); i++)
        look_at_symbol(file, &symbol, get_string(strings, symbol.st_name), true);
}

/* The symbol table that strip removes. */
static void read_symbol_table(const struct image *image, struct elf_file *file) {
    for (Elf_Scn *section = NULL; (section = elf_nextscn(image->elf, section));) {
        GElf_Shdr header;
        GElf_Sym symbol;
        if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        for (int i = 1; data && i < SYMBOLS_MAX && gelf_getsym(data, i, &symbol); i++) {
            const char *name = elf_strptr(image->elf, header.sh_link, symbol.st_name);
            if (name && symbol.st_shndx != SHN_UNDEF)
                look_at_symbol(file, &symbol, name, false);
        }
    }
}

/* How much from there on can be read in one go; 0 at the table of names, which is passed over. */
static size_t next_piece(const struct image *image, uint64_t at, uint64_t end) {
    uint64_t names_end = image->names + image->names_size;
    if (at >= image->names && at < names_end)
        return 0;
    if (at < image->names && image->names < end)
        end = image->names;
    return end - at < PIECE ? (size_t)(end - at) : PIECE;
}

static void read_texts(const struct image *image, struct elf_file *file) {
    unsigned char *piece = malloc(PIECE);
    uint64_t left = SEARCHED;
    for (size_t i = 0; piece && i < image->load_count; i++) {
        struct text_search search = {.length = 0};
        uint64_t at = image->loads[i].offset, end = at + image->loads[i].size;
        while (at < end && left) {
            size_t wanted = next_piece(image, at, end);
            if (!wanted) {
                at = image->names + image->names_size;
                continue;
            }
            ssize_t got = pread(image->descriptor, piece, wanted, (off_t)at);
            if (got <= 0)
                break;
            elf_marks_search(&file->marks, &search, piece, (size_t)got);
            at += (uint64_t)got;
            left -= left < (uint64_t)got ? left : (uint64_t)got;
        }
        elf_marks_search(&file->marks, &search, (const unsigned char *)"", 1);
    }
    free(piece);
}

static const char *read_tables(struct image *image, struct elf_file *file) {
    struct dynamic *dynamic = calloc(1, sizeof *dynamic);
    if (!dynamic)
        return "there is not enough memory to read it";
    read_dynamic(image, dynamic);
    const Elf_Data *strings = dynamic->strings_size ? get_loaded(image, dynamic->strings,
                                                                 dynamic->strings_size, ELF_T_BYTE)
                                                    : NULL;
    file->needed = calloc(dynamic->needed_count + 1, sizeof *file->needed);
    for (size_t i = 0; file->needed && i < dynamic->needed_count; i++) {
        char *name = strdup(get_string(strings, dynamic->needed[i]));
        if (name)
            file->needed[file->needed_count++] = name;
    }
    file->soname = strdup(dynamic->has_soname ? get_string(strings, dynamic->soname) : "");
    if (!file->interpreter)
        file->interpreter = strdup("");
    file->is_static = !file->interpreter || !*file->interpreter;
    file->is_program = !file->is_static || image->header.e_type == ET_EXEC || dynamic->is_pie;
    if (strings && find_in_file(image, dynamic->strings, &image->names, &image->names_size) &&
        image->names_size > dynamic->strings_size)
        image->names_size = dynamic->strings_size;
    read_imports(image, dynamic, strings, file);
    bool bad_name = strings && file->needed_count && !*file->needed[0];
    bool no_names = dynamic->present && !strings;
    free(dynamic);
    if (!file->needed || !file->soname || !file->interpreter)
        return "there is not enough memory to read it";
    return bad_name || no_names ? "the names in its dynamic section cannot be read" : NULL;
}

/* Reads what the ELF file says. Returns what is wrong with it, NULL if nothing is. */
static const char *read_elf(struct image *image, struct elf_file *file) {
    if (!gelf_getehdr(image->elf, &image->header))
        return "its header cannot be read";
    file->bits = gelf_getclass(image->elf) == ELFCLASS32 ? 32 : 64;
    file->machine = image->header.e_machine;
    if (image->header.e_type != ET_EXEC && image->header.e_type != ET_DYN)
        return "it is neither a program nor a library: an object file or a core file";
    const char *damaged = read_program_headers(image, file);
    if (!damaged)
        damaged = read_tables(image, file);
    if (damaged)
        return damaged;
    read_symbol_table(image, file);
    read_texts(image, file);
    return NULL;
}

static enum elf_kind look_at_elf(int descriptor, uint64_t size, struct elf_file *file) {
    struct image image = {.descriptor = descriptor, .size = size};
    elf_version(EV_CURRENT);
    image.elf = elf_begin(descriptor, ELF_C_READ, NULL);
    if (!image.elf)
        file->damaged = "its header cannot be read";
    else
        file->damaged =
            elf_kind(image.elf) == ELF_K_ELF ? read_elf(&image, file) : "its header cannot be read";
    elf_end(image.elf);
    return file->damaged ? ELF_DAMAGED : ELF_GOOD;
}

static enum elf_kind look(int descriptor, struct elf_file *file) {
    char magic[SELFMAG] = "";
    if (S_ISDIR(file->facts.st_mode))
        return ELF_DIRECTORY;
    if (!S_ISREG(file->facts.st_mode))
        return ELF_SPECIAL;
    if (!file->facts.st_size)
        return ELF_EMPTY;
    ssize_t length = pread(descriptor, magic, sizeof magic, 0);
    if (length < 0) {
        file->error = errno;
        return ELF_UNREADABLE;
    }
    if (length >= 2 && magic[0] == '#' && magic[1] == '!')
        return ELF_SCRIPT;
    if (length < SELFMAG || memcmp(magic, ELFMAG, SELFMAG) != 0)
        return ELF_OTHER;
    return look_at_elf(descriptor, (uint64_t)file->facts.st_size, file);
}

struct elf_file elf_file_read(const char *path) {
    struct elf_file file = {.kind = ELF_MISSING};
    if (stat(path, &file.facts) != 0) {
        file.error = errno;
        file.kind = errno == EACCES ? ELF_UNREADABLE : ELF_MISSING;
        return file;
    }
    /* A pipe or a device is not even opened: that may do something. */
    if (!S_ISREG(file.facts.st_mode)) {
        file.kind = S_ISDIR(file.facts.st_mode) ? ELF_DIRECTORY : ELF_SPECIAL;
        return file;
    }
    file.has_capabilities = getxattr(path, "security.capability", NULL, 0) > 0;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0 || fstat(descriptor, &file.facts) != 0) {
        file.error = errno;
        file.kind = ELF_UNREADABLE;
    } else {
        file.kind = look(descriptor, &file);
    }
    if (descriptor >= 0)
        close(descriptor);
    return file;
}

void elf_file_free(struct elf_file *file) {
    for (size_t i = 0; i < file->needed_count; i++)
        free(file->needed[i]);
    free(file->needed);
    free(file->interpreter);
    free(file->soname);
    *file = (struct elf_file){.kind = ELF_MISSING};
}

bool elf_file_has_any(const struct elf_file *file, const enum mark *marks) {
    for (; file->kind == ELF_GOOD && *marks != MARKS; marks++)
        if (file->marks.found[*marks])
            return true;
    return false;
}
