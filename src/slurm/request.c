#include "slurm/request.h"

#include "base/format.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void request_clear(void) {
    static const char *const names[] = {REQUEST_FOLDER, REQUEST_STEP, REQUEST_TOKEN, REQUEST_PRESET,
                                        REQUEST_SET};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

struct step_name step_name(unsigned job, unsigned step, unsigned restarts) {
    struct step_name name;
    if (restarts)
        format(name.text, sizeof name.text, "%u.%u.restart%u", job, step, restarts);
    else
        format(name.text, sizeof name.text, "%u.%u", job, step);
    return name;
}

struct step_name step_name_unused(const char *folder, struct step_name name) {
    enum { AGAIN_MOST = 1000 };
    char path[OPTION_PATH_MAX + sizeof name];
    struct step_name chosen = name;
    struct stat status;
    for (int again = 1; again <= AGAIN_MOST; again++) {
        format(path, sizeof path, "%s/%s", folder, chosen.text);
        if (lstat(path, &status) != 0)
            return chosen;
        format(chosen.text, sizeof chosen.text, "%.40s.again%d", name.text, again);
    }
    return name;
}

enum { LINK_MOST = OPTION_PATH_MAX + 128 };

static void link_path(char path[LINK_MOST], const char *folder, struct step_name name,
                      const char *token) {
    format(path, LINK_MOST, "%s/.%s-%.40s", folder, name.text, token);
}

/* What the link says, or the name. */
static struct step_name read_link(const char *path, struct step_name name) {
    struct step_name chosen;
    ssize_t length = readlink(path, chosen.text, sizeof chosen.text - 1);
    if (length <= 0)
        return name;
    chosen.text[length] = '\0';
    return strchr(chosen.text, '/') ? name : chosen;
}

struct step_name step_name_agreed(const char *folder, struct step_name name, const char *token) {
    char path[LINK_MOST];
    struct step_name chosen = step_name_unused(folder, name);
    link_path(path, folder, name, token);
    return symlink(chosen.text, path) == 0 ? chosen : read_link(path, name);
}

struct step_name step_name_learned(const char *folder, struct step_name name, const char *token) {
    char path[LINK_MOST];
    link_path(path, folder, name, token);
    struct step_name chosen = read_link(path, name);
    unlink(path);
    return chosen;
}
