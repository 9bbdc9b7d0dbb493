/* A program or library with the libraries that ld.so would load for it. */
#include "cli/doctor/checks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Libraries of libc and the compilers: nothing of CUDA is in them. */
static bool is_system_library(const char *path) {
    static const char *const names[] = {
        "ld-linux", "linux-vdso",    "libc.so",     "libm.so",      "libdl.so",
        "librt.so", "libpthread.so", "libgcc_s.so", "libstdc++.so", "libpoolcuda.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(base_name(path), names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Libraries that many programs are linked with and that open CUDA only for those who ask for it:
 * offloading, MPI and its transports, media. */
static bool is_asked(const char *path) {
    static const char *const names[] = {
        "libgomp.so",   "libomptarget.so", "libmpi.so",     "libopen-pal.so", "libucm.so",
        "libucs.so",    "libuct.so",       "libucp.so",     "libfabric.so",   "libhwloc.so",
        "libavutil.so", "libavcodec.so",   "libavfilter.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(base_name(path), names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

void subject_look(struct doctor *doctor, struct subject *subject, const char *interpreter) {
    subject->loaded = bindings_ask(interpreter, subject->path, doctor->preload);
    subject->routes = routes_of(&subject->file, subject->path);
    subject->modules = calloc(subject->loaded.library_count + 1, sizeof *subject->modules);
    for (size_t i = 0; subject->modules && i < subject->loaded.library_count; i++) {
        const char *path = subject->loaded.libraries[i].path;
        if (!path || is_system_library(path))
            continue;
        struct subject_module *module = &subject->modules[subject->module_count++];
        module->path = path;
        module->file = elf_file_read(path);
        module->routes = is_asked(path) ? 0 : routes_of(&module->file, path);
    }
}

void subject_free(struct subject *subject) {
    for (size_t i = 0; i < subject->module_count; i++)
        elf_file_free(&subject->modules[i].file);
    free(subject->modules);
    free(subject->path);
    elf_file_free(&subject->file);
    bindings_free(&subject->loaded);
}

bool subject_uses_cuda(const struct subject *subject) {
    bool uses = subject->routes != 0;
    for (size_t i = 0; i < subject->module_count; i++)
        uses = uses || subject->modules[i].routes;
    return uses;
}

bool own_interpreter(char *interpreter, char *self) {
    ssize_t length = readlink("/proc/self/exe", self, PATH_MAX - 1);
    self[length > 0 ? length : 0] = '\0';
    struct elf_file file = elf_file_read(self);
    bool found = file.interpreter && *file.interpreter && strlen(file.interpreter) < PATH_MAX;
    snprintf(interpreter, PATH_MAX, "%s", found ? file.interpreter : "");
    elf_file_free(&file);
    return found;
}

char *find_library(const char *name, const char *opener) {
    char interpreter[PATH_MAX], self[PATH_MAX];
    if (strchr(name, '/'))
        return access(name, R_OK) == 0 ? strdup(name) : NULL;
    if (!own_interpreter(interpreter, self) || strpbrk(name, " :"))
        return NULL;
    struct bindings found = bindings_ask(interpreter, opener ? opener : self, name);
    const char *path = bindings_library(&found, name);
    char *copy = path && strcmp(base_name(path), name) == 0 ? strdup(path) : NULL;
    bindings_free(&found);
    return copy;
}
