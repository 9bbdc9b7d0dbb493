/* What the doctor checks of libraries that are opened as a program runs. */
#include "cli/doctor/checks.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Reads the library at `path`, which the subject takes over, with what it needs. */
static bool read_library(struct doctor *doctor, struct subject *subject, const char *path) {
    char interpreter[PATH_MAX], self[PATH_MAX], real[PATH_MAX];
    subject->path = strdup(realpath(path, real) ? real : path);
    if (!subject->path || !own_interpreter(interpreter, self))
        return false;
    subject->file = elf_file_read(subject->path);
    if (subject->file.kind != ELF_GOOD || subject->file.bits != 64)
        return false;
    subject_look(doctor, subject, interpreter);
    return true;
}

bool check_opened(struct doctor *doctor, const char *name, const char *opener) {
    char *path = find_library(name, opener);
    struct subject subject = {.name = path ? base_name(path) : name};
    bool uses = path && read_library(doctor, &subject, path) && subject_uses_cuda(&subject);
    if (uses) {
        check_routes(doctor, &subject);
        check_hooks(doctor, &subject);
        check_surroundings(doctor, &subject);
        doctor->cuda_seen = true;
    }
    subject_free(&subject);
    free(path);
    return uses;
}

bool library_uses_cuda(struct doctor *doctor, const char *path) {
    struct subject subject = {.name = path};
    bool uses = read_library(doctor, &subject, path) && subject_uses_cuda(&subject);
    subject_free(&subject);
    return uses;
}

/* Programs that run code of other languages from libraries of theirs. */
static const char *find_language(const struct subject *subject) {
    static const struct {
        const char *library, *language;
    } languages[] = {{"libpython", "Python"},   {"libperl", "Perl"},   {"libruby", "Ruby"},
                     {"libjvm", "Java"},        {"libjli", "Java"},    {"liblua", "Lua"},
                     {"libtcl", "Tcl"},         {"libR.so", "R"},      {"libguile", "Guile"},
                     {"libmono", ".NET"},       {"libjulia", "Julia"}, {"libnode", "JavaScript"},
                     {"liboctinterp", "Octave"}};
    for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++)
        if (bindings_library(&subject->loaded, languages[i].library))
            return languages[i].language;
    return NULL;
}

static bool opens_libraries(const struct elf_file *file) {
    static const enum mark marks[] = {
        MARK_imports_dlopen,   MARK_imports_dlmopen, MARK_imports_gmodule, MARK_imports_ltdl,
        MARK_imports_qlibrary, MARK_imports_qplugin, MARK_imports_sdl,     MARKS};
    return elf_file_has_any(file, marks);
}

/* Libraries of the system open others for purposes of their own: names, locales, devices. */
static bool is_of_system(const char *path) {
    return strncmp(path, "/lib/", 5) == 0 || strncmp(path, "/lib64/", 7) == 0 ||
           strncmp(path, "/usr/lib/", 9) == 0 || strncmp(path, "/usr/lib64/", 11) == 0;
}

/* Libraries whose ways to open others have checks of their own, wherever they are. */
static bool is_known_opener(const char *path) {
    static const char *const names[] = {"libpython",  "libgstreamer-", "libgmodule-",
                                        "libgomp.so", "libomp.so",     "libomptarget.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(base_name(path), names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void follow_names(struct doctor *doctor, const struct subject *subject, const char *title,
                         const struct elf_file *file) {
    if (!opens_libraries(file))
        return;
    for (size_t i = 0; i < file->marks.library_count && !doctor->cuda_seen; i++)
        if (strncmp(base_name(file->marks.libraries[i]), "libcuda", 7) != 0)
            check_opened(doctor, file->marks.libraries[i], subject->path);
    doctor_doubt(doctor, "%s can open libraries under names that are not in its file", title);
}

/* FFmpeg's libraries have ways to CUDA that are taken where the arguments ask for them. */
static void check_ffmpeg(struct doctor *doctor, const struct subject *subject,
                         char *const *arguments) {
    static const char *const words[] = {"cuda", "nvenc", "nvdec", "cuvid", "npp"};
    const char *path = bindings_library(&subject->loaded, "libavutil.so");
    struct elf_file file = {.kind = ELF_MISSING};
    if (path)
        file = elf_file_read(path);
    bool can = path && routes_of(&file, path), asks = false;
    elf_file_free(&file);
    for (; can && arguments && *arguments; arguments++)
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            asks = asks || strstr(*arguments, words[i]);
    if (asks) {
        findings_add(&doctor->findings, "driver-opened", SEVERITY_OK,
                     "%s is asked to use CUDA: %s opens the driver", subject->name, path);
        doctor->cuda_seen = true;
    } else if (can) {
        doctor_doubt(doctor, "%s uses FFmpeg's libraries, which use CUDA where they are asked to",
                     subject->name);
    }
}

void check_opens(struct doctor *doctor, const struct subject *subject, char *const *arguments) {
    const char *language = find_language(subject);
    follow_names(doctor, subject, subject->name, &subject->file);
    for (size_t i = 0; i < subject->module_count; i++)
        if (!is_of_system(subject->modules[i].path) && !is_known_opener(subject->modules[i].path))
            follow_names(doctor, subject, base_name(subject->modules[i].path),
                         &subject->modules[i].file);
    check_ffmpeg(doctor, subject, arguments);
    if (language)
        doctor_doubt(doctor, "%s runs code in %s that is not seen", subject->name, language);
}
