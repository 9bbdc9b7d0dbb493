#include "cli/doctor/python_path.h"

#include "cli/doctor/python_folders.h"
#include "cli/doctor/script.h"

#include <ctype.h>
#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION_MAX = 16 };

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool python_is_interpreter(const char *name) {
    static const char *const names[] = {"python", "pypy"};
    name = last_part(name);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(name, names[i], length) != 0)
            continue;
        name += length;
        name += strspn(name, "0123456789.");
        return !*name || strcmp(name, "t") == 0 || strcmp(name, "d") == 0 ||
               strcmp(name, "m") == 0 || strcmp(name, "-dbg") == 0;
    }
    return false;
}

static bool is_folder(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static bool is_file(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* The folder of a path, `levels` up, which may take the path's own place; false if there is none.
 */
static bool folder_of(const char *path, int levels, char *folder) {
    if (folder != path)
        snprintf(folder, PATH_MAX, "%s", path);
    while (levels--) {
        char *slash = strrchr(folder, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    return true;
}

/* The first word of each line of pyenv's version files is tried in turn. */
static char *try_versions(const char *root, const char *versions, const char *program) {
    char *copy = strdup(versions), *rest = copy, *found = NULL;
    while (copy && !found) {
        char *version = strtok_r(rest, ": \t\r\n", &rest), *path;
        if (!version)
            break;
        if (strchr(version, '/') ||
            asprintf(&path, "%s/versions/%s/bin/%s", root, version, program) < 0)
            continue;
        if (access(path, X_OK) == 0)
            found = path;
        else
            free(path);
    }
    free(copy);
    return found;
}

static char *try_version_file(const char *root, const char *file, const char *program) {
    size_t length = 0;
    char *bytes = script_read_bytes(file, 4096, &length), *found = NULL;
    if (bytes) {
        bytes[length] = '\0';
        found = try_versions(root, bytes, program);
    }
    free(bytes);
    return found;
}

char *python_behind_shim(const char *shim) {
    char root[PATH_MAX], folder[PATH_MAX], file[PATH_MAX + 32];
    const char *chosen = getenv("PYENV_VERSION"), *program = last_part(shim);
    if (!folder_of(shim, 1, folder) || strcmp(last_part(folder), "shims") != 0 ||
        !folder_of(shim, 2, root))
        return NULL;
    if (chosen && *chosen)
        return try_versions(root, chosen, program);
    char *found = NULL;
    if (getcwd(folder, sizeof folder))
        while (!found && *folder) {
            snprintf(file, sizeof file, "%s/.python-version", folder);
            found = try_version_file(root, file, program);
            if (!folder_of(folder, 1, folder))
                break;
        }
    snprintf(file, sizeof file, "%s/version", root);
    return found ? found : try_version_file(root, file, program);
}

/* Takes the path over, of a folder that is there. */
static void add(struct python_path *path, char *folder, enum python_origin origin) {
    bool known = !folder || path->count == PYTHON_FOLDERS || !is_folder(folder);
    for (size_t i = 0; !known && i < path->count; i++)
        known = strcmp(path->folders[i].path, folder) == 0;
    if (known)
        free(folder);
    else
        path->folders[path->count++] = (struct python_folder){folder, origin};
}

__attribute__((format(printf, 3, 4))) static void
add_formatted(struct python_path *path, enum python_origin origin, const char *pattern, ...) {
    va_list arguments;
    char *folder;
    va_start(arguments, pattern);
    if (vasprintf(&folder, pattern, arguments) < 0)
        folder = NULL;
    va_end(arguments);
    add(path, folder, origin);
}

/* Folders that .pth files of an installation add, as pip's --editable does. */
static void add_linked(struct python_path *path, const char *folder) {
    char pattern[PATH_MAX];
    glob_t files;
    if ((size_t)snprintf(pattern, sizeof pattern, "%s/*.pth", folder) >= sizeof pattern ||
        glob(pattern, GLOB_NOSORT, NULL, &files) != 0)
        return;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        size_t length = 0;
        char *bytes = script_read_bytes(files.gl_pathv[i], 65536, &length), *rest = bytes, *line;
        if (bytes)
            bytes[length] = '\0';
        while (bytes && (line = strtok_r(rest, "\r\n", &rest))) {
            if (strncmp(line, "import", 6) == 0 || *line == '#')
                continue;
            add_formatted(path, PYTHON_INSTALLED, "%s%s%s", *line == '/' ? "" : folder,
                          *line == '/' ? "" : "/", line);
        }
        free(bytes);
    }
    globfree(&files);
}

static void add_installed(struct python_path *path, const char *folder) {
    size_t before = path->count;
    add_formatted(path, PYTHON_INSTALLED, "%s", folder);
    if (path->count > before)
        add_linked(path, folder);
}

/* "3.11" of python3.11 or libpython3.11.so.1.0; "" if there is none. */
static void read_version(const char *name, char *version) {
    const char *start = strstr(name, "python");
    start = start ? start + strlen("python") : "";
    size_t length = strspn(start, "0123456789");
    *version = '\0';
    if (!length || start[length] != '.' || !isdigit((unsigned char)start[length + 1]))
        return;
    length += 1 + strspn(start + length + 1, "0123456789");
    if (length < VERSION_MAX)
        snprintf(version, VERSION_MAX, "%.*s", (int)length, start);
}

/* The version whose library is below this prefix, if the interpreter's name does not tell. */
static void guess_version(const char *prefix, char *version) {
    char pattern[PATH_MAX + 32];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/lib/python3.*/os.py", prefix);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    read_version(strstr(found.gl_pathv[found.gl_pathc - 1], "/lib/python"), version);
    globfree(&found);
}

static void add_prefix(struct python_path *path, const char *prefix, const char *version) {
    static const char *const libraries[] = {"lib", "lib64"};
    for (int i = 0; i < 2; i++) {
        add_formatted(path, PYTHON_STANDARD, "%s/%s/python%s", prefix, libraries[i], version);
        add_formatted(path, PYTHON_STANDARD, "%s/%s/python%s/lib-dynload", prefix, libraries[i],
                      version);
    }
}

static void add_sites(struct python_path *path, const char *prefix, const char *version) {
    static const char *const patterns[] = {
        "lib/python%s/site-packages", "lib64/python%s/site-packages",
        "local/lib/python%s/dist-packages", "lib/python%s/dist-packages",
        "lib/python3/dist-packages"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        char folder[PATH_MAX + 64], inner[64];
        const char *mark = strstr(patterns[i], "%s");
        snprintf(inner, sizeof inner, "%.*s%s%s", mark ? (int)(mark - patterns[i]) : 64,
                 patterns[i], mark ? version : "", mark ? mark + 2 : "");
        snprintf(folder, sizeof folder, "%s/%s", prefix, inner);
        add_installed(path, folder);
    }
}

/* The folder of the virtual environment that this interpreter belongs to. */
static bool find_environment(const char *interpreter, char *folder) {
    for (int levels = 1; levels <= 2; levels++) {
        char file[PATH_MAX + 16];
        if (!folder_of(interpreter, levels, folder))
            return false;
        snprintf(file, sizeof file, "%s/pyvenv.cfg", folder);
        if (is_file(file))
            return true;
    }
    return false;
}

/* Whether a virtual environment has what is installed beside it, too. */
static bool shares_sites(const char *environment) {
    char file[PATH_MAX + 16];
    size_t length = 0;
    snprintf(file, sizeof file, "%s/pyvenv.cfg", environment);
    char *bytes = script_read_bytes(file, 65536, &length);
    if (bytes)
        bytes[length] = '\0';
    bool shares = bytes && strstr(bytes, "include-system-site-packages = true");
    free(bytes);
    return shares;
}

struct python_path python_path_of(const char *interpreter, const char *library,
                                  const char *script_folder, int without) {
    struct python_path path = {.count = 0};
    char real[PATH_MAX], prefix[PATH_MAX] = "", environment[PATH_MAX], version[VERSION_MAX] = "";
    const char *more = getenv("PYTHONPATH"), *home = getenv("HOME");
    if (!(without & PYTHON_WITHOUT_FOLDER))
        add_formatted(&path, PYTHON_OWN, "%s", *script_folder ? script_folder : ".");
    for (more = without & PYTHON_WITHOUT_ENVIRONMENT ? NULL : more; more && *more;
         more += strcspn(more, ":") + (more[strcspn(more, ":")] == ':'))
        add_formatted(&path, PYTHON_OWN, "%.*s", (int)strcspn(more, ":"), more);
    if (library && realpath(library, real))
        read_version(last_part(real), version);
    if (realpath(interpreter, real)) {
        if (!*version)
            read_version(last_part(real), version);
        folder_of(real, 2, prefix);
    }
    if (!*version)
        guess_version(prefix, version);
    char standard[PATH_MAX + 64];
    snprintf(standard, sizeof standard, "%s/lib/python%s", prefix, version);
    /* A program that embeds Python need not be where Python is; its library is. */
    if (library && !is_folder(standard) && realpath(library, real))
        for (int levels = 2; levels <= 3 && !is_folder(standard); levels++) {
            folder_of(real, levels, prefix);
            snprintf(standard, sizeof standard, "%s/lib/python%s", prefix, version);
        }
    add_prefix(&path, prefix, version);
    bool virtual_one = find_environment(interpreter, environment);
    if (virtual_one)
        add_sites(&path, environment, version);
    if (!virtual_one || shares_sites(environment)) {
        snprintf(standard, sizeof standard, "%s/.local/lib/python%s/site-packages",
                 home ? home : "/nonexistent", version);
        if (!(without & PYTHON_WITHOUT_HOME))
            add_installed(&path, standard);
        add_sites(&path, prefix, version);
    }
    return path;
}

static struct python_module found_file(char *path, enum python_origin origin, bool is_package,
                                       bool is_code) {
    return (struct python_module){path, origin, is_package, is_code};
}

/* One part of a module's name, in one folder. */
static struct python_module find_part(const char *folder, enum python_origin origin,
                                      const char *name, size_t length) {
    char base[PATH_MAX], file[PATH_MAX + 32];
    if ((size_t)snprintf(base, sizeof base, "%s/%.*s", folder, (int)length, name) >= sizeof base)
        return found_file(NULL, origin, false, false);
    snprintf(file, sizeof file, "%s/__init__.py", base);
    if (is_file(file))
        return found_file(strdup(file), origin, true, false);
    const char *library = python_folder_library(folder, name, length);
    char *extension;
    if (library && asprintf(&extension, "%s/%s", folder, library) >= 0)
        return found_file(extension, origin, false, true);
    snprintf(file, sizeof file, "%s.py", base);
    if (is_file(file))
        return found_file(strdup(file), origin, false, false);
    if (is_folder(base))
        return found_file(strdup(base), origin, true, false);
    return found_file(NULL, origin, false, false);
}

struct python_module python_path_find_in(const char *folder, enum python_origin origin,
                                         const char *name) {
    size_t length = strcspn(name, ".");
    struct python_module found = find_part(folder, origin, name, length);
    if (!found.path || !name[length])
        return found;
    struct python_module inner = found_file(NULL, origin, false, false);
    if (found.is_package) {
        char inside[PATH_MAX];
        /* Its folder, whether it has an __init__.py or not. */
        snprintf(inside, sizeof inside, "%s/%.*s", folder, (int)length, name);
        inner = python_path_find_in(inside, origin, name + length + 1);
    }
    free(found.path);
    return inner;
}

struct python_module python_path_find(const struct python_path *path, const char *name) {
    struct python_module bare = found_file(NULL, PYTHON_OWN, false, false);
    for (size_t i = 0; i < path->count; i++) {
        struct python_module found =
            python_path_find_in(path->folders[i].path, path->folders[i].origin, name);
        /* A folder without an __init__.py counts only if nothing else of that name is there. */
        if (found.path && !(found.is_package && is_folder(found.path))) {
            free(bare.path);
            return found;
        }
        if (found.path && !bare.path)
            bare = found;
        else
            free(found.path);
    }
    return bare;
}

bool python_is_builtin(const char *name) {
    static const char *const names[] = {
        "array",     "atexit",       "audioop",   "binascii", "builtins",    "cmath",
        "errno",     "faulthandler", "fcntl",     "gc",       "grp",         "itertools",
        "marshal",   "math",         "mmap",      "nis",      "ossaudiodev", "parser",
        "posix",     "pwd",          "pyexpat",   "readline", "resource",    "select",
        "spwd",      "syslog",       "sys",       "termios",  "time",        "unicodedata",
        "xxsubtype", "zlib",         "zipimport", "__main__", "__future__"};
    size_t length = strcspn(name, ".");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
            return true;
    return *name == '_';
}

void python_path_free(struct python_path *path) {
    for (size_t i = 0; i < path->count; i++)
        free(path->folders[i].path);
    path->count = 0;
}
