#include "cli/doctor/launchers.h"

#include "cli/doctor/script.h"
#include "cli/doctor/shell_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct launcher launchers[] = {
#define LAUNCHER(name, kind, words, values) {#name, kind, words, values},
#include "cli/doctor/launchers.def"
#undef LAUNCHER
};

/* What Debian puts behind mpirun and mpiexec, and the system behind ld-linux-x86-64. */
static bool is_suffix(const char *text) {
    static const char *const names[] = {"",      ".openmpi", ".mpich", ".hydra",
                                        ".so.1", ".so.2",    ".bin"};
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

/* NAME=VALUE, or NAME to be without it. */
static void add_setting(struct launch *launch, const char *name, size_t length, const char *value) {
    char *setting = NULL;
    if (launch->setting_count == LAUNCH_SETTINGS || !length)
        return;
    if (value ? asprintf(&setting, "%.*s=%s", (int)length, name, value) < 0
              : !(setting = strndup(name, length)))
        return;
    launch->settings[launch->setting_count++] = setting;
    if (length == strlen("LD_PRELOAD") && strncmp(name, "LD_PRELOAD", length) == 0) {
        bool keeps = value && strstr(value, "libpoolcuda");
        launch->unsure = !keeps && value && strchr(value, SHELL_UNKNOWN);
        launch->unsets = !keeps && !launch->unsure;
    } else if (memchr(name, SHELL_UNKNOWN, length)) {
        launch->unsure = true;
    }
}

static void add_assignment(struct launch *launch, const char *word) {
    const char *sign = strchr(word, '=');
    if (sign)
        add_setting(launch, word, (size_t)(sign - word), sign + 1);
}

/* The words of the text behind env's -S, with `rest` behind them; NULL if they cannot be known. */
static char **split_text(const char *text, char *const *rest) {
    size_t room = strlen(text) + 2, count = 0, behind = 0;
    while (rest && rest[behind])
        behind++;
    char **words = calloc(room + behind, sizeof *words);
    if (!words || strpbrk(text, "$\\#")) {
        free(words);
        return NULL;
    }
    while (*(text += strspn(text, " \t\n\v\f\r"))) {
        char *word = calloc(1, strlen(text) + 1);
        size_t length = 0;
        char quote = '\0';
        for (; word && *text && (quote || !strchr(" \t\n\v\f\r", *text)); text++) {
            if (quote ? *text == quote : *text == '"' || *text == '\'')
                quote = quote ? '\0' : *text;
            else
                word[length++] = *text;
        }
        if (!word)
            break;
        words[count++] = word;
    }
    for (size_t i = 0; i < behind; i++)
        if ((words[count] = strdup(rest[i])))
            count++;
    return words;
}

/* The value of a long option of env's, behind "=" or in the next word; NULL if it is another. */
static const char *long_value(char *const **word, const char *name) {
    size_t length = strlen(name);
    if (strncmp(**word, name, length) != 0 || ((**word)[length] && (**word)[length] != '='))
        return NULL;
    if ((**word)[length])
        return **word + length + 1;
    if ((*word)[1])
        (*word)++;
    return **word;
}

static void split_here(struct launch *launch, char *const **word, const char *text) {
    char **words = launch->split ? NULL : split_text(text, *word + 1);
    launch->splits = !words;
    launch->split = words ? words : launch->split;
    static char *const none[] = {NULL, NULL};
    *word = words ? words : none;
}

/* One option of env's; leaves `word` at the next word. Letters may stand together, the value of the
 * last one behind it or in the next word. */
static void read_env_option(struct launch *launch, char *const **word) {
    const char *value;
    if (strcmp(**word, "-") == 0 || strcmp(**word, "--ignore-environment") == 0) {
        launch->unsets = true;
    } else if ((value = long_value(word, "--unset"))) {
        add_setting(launch, value, strlen(value), NULL);
    } else if ((value = long_value(word, "--chdir"))) {
        launch->folder = value;
    } else if ((value = long_value(word, "--split-string"))) {
        split_here(launch, word, value);
        return;
    } else if (strncmp(**word, "--", 2) != 0) {
        for (const char *letter = **word + 1; *letter; letter++) {
            launch->unsets = launch->unsets || *letter == 'i';
            if (!strchr("uCSa", *letter))
                continue;
            value = letter[1] ? letter + 1 : (*word)[1];
            if (!letter[1] && value)
                (*word)++;
            if (*letter == 'S' && value) {
                split_here(launch, word, value);
                return;
            }
            if (*letter == 'u' && value)
                add_setting(launch, value, strlen(value), NULL);
            launch->folder = *letter == 'C' ? value : launch->folder;
            break;
        }
    }
    (*word)++;
}

/* srun's --export: NONE, or names and settings, with ALL for the rest. */
static void read_export(struct launch *launch, const char *list) {
    bool all = false, named = false;
    for (; *list; list += *list == ',') {
        size_t length = strcspn(list, ",");
        char *part = strndup(list, length);
        all = all || (part && strcmp(part, "ALL") == 0);
        named = named || (part && strcmp(part, "LD_PRELOAD") == 0);
        if (part)
            add_assignment(launch, part);
        free(part);
        list += length;
    }
    launch->unsets = launch->unsets || !(all || named);
}

/* What an option of another launcher's does to the program's environment and folder. */
static void read_setting(const struct launcher *launcher, struct launch *launch,
                         char *const *word) {
    static const char *const folders[] = {"-wdir", "--wdir", "-wd", "--wd", NULL};
    const char *name = launcher->name, *value = word[1];
    bool mpi = strncmp(name, "mpi", 3) == 0 || strcmp(name, "orterun") == 0 ||
               strcmp(name, "prterun") == 0 || strcmp(name, "oshrun") == 0;
    if (strcmp(name, "srun") == 0 && strncmp(*word, "--export=", 9) == 0)
        read_export(launch, *word + 9);
    if (!value)
        return;
    if (strcmp(name, "srun") == 0 && strcmp(*word, "--export") == 0)
        read_export(launch, value);
    if ((mpi && strcmp(*word, "-x") == 0) ||
        (strcmp(name, "strace") == 0 && strcmp(*word, "-E") == 0) ||
        (strcmp(name, "jsrun") == 0 && (strcmp(*word, "-E") == 0 || strcmp(*word, "--env") == 0)) ||
        (strcmp(name, "nsys") == 0 &&
         (strcmp(*word, "-e") == 0 || strcmp(*word, "--env-var") == 0)))
        add_assignment(launch, value);
    if (strcmp(name, "strace") == 0 && strcmp(*word, "-E") == 0 && !strchr(value, '='))
        add_setting(launch, value, strlen(value), NULL);
    if (mpi && (strcmp(*word, "-env") == 0 || strcmp(*word, "-genv") == 0) && word[2])
        add_setting(launch, value, strlen(value), word[2]);
    for (size_t i = 0; mpi && folders[i]; i++)
        launch->folder = strcmp(*word, folders[i]) == 0 ? value : launch->folder;
}

/* NAME=VALUE before the program. */
static bool is_assignment(const struct launcher *launcher, const char *word) {
    bool takes = strcmp(launcher->name, "env") == 0 || launcher->kind == LAUNCHER_STRIPS;
    return takes && strchr(word, '=') && *word != '=';
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

/* Programs with a ":" between them. */
bool launcher_starts_several(const struct launcher *launcher) {
    static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun",
                                        "oshrun", "srun",    "aprun",   "jsrun"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(launcher->name, names[i]) == 0)
            return true;
    return false;
}

static bool ends_part(const struct launcher *launcher, const char *word) {
    return strcmp(word, ":") == 0 && launcher_starts_several(launcher);
}

/* Behind -exec and its like; NULL if there is none. */
static char *const *find_action(char *const *word) {
    static const char *const names[] = {"-exec", "-execdir", "-ok", "-okdir"};
    for (; word && *word; word++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strcmp(*word, names[i]) == 0)
                return word + 1;
    return NULL;
}

/* Whether the next word is a text for a shell. */
static bool takes_text(const struct launcher *launcher, const char *option) {
    return strcmp(launcher->name, "flock") == 0 &&
           (strcmp(option, "-c") == 0 || strcmp(option, "--command") == 0);
}

struct launch launcher_read(const struct launcher *launcher, char *const *arguments) {
    struct launch launch = {.command = NULL};
    size_t words = launcher->words;
    bool doubtful = false;
    char *const *word = launcher->kind == LAUNCHER_FINDS ? find_action(arguments) : arguments;
    while (word && *word && launcher->kind != LAUNCHER_FINDS) {
        bool known = true;
        if (takes_text(launcher, *word) && word[1]) {
            launch.is_text = true;
            launch.command = word + 1;
            launch.length = 1;
            return launch;
        }
        if (strcmp(*word, "--") == 0) {
            word++;
            if (!words)
                break;
        } else if (launcher->kind == LAUNCHER_PYTHON && strcmp(*word, "-m") == 0) {
            launch.is_module = true;
            word++;
        } else if (**word == '-' && strcmp(launcher->name, "env") == 0) {
            read_env_option(&launch, &word);
        } else if (**word == '-') {
            read_setting(launcher, &launch, word);
            if (starts_list(launcher, *word))
                words = 0;
            size_t values = count_values(launcher, *word, &known);
            doubtful = doubtful || !known;
            word++;
            while (values-- && *word)
                word++;
        } else if (is_assignment(launcher, *word)) {
            if (launcher->kind != LAUNCHER_STRIPS)
                add_assignment(&launch, *word);
            word++;
        } else if (words) {
            words--;
            word++;
        } else {
            break;
        }
    }
    if (!word || !*word || ends_part(launcher, *word))
        return launch;
    if (doubtful && launcher->kind != LAUNCHER_PYTHON)
        word = pass_values(word);
    launch.command = word;
    while (word[launch.length] && !ends_part(launcher, word[launch.length]))
        launch.length++;
    char *const *rest = word + launch.length;
    while (*rest && ends_part(launcher, *rest)) /* what is empty in between is passed over */
        rest++;
    if (*rest)
        launch.rest = rest;
    return launch;
}

void launch_free(struct launch *launch) {
    for (size_t i = 0; i < launch->setting_count; i++)
        free(launch->settings[i]);
    for (size_t i = 0; launch->split && launch->split[i]; i++)
        free(launch->split[i]);
    free(launch->split);
    *launch = (struct launch){.command = NULL};
}
