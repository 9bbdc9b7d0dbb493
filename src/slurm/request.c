#include "slurm/request.h"

#include "format.h"
#include "options.h"

#include <stdlib.h>
#include <sys/stat.h>

void request_clear(void) {
    static const char *const names[] = {REQUEST_FOLDER, REQUEST_STEP, REQUEST_PRESET, REQUEST_SET};
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
