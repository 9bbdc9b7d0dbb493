#include "cli/doctor/driver_functions.h"

#include "interpose/entry_points.h"

#include <ctype.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

/* The library's other exports, cudbgApiInit and the like, go on in lower case. */
static bool is_of_the_driver_api(const char *name) {
    return strncmp(name, "cu", 2) == 0 && isupper((unsigned char)name[2]);
}

static void look_at(struct driver_functions *functions, const char *name) {
    unsigned number = entry_find(name);
    if (number == ENTRIES)
        functions->unknown++;
    else if (entry_points[number].since > functions->driver)
        functions->driver = entry_points[number].since;
}

static void look_through(struct driver_functions *functions, Elf *elf) {
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        GElf_Sym symbol;
        Elf_Data *data = NULL;
        if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM)
            data = elf_getdata(section, NULL);
        for (int i = 1; data && gelf_getsym(data, i, &symbol); i++) {
            const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
            if (name && symbol.st_shndx != SHN_UNDEF && GELF_ST_TYPE(symbol.st_info) == STT_FUNC &&
                is_of_the_driver_api(name))
                look_at(functions, name);
        }
    }
}

struct driver_functions driver_functions_look(const char *path) {
    struct driver_functions functions = {0, 0, 0};
    for (unsigned i = 0; i < ENTRIES; i++)
        if (entry_points[i].since > functions.table)
            functions.table = entry_points[i].since;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return functions;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(file, ELF_C_READ, NULL);
    if (elf && elf_kind(elf) == ELF_K_ELF)
        look_through(&functions, elf);
    elf_end(elf);
    close(file);
    return functions;
}
