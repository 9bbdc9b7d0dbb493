#include "slurm/task.h"

#include "base/format.h"
#include "cli/preload.h"
#include "options/options.h"
#include "slurm/line.h"
#include "slurm/request.h"

#include <errno.h>
#include <slurm/slurm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VALUE_SIZE = 512 * 1024 }; /* of a variable: every setting, each as long as it may be */

/* Which task of which step this is. */
struct place {
    uint32_t job, step, restarts, rank;
};

/* What srun asks of it. Copies; NULL: not set. */
struct request {
    char *folder, *step, *token, *preset, *settings;
};

/* A number of the task's environment. */
static uint32_t number(spank_t spank, const char *name, uint32_t otherwise) {
    char text[32], *end;
    if (spank_getenv(spank, name, text, sizeof text) != ESPANK_SUCCESS)
        return otherwise;
    unsigned long value = strtoul(text, &end, 10);
    return end > text ? (uint32_t)value : otherwise;
}

/* The components of a heterogeneous step have jobs of their own: in the environment is that of the
 * first, which srun knows, and ranks are numbered across all of them. */
static struct place place_of(spank_t spank) {
    struct place place = {.step = NO_VAL};
    uint32_t job;
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &place.step) != ESPANK_SUCCESS) {
        place.step = NO_VAL;
        return place;
    }
    place.job = number(spank, "SLURM_JOB_ID", job);
    place.rank = number(spank, "SLURM_PROCID", 0);
    /* Slurm itself knows it of a job's script alone, whose steps inherit the variable. */
    place.restarts = number(spank, "SLURM_RESTART_COUNT", 0);
    return place;
}

/* Whether it is a step that srun has started: a job's script, a shell of salloc's and what holds a
 * job's place are steps as well. */
static bool is_users_step(uint32_t step) {
    return step < SLURM_INTERACTIVE_STEP;
}

/* Tells the user once, however many tasks and nodes there are: the others meet what the first one
 * has met. What another node alone lacks is in the step's last line: fewer ranks. */
static void tell(const struct place *place, const char *what, const char *why) {
    if (place->rank == 0)
        tell_line("%s: %s; this step runs unpooled", what, why);
}

/* Takes a variable of the request away. Returns a copy of its value, NULL if there is none. */
static char *take(spank_t spank, const char *name) {
    char *value = malloc(VALUE_SIZE);
    if (!value || spank_getenv(spank, name, value, VALUE_SIZE) != ESPANK_SUCCESS) {
        free(value);
        value = NULL;
    }
    spank_unsetenv(spank, name);
    return value;
}

/* Makes a folder if there is none. 0 or an errno. */
static int make_folder(const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return access(path, W_OK | X_OK) == 0 ? 0 : errno;
    return errno;
}

/* Whether it is a folder of this user's. In one that all may write to, another user may have put a
 * link there, to where this one's files should not go. */
static bool is_mine(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

/* The step's folder, made; false, and the user knows, if that cannot be done. */
static bool make_folders(const struct place *place, const struct request *request, char *path,
                         size_t size) {
    /* What srun chooses would reach one component of a heterogeneous step alone. */
    struct step_name name = step_name(place->job, place->step, place->restarts);
    int fault = make_folder(request->folder);
    if (!fault && !request->step && request->token)
        name = step_name_agreed(request->folder, name, request->token);
    if (!fault && format(path, size, "%s/%s", request->folder,
                         request->step ? request->step : name.text) >= (int)size)
        fault = ENAMETOOLONG;
    const char *at = request->folder;
    if (!fault) {
        fault = make_folder(path);
        /* One that is not there could not be made in the folder above it, which is named then. */
        at = fault && access(path, F_OK) == 0 ? path : at;
    }
    if (fault)
        tell(place, at, strerror(fault));
    else if (!is_mine(path))
        tell(place, path, "another user has made it, or it is a link");
    else
        return true;
    return false;
}

/* The name of the figures' files: a percent sign of the folder's is doubled. */
static bool file_pattern(const char *folder, char *pattern, size_t size) {
    static const char name[] = "/rank%r.json";
    size_t length = 0;
    for (; *folder && length + 2 < size; folder++) {
        if (*folder == '%')
            pattern[length++] = '%';
        pattern[length++] = *folder;
    }
    if (*folder || length + sizeof name > size)
        return false;
    memcpy(pattern + length, name, sizeof name);
    return true;
}

static void set_all(spank_t spank, char *settings) {
    char *setting, *rest = settings;
    while (rest && (setting = strsep(&rest, "\n"))) {
        char *equals = strchr(setting, '=');
        if (!equals)
            continue;
        *equals = '\0';
        spank_setenv(spank, setting, equals + 1, 1);
    }
}

/* 0, or an errno: the value has no room, there is no memory; the program's own libraries then stay
 * as they are. */
static int set_preload(spank_t spank, const char *library) {
    const size_t most = 32 * (size_t)sysconf(_SC_PAGESIZE) - sizeof "LD_PRELOAD="; /* execve(2) */
    char *before = malloc(VALUE_SIZE), *value = NULL;
    if (!before)
        return ENOMEM;
    spank_err_t found = spank_getenv(spank, "LD_PRELOAD", before, VALUE_SIZE);
    if (found == ESPANK_ENV_NOEXIST)
        *before = '\0';
    if (found == ESPANK_SUCCESS || found == ESPANK_ENV_NOEXIST)
        value = preload_value_of(before, library);
    int fault = !value ? ENOMEM : strlen(value) > most ? E2BIG : 0;
    if (!fault)
        spank_setenv(spank, "LD_PRELOAD", value, 1);
    free(value);
    free(before);
    return fault;
}

static void pool(spank_t spank, const struct site *site, const struct place *place,
                 const struct request *request) {
    char path[OPTION_PATH_MAX], pattern[OPTION_PATH_MAX];
    if (access(site->library, R_OK) != 0) {
        tell(place, site->library, strerror(errno));
        return;
    }
    if (!make_folders(place, request, path, sizeof path))
        return;
    if (!file_pattern(path, pattern, sizeof pattern)) {
        tell(place, request->folder, strerror(ENAMETOOLONG));
        return;
    }
    int fault = set_preload(spank, site->library);
    if (fault) {
        tell(place, "LD_PRELOAD", strerror(fault));
        return;
    }
    if (request->preset)
        spank_setenv(spank, "POOLCUDA_PRESET", request->preset, 1);
    set_all(spank, request->settings);
    spank_setenv(spank, "POOLCUDA_STATS", "file", 1); /* text is added up nowhere */
    spank_setenv(spank, "POOLCUDA_STATS_FILE", pattern, 1);
}

void task_prepare(spank_t spank, const struct site *site, const char *problem) {
    struct place place = place_of(spank);
    struct request request = {
        .folder = take(spank, REQUEST_FOLDER),
        .step = take(spank, REQUEST_STEP),
        .token = take(spank, REQUEST_TOKEN),
        .preset = take(spank, REQUEST_PRESET),
        .settings = take(spank, REQUEST_SET),
    };
    if (request.folder && is_users_step(place.step)) {
        if (site)
            pool(spank, site, &place, &request);
        else
            tell(&place, "this node", problem);
    }
    free(request.folder);
    free(request.step);
    free(request.token);
    free(request.preset);
    free(request.settings);
}
