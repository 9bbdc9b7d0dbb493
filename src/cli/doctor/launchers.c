#include "cli/doctor/launchers.h"

#include "cli/doctor/script.h"

#include <stdlib.h>
#include <string.h>

static const struct launcher launchers[] = {
#define LAUNCHER(name, kind, words, values) {#name, kind, words, values},
#include "cli/doctor/launchers.def"
#undef LAUNCHER
};

/* What Debian puts behind mpirun and mpiexec, and the system behind ld-linux-x86-64. */
static bool is_suffix(const char *text) {
    static const char *const names[] = {"", ".openmpi", ".mpich", ".hydra", ".so.1", ".so.2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0)
            return true;
    return false;
}

static bool is_called(const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t length = strlen(name);
    return strncmp(base, name, length) == 0 && is_suffix(base + length);
}

const struct launcher *launcher_find(const char *name, const char *path) {
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        if (is_called(name, launchers[i].name) || is_called(path, launchers[i].name))
            return &launchers[i];
    return NULL;
}

/* How many words behind this option are its own. */
static size_t count_values(const struct launcher *launcher, const char *option, bool *known) {
    size_t length = strlen(option);
    *known = true;
    for (const char *row = launcher->values; *row; row += strspn(row, " ")) {
        size_t room = strcspn(row, " :");
        const char *end = row + room;
        size_t count = *end == ':' ? (size_t)(end[1] - '0') : 1;
        if (room == length && strncmp(row, option, length) == 0)
            return count;
        row = end + strcspn(end, " ");
    }
    *known = strchr(option, '=') != NULL;
    return 0;
}

/* env's NAME=VALUE. */
static bool is_assignment(const struct launcher *launcher, const char *word) {
    bool takes = strcmp(launcher->name, "env") == 0 || launcher->kind == LAUNCHER_STRIPS;
    return takes && strchr(word, '=') && *word != '=';
}

static bool takes_preload_away(const struct launcher *launcher, char *const *word) {
    static const char *const emptying[] = {"-i", "-", "--ignore-environment"};
    if (strcmp(launcher->name, "env") != 0)
        return false;
    for (size_t i = 0; i < sizeof emptying / sizeof emptying[0]; i++)
        if (strcmp(*word, emptying[i]) == 0)
            return true;
    return strncmp(*word, "LD_PRELOAD=", 11) == 0 || strcmp(*word, "-uLD_PRELOAD") == 0 ||
           strcmp(*word, "--unset=LD_PRELOAD") == 0 ||
           ((strcmp(*word, "-u") == 0 || strcmp(*word, "--unset") == 0) && word[1] &&
            strcmp(word[1], "LD_PRELOAD") == 0);
}

/* Beyond options that the table does not have, whose values look like programs that are not there:
 * the first word that is one, or `word` if none is. */
static char *const *pass_values(char *const *word) {
    for (char *const *next = word; *next; next++) {
        char *found = **next == '-' ? NULL : script_find_program(*next);
        free(found);
        if (found)
            return next;
    }
    return word;
}

static bool starts_list(const struct launcher *launcher, const char *option) {
    /* -c of taskset names the processors by a list in the mask's place. */
    return strcmp(launcher->name, "taskset") == 0 && strncmp(option, "-c", 2) == 0 && option[2];
}

struct launch launcher_read(const struct launcher *launcher, char *const *arguments) {
    struct launch launch = {.command = NULL};
    size_t words = launcher->words;
    bool doubtful = false;
    char *const *word = arguments;
    while (word && *word) {
        bool known = true;
        launch.unsets = launch.unsets || takes_preload_away(launcher, word);
        if (strcmp(launcher->name, "env") == 0 &&
            (strncmp(*word, "-S", 2) == 0 || strncmp(*word, "--split-string", 14) == 0)) {
            launch.splits = true;
            return launch;
        }
        if (strcmp(*word, "--") == 0) {
            word++;
            if (!words)
                break;
        } else if (launcher->kind == LAUNCHER_PYTHON && strcmp(*word, "-m") == 0) {
            launch.is_module = true;
            word++;
        } else if (**word == '-') {
            if (starts_list(launcher, *word))
                words = 0;
            size_t values = count_values(launcher, *word, &known);
            doubtful = doubtful || !known;
            word++;
            while (values-- && *word)
                word++;
        } else if (is_assignment(launcher, *word)) {
            word++;
        } else if (words) {
            words--;
            word++;
        } else {
            break;
        }
    }
    if (!word || !*word)
        return launch;
    if (doubtful && launcher->kind != LAUNCHER_PYTHON)
        word = pass_values(word);
    launch.command = word;
    while (word[launch.length] && strcmp(word[launch.length], ":") != 0)
        launch.length++;
    if (word[launch.length])
        launch.rest = word + launch.length + 1;
    return launch;
}
