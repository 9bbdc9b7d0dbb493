/* Names in a program or library that say how it reaches CUDA. */
#ifndef POOLCUDA_CLI_DOCTOR_ELF_MARKS_H
#define POOLCUDA_CLI_DOCTOR_ELF_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a name was found. */
enum mark_place {
    PLACE_IMPORT = 1, /* a symbol that others have to define */
    PLACE_EXPORT = 2, /* one that it defines for others */
    PLACE_INSIDE = 4, /* one of its own that only its symbol table tells */
    PLACE_HIDDEN = 8, /* one of those that it keeps to itself */
    PLACE_TEXT = 16,  /* a string among its data */
};

/* MARK(name, places, exact name or, with * at its end, beginning of the name) */
enum mark {
#define MARK(name, places, text) MARK_##name,
#include "cli/doctor/marks.def"
#undef MARK
    MARKS
};

enum { LIBRARY_NAMES = 32, LIBRARY_NAME_MAX = 96 };

struct elf_marks {
    bool found[MARKS];
    char libraries[LIBRARY_NAMES][LIBRARY_NAME_MAX]; /* texts that are names of libraries */
    size_t library_count;
    char toolkit[16]; /* the CUDA release whose compiler made its device code, "" if unknown */
};

/* Notes what this name at these places (enum mark_place) means. */
void elf_marks_look(struct elf_marks *marks, const char *name, int places);

/* Looks for strings in data that comes piece by piece. Zero it to begin; end with a NUL byte. */
struct text_search {
    char text[128];
    size_t length; /* of the current string, also beyond the room for it */
};
void elf_marks_search(struct elf_marks *marks, struct text_search *search,
                      const unsigned char *data, size_t size);

#endif
