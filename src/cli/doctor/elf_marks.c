#include "cli/doctor/elf_marks.h"

#include <stdio.h>
#include <string.h>

static const struct row {
    int places;
    const char *text;
} rows[MARKS] = {
#define MARK(name, places, text) {places, text},
#include "cli/doctor/marks.def"
#undef MARK
};

/* Every driver function is "cu" and a capital letter. */
static bool is_driver_name(const char *name) {
    return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

static bool matches(const char *pattern, const char *name) {
    size_t length = strlen(pattern);
    if (!length || pattern[length - 1] != '*')
        return strcmp(pattern, name) == 0;
    return strncmp(pattern, name, length - 1) == 0;
}

void elf_marks_look(struct elf_marks *marks, const char *name, int places) {
    for (int i = 0; i < MARKS; i++)
        if ((rows[i].places & places) && matches(rows[i].text, name) &&
            (i != MARK_imports_driver || is_driver_name(name)))
            marks->found[i] = true;
}

/* "Cuda compilation tools, release 13.0, V13.0.88" stands in the device code of nvcc's programs. */
static void look_for_toolkit(struct elf_marks *marks, const char *text) {
    static const char opening[] = "Cuda compilation tools, release ";
    if (strncmp(text, opening, sizeof opening - 1) != 0)
        return;
    text += sizeof opening - 1;
    size_t length = strspn(text, "0123456789.");
    if (length && length < sizeof marks->toolkit) {
        memcpy(marks->toolkit, text, length);
        marks->toolkit[length] = '\0';
    }
}

/* "libfoo.so.1", "/opt/lib/foo.so": whole, and not to be put together. */
static void look_for_library(struct elf_marks *marks, const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_+-./";
    const char *mark = strstr(text, ".so");
    if (!mark || (mark[3] && mark[3] != '.') || mark == text || mark[-1] == '/' ||
        text[strspn(text, letters)] || strlen(text) >= LIBRARY_NAME_MAX ||
        marks->library_count == LIBRARY_NAMES)
        return;
    for (size_t i = 0; i < marks->library_count; i++)
        if (strcmp(marks->libraries[i], text) == 0)
            return;
    memcpy(marks->libraries[marks->library_count++], text, strlen(text) + 1);
}

static void end_text(struct elf_marks *marks, struct text_search *search) {
    enum { SHORTEST = 6 };
    if (search->length >= SHORTEST && search->length < sizeof search->text) {
        search->text[search->length] = '\0';
        const char *slash = strrchr(search->text, '/');
        elf_marks_look(marks, search->text, PLACE_TEXT);
        if (slash && slash != search->text)
            elf_marks_look(marks, slash + 1, PLACE_TEXT);
        look_for_toolkit(marks, search->text);
        look_for_library(marks, search->text);
    }
    search->length = 0;
}

void elf_marks_search(struct elf_marks *marks, struct text_search *search,
                      const unsigned char *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (data[i] < ' ' || data[i] > '~') {
            end_text(marks, search);
        } else {
            if (search->length < sizeof search->text)
                search->text[search->length] = (char)data[i];
            search->length++;
        }
    }
}
