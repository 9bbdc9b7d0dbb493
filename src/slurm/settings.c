#include "slurm/settings.h"

#include "base/format.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The first line that the parser has said since this was emptied. */
static char said[SETTINGS_ERROR];

static void note(const char *line) {
    if (!*said)
        format(said, sizeof said, "%s", line);
}

/* Whether the table takes NAME=VALUE. The parser's line says behind what is wrong what the library
 * would do instead, which does not happen here. */
static bool table_takes(const char *setting, char *error, size_t size) {
    static const char prefix[] = "poolcuda: ";
    static const char *const instead[] = {", using ", " Ignored", "; ignored"};
    char *entry = strdup(setting);
    char *const environment[] = {entry, NULL};
    struct options options;
    *said = '\0';
    options_parse(&options, environment, note);
    free(entry);
    for (size_t i = 0; i < sizeof instead / sizeof instead[0]; i++) {
        char *end = strstr(said, instead[i]);
        if (end)
            *end = '\0';
    }
    if (*said)
        format(error, size, "%s",
               strncmp(said, prefix, sizeof prefix - 1) == 0 ? said + sizeof prefix - 1 : said);
    return !*said;
}

bool settings_check_preset(const char *name, char *error, size_t size) {
    char setting[128];
    if (*name && format(setting, sizeof setting, "POOLCUDA_PRESET=%s", name) < (int)sizeof setting)
        return table_takes(setting, error, size);
    format(error, size, "expected the name of a preset");
    return false;
}

bool settings_take_preset(struct settings *settings, const char *name, char *error, size_t size) {
    settings->asked = true;
    if (!name)
        return true;
    char problem[SETTINGS_ERROR];
    if (!settings_check_preset(name, problem, sizeof problem)) {
        format(error, size, "--poolcuda=%.64s: %s", name, problem);
        return false;
    }
    free(settings->preset);
    settings->preset = strdup(name);
    return true;
}

bool settings_take_folder(struct settings *settings, const char *path, char *error, size_t size) {
    enum { SHOWN = 200, ROOM = 128 }; /* room: for where srun is meant from, and the files' names */
    struct stat status;
    settings->asked = true;
    if (!path || !*path || strlen(path) >= OPTION_PATH_MAX / 2 - ROOM || strchr(path, '\n')) {
        format(error, size, "--poolcuda-stats=%.*s: expected the path of a folder", SHOWN,
               path ? path : "");
        return false;
    }
    if (stat(path, &status) == 0 && !S_ISDIR(status.st_mode)) {
        format(error, size, "--poolcuda-stats=%.*s: is no folder, expected one", SHOWN, path);
        return false;
    }
    free(settings->folder);
    settings->folder = strdup(path);
    return true;
}

/* Whether it says where the figures go, or that they are text, which is added up nowhere. */
static bool is_of_figures(const char *setting) {
    static const char *const names[] = {"POOLCUDA_STATS=", "POOLCUDA_STATS_FILE="};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        found = found || strncmp(setting, names[i], strlen(names[i])) == 0;
    return found;
}

bool settings_take_set(struct settings *settings, const char *setting, char *error, size_t size) {
    static const char prefix[] = "POOLCUDA_";
    enum { SHOWN = 100 };
    const char *equals = setting ? strchr(setting, '=') : NULL;
    char problem[SETTINGS_ERROR];
    settings->asked = true;
    if (!equals || strncmp(setting, prefix, sizeof prefix - 1) != 0 || strchr(setting, '\n'))
        format(problem, sizeof problem, "expected POOLCUDA_NAME=VALUE");
    else if (is_of_figures(setting))
        format(problem, sizeof problem, "expected --poolcuda-stats=DIR for the files of figures");
    else if (settings->count == SETTINGS_MOST)
        format(problem, sizeof problem, "expected at most %d settings", SETTINGS_MOST);
    else if (table_takes(setting, problem, sizeof problem)) {
        size_t length = (size_t)(equals + 1 - setting), at = 0;
        while (at < settings->count && strncmp(settings->set[at], setting, length) != 0)
            at++;
        if (at == settings->count)
            settings->count++;
        else
            free(settings->set[at]);
        settings->set[at] = strdup(setting);
        return true;
    }
    format(error, size, "--poolcuda-set=%.*s: %s", SHOWN, setting ? setting : "", problem);
    return false;
}
