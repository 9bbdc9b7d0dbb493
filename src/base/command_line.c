#include "base/command_line.h"

#include "base/auxiliary.h"
#include "base/raw_files.h"

#include <string.h>

static struct command_line own;

const char *command_line_next(const struct command_line *line, const char *text) {
    const char *next = text + strlen(text) + 1;
    return next < line->text + line->size ? next : NULL;
}

bool command_line_is_sound(const struct command_line *line) {
    if (!command_line_used(line))
        return true;
    if (line->size > sizeof line->text || line->text[line->size - 1])
        return false;
    return command_line_next(line, line->text);
}

/* Adds `text` behind `before`. */
static void add(struct command_line *line, const char *before, const char *text) {
    size_t head = strlen(before), length = strlen(text), used = command_line_used(line);
    if (line->size == COMMAND_LINE_TOO_LONG || head + length >= sizeof line->text - used) {
        line->size = COMMAND_LINE_TOO_LONG;
        return;
    }
    memcpy(line->text + used, before, head);
    memcpy(line->text + used + head, text, length + 1);
    line->size = (uint32_t)(used + head + length + 1);
}

void command_line_add(struct command_line *line, const char *text) {
    add(line, "", text);
}

static void add_folder(struct command_line *line) {
    ssize_t length = raw_getcwd(line->text, sizeof line->text);
    if (length > 0 && *line->text == '/')
        line->size = (uint32_t)length;
    else /* gone, or outside of what the process sees */
        command_line_add(line, "");
}

static void add_executable(struct command_line *line) {
    size_t used = command_line_used(line), room = sizeof line->text - used;
    if (line->size == COMMAND_LINE_TOO_LONG)
        return;
    ssize_t length = readlink("/proc/self/exe", line->text + used, room);
    if (length == (ssize_t)room) {
        line->size = COMMAND_LINE_TOO_LONG;
        return;
    }
    line->text[used + (length > 0 ? (size_t)length : 0)] = '\0';
    line->size = (uint32_t)(used + strlen(line->text + used) + 1);
}

/* The path that execve was given. */
static const char *executed_path(int argc, char *const *argv) {
    return (const char *)auxiliary_value(argc, argv, AT_EXECFN);
}

/* A script's interpreter is started with the script's path behind its own and its options. */
static bool is_interpreter_of(const char *script, int argc, char *const *argv) {
    enum { DEEPEST = 5 };
    for (int i = 1; i < argc && argv[i] && i <= DEEPEST; i++)
        if (strcmp(argv[i], script) == 0)
            return argv[0] && *argv[0] == '/';
    return false;
}

/* Adds what a shell is to call the program by: argv[0], unless that is not how it was found. path:
 * NULL if it is not known. */
static void add_program(struct command_line *line, const char *path, int argc, char *const *argv) {
    const char *name = argc > 0 && argv[0] ? argv[0] : "",
               *slash = path ? strrchr(path, '/') : NULL;
    bool by_descriptor =
        path && (strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/", 6) == 0);
    bool plain = !strchr(name, '/'), by_name = !path && *name;
    if (slash && !by_descriptor)
        by_name = is_interpreter_of(path, argc, argv) || (plain && strcmp(name, slash + 1) == 0);
    if (by_name)
        command_line_add(line, name);
    else if (!path || by_descriptor)
        add_executable(line);
    else if (!slash) /* the program is in its folder, where no shell looks for a bare name */
        add(line, "./", path);
    else
        command_line_add(line, path);
}

void command_line_take(int argc, char *const *argv) {
    if (own.size || !argv)
        return;
    add_folder(&own);
    add_program(&own, executed_path(argc, argv), argc, argv);
    /* some arguments have been cut off before a library that was opened later */
    for (int i = 0; i < argc && argv[i]; i++)
        command_line_add(&own, argv[i]);
}

/* Takes the line from the system, for a library's constructor that came before ours: nothing has
 * been written over yet. */
static void take_from_system(void) {
    static char text[COMMAND_LINE_MAX];
    char *first = text;
    int file = raw_openat(AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
    ssize_t size = file < 0 ? 0 : raw_pread(file, text, sizeof text, 0);
    if (file >= 0)
        close(file);
    if (size <= 0)
        return;
    if (size == sizeof text || text[size - 1]) {
        own.size = COMMAND_LINE_TOO_LONG;
        return;
    }
    add_folder(&own);
    add_program(&own, NULL, 1, &first);
    for (const char *at = text; at < text + size; at += strlen(at) + 1)
        command_line_add(&own, at);
}

const struct command_line *command_line_own(void) {
    if (!own.size)
        take_from_system();
    return &own;
}
