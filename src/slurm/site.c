#include "slurm/site.h"

#include "base/format.h"
#include "cli/preload.h"
#include "slurm/settings.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The value of the argument if it has that name, else NULL. */
static const char *value_of(const char *argument, const char *name) {
    size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1
                                                                           : NULL;
}

static bool read_path(const char *argument, const char *name, const char **path, char *error,
                      size_t size) {
    *path = value_of(argument, name);
    if (**path == '/' && !(*path)[strcspn(*path, " :")])
        return true;
    format(error, size, "plugstack.conf: %s: expected an absolute path without spaces and colons",
           argument);
    return false;
}

static bool read_argument(struct site *site, const char *argument, char *error, size_t size) {
    const char *value;
    if (value_of(argument, "library"))
        return read_path(argument, "library", &site->library, error, size);
    if (value_of(argument, "command"))
        return read_path(argument, "command", &site->command, error, size);
    if ((value = value_of(argument, "folder"))) {
        site->folder = value;
        if (*value)
            return true;
        format(error, size, "plugstack.conf: folder=: expected the path of a folder");
        return false;
    }
    if ((value = value_of(argument, "allow"))) {
        site->allowed = value;
        if (value[strspn(value, ",@")])
            return true;
        format(error, size, "plugstack.conf: allow=%.64s: expected USER,@GROUP,...", value);
        return false;
    }
    if ((value = value_of(argument, "preset"))) {
        char problem[SETTINGS_ERROR];
        site->preset = value;
        if (settings_check_preset(value, problem, sizeof problem))
            return true;
        format(error, size, "plugstack.conf: preset=%.64s: %s", value, problem);
        return false;
    }
    format(
        error, size,
        "plugstack.conf: %.64s: expected library=PATH, command=PATH, folder=PATH, preset=NAME or "
        "allow=USER,@GROUP,...",
        argument);
    return false;
}

bool site_read(struct site *site, int count, char *const *arguments, char *error, size_t size) {
    *site = (struct site){.library = POOLCUDA_SLURM_LIBRARY,
                          .command = POOLCUDA_SLURM_COMMAND,
                          .folder = "poolcuda-figures"};
    for (int i = 0; i < count; i++)
        if (!read_argument(site, arguments[i], error, size))
            return false;
    if (preload_can_hold(site->library))
        return true;
    format(error, size,
           "%s: LD_PRELOAD cannot hold a path with spaces or colons; expected "
           "library=PATH in plugstack.conf",
           site->library);
    return false;
}

static bool am_in_group(const char *name) {
    const struct group *group = getgrnam(name);
    int count = group ? getgroups(0, NULL) : -1;
    bool found = group && getegid() == group->gr_gid;
    gid_t *mine = count > 0 ? malloc((size_t)count * sizeof *mine) : NULL;
    count = mine ? getgroups(count, mine) : 0;
    for (int i = 0; i < count; i++)
        found = found || mine[i] == group->gr_gid;
    free(mine);
    return found;
}

bool site_allows_me(const struct site *site) {
    if (!site->allowed)
        return true;
    const struct passwd *entry = getpwuid(getuid());
    char *names = strdup(site->allowed), *rest = names, *name, *me = NULL;
    bool allowed = false;
    if (entry)
        me = strdup(entry->pw_name);
    while (rest && (name = strsep(&rest, ",")))
        allowed = allowed || (*name == '@' ? am_in_group(name + 1) : me && strcmp(name, me) == 0);
    free(me);
    free(names);
    return allowed;
}
