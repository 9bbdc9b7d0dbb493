/* What can be seen of a program or library in its file. Nothing of it is run. */
#ifndef POOLCUDA_CLI_DOCTOR_ELF_FILE_H
#define POOLCUDA_CLI_DOCTOR_ELF_FILE_H

#include "cli/doctor/elf_marks.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

enum elf_kind {
    ELF_MISSING,    /* error says why it cannot be found */
    ELF_UNREADABLE, /* error says why */
    ELF_DIRECTORY,
    ELF_SPECIAL, /* a device, a pipe, a socket */
    ELF_EMPTY,
    ELF_SCRIPT, /* begins with #! */
    ELF_OTHER,  /* no ELF file */
    ELF_DAMAGED,
    ELF_GOOD,
};

/* Invariant: what follows `facts` is set only of an ELF_GOOD or ELF_DAMAGED file, as far as it
 * could be read; strings are never NULL in an ELF_GOOD file, "" where there is none. */
struct elf_file {
    enum elf_kind kind;
    int error;           /* errno, of ELF_MISSING and ELF_UNREADABLE */
    const char *damaged; /* of ELF_DAMAGED: what is wrong, a constant; else NULL */
    struct stat facts;
    bool has_capabilities; /* file capabilities, which make ld.so careful */

    int bits;         /* 32 or 64 */
    unsigned machine; /* EM_* */
    bool is_program;  /* can be executed: has an interpreter, or is linked statically */
    bool is_static;   /* a program without an interpreter: ld.so has no part in it */
    char *interpreter, *soname;
    char **needed;
    size_t needed_count;
    struct elf_marks marks;
};

/* Looks at the file. Free it with elf_file_free, whatever its kind. */
struct elf_file elf_file_read(const char *path);

void elf_file_free(struct elf_file *file);

/* Whether one of the marks, which end with MARKS, was found in a good file. */
bool elf_file_has_any(const struct elf_file *file, const enum mark *marks);

#endif
