/* poolcuda_spank.so: srun --poolcuda pools a step's tasks, and nothing else.
 *
 * In srun: options are checked, and what is asked for is put into the step's environment; when the
 * step has ended, its figures are added up. In slurmstepd, between a task's fork and its program's
 * start: the task's environment is set. In slurmstepd, when its tasks have ended: figures that are
 * not in their files yet are put there. Neither of the two processes preloads anything itself. */
#include "base/format.h"
#include "options/options.h"
#include "slurm/line.h"
#include "slurm/request.h"
#include "slurm/rescue.h"
#include "slurm/settings.h"
#include "slurm/site.h"
#include "slurm/summary.h"
#include "slurm/task.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(default)
SPANK_PLUGIN(poolcuda, 1)
#pragma GCC visibility pop

enum { STEPS_MOST = 64, FOLDER_MOST = OPTION_PATH_MAX - 128 };

/* What this process knows, srun or slurmstepd. Invariant: site is read if usable. */
static struct {
    bool usable;
    struct site site;
    char problem[2 * SETTINGS_ERROR]; /* why it is not usable */
    struct settings settings;
    char folder[OPTION_PATH_MAX]; /* absolute; "" where no step is pooled */
    char token[40];               /* of this srun alone */
    struct step {
        struct step_name name, folder; /* as its job is called; as its folder is */
        unsigned tasks;
        bool heterogeneous; /* its tasks choose the folder, which is known at the end */
    } steps[STEPS_MOST];
    size_t step_count;
    bool pooled; /* in slurmstepd: its step is */
    struct rescue_user user;
    uint32_t tasks, ended; /* of this node */
} own;

/* Steps may be launched by threads. */
static pthread_mutex_t steps_lock = PTHREAD_MUTEX_INITIALIZER;

/* Ends srun, which has started nothing yet, with one line. Returned to, it would add one of its
 * own. */
static _Noreturn void refuse(const char *error) {
    tell_line("%s; nothing was started", error);
    exit(1);
}

typedef bool taker(struct settings *settings, const char *value, char *error, size_t size);

/* remote: slurmstepd hears of the options as well, but takes what srun has made of them. */
static int take(taker *taken, const char *value, int remote) {
    char error[2 * SETTINGS_ERROR];
    if (!remote && own.usable && !taken(&own.settings, value, error, sizeof error))
        refuse(error);
    return 0;
}

static int take_preset(int option, const char *value, int remote) {
    (void)option;
    return take(settings_take_preset, value, remote);
}

static int take_folder(int option, const char *value, int remote) {
    (void)option;
    return take(settings_take_folder, value, remote);
}

static int take_set(int option, const char *value, int remote) {
    (void)option;
    return take(settings_take_set, value, remote);
}

/* Slurm does not write to these texts. */
static struct spank_option options[] = {
    {(char *)"poolcuda", (char *)"[preset]",
     (char *)"pool the device memory of this step's tasks (poolcuda_spank(8))", 2, 0, take_preset},
    {(char *)"poolcuda-stats", (char *)"DIR",
     (char *)"the folder for one file of figures from each rank; implies --poolcuda", 1, 0,
     take_folder},
    {(char *)"poolcuda-set", (char *)"NAME=VALUE",
     (char *)"set an option of the library, may be repeated; implies --poolcuda", 1, 0, take_set},
};

int slurm_spank_init(spank_t spank, int count, char **arguments) {
    spank_context_t context = spank_context();
    if (context != S_CTX_LOCAL && context != S_CTX_REMOTE)
        return 0;
    own.usable = site_read(&own.site, count, arguments, own.problem, sizeof own.problem);
    if (!own.usable && context == S_CTX_LOCAL)
        tell_line("%s; no step is pooled", own.problem);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        spank_option_register(spank, &options[i]);
    return 0;
}

/* The folder as an absolute path. False if it would not leave room for the names in it. */
static bool make_absolute(const char *folder) {
    char here[OPTION_PATH_MAX / 2];
    if (*folder == '/')
        return format(own.folder, sizeof own.folder, "%s", folder) < FOLDER_MOST;
    return getcwd(here, sizeof here) &&
           format(own.folder, sizeof own.folder, "%s/%s", here, folder) < FOLDER_MOST;
}

/* Puts what is asked for into the environment that the tasks get. */
static void ask_tasks(void) {
    const struct settings *settings = &own.settings;
    const char *preset = settings->preset ? settings->preset : own.site.preset;
    struct timespec now;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; out && i < settings->count; i++)
        fprintf(out, "%s%s", i ? "\n" : "", settings->set[i]);
    if (out && fclose(out) == 0 && *text)
        setenv(REQUEST_SET, text, 1);
    free(text);
    if (preset)
        setenv(REQUEST_PRESET, preset, 1);
    setenv(REQUEST_FOLDER, own.folder, 1);
    clock_gettime(CLOCK_REALTIME, &now);
    format(own.token, sizeof own.token, "%llx.%lx.%x", (unsigned long long)now.tv_sec, now.tv_nsec,
           (unsigned)getpid());
    setenv(REQUEST_TOKEN, own.token, 1);
}

int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments) {
    char error[SETTINGS_ERROR];
    const struct settings *settings = &own.settings;
    const char *folder = settings->folder ? settings->folder : own.site.folder;
    (void)spank, (void)count, (void)arguments;
    if (spank_context() != S_CTX_LOCAL)
        return 0;
    request_clear();
    if (!settings->asked || !own.usable)
        return 0;
    if (!site_allows_me(&own.site)) {
        const struct passwd *entry = getpwuid(getuid());
        format(error, sizeof error, "--poolcuda: the site does not allow it to %s, but to %.200s",
               entry ? entry->pw_name : "you", own.site.allowed);
        refuse(error);
    }
    if (!make_absolute(folder)) {
        format(error, sizeof error,
               "the path of the folder %.200s is too long here; expected --poolcuda-stats=DIR with "
               "one of less than %d bytes",
               folder, FOLDER_MOST);
        refuse(error);
    }
    ask_tasks();
    return 0;
}

/* A step that is about to start. Its folder is chosen here, and its tasks will know it; but in a
 * heterogeneous job, where they might not, they choose it. */
static void note_step(struct step_name name, unsigned tasks, bool heterogeneous) {
    pthread_mutex_lock(&steps_lock);
    size_t at = 0;
    while (at < own.step_count && strcmp(own.steps[at].name.text, name.text) != 0)
        at++;
    if (at < STEPS_MOST) {
        struct step *step = &own.steps[at];
        if (at == own.step_count) {
            step->name = name;
            step->folder = heterogeneous ? name : step_name_unused(own.folder, name);
            own.step_count++;
        }
        step->tasks = tasks;
        step->heterogeneous = heterogeneous;
        if (!heterogeneous)
            setenv(REQUEST_STEP, step->folder.text, 1);
    }
    pthread_mutex_unlock(&steps_lock);
}

/* A number of this process's environment. */
static unsigned number(const char *name, unsigned otherwise) {
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/* In srun, for a step that is about to start: of one with several components for the one whose
 * thread comes first, whose job and tasks the items are. The first component's job is in the
 * environment, for the tasks as well, and so is how many tasks all of them have. */
int slurm_spank_local_user_init(spank_t spank, int count, char **arguments) {
    uint32_t job, step, tasks = 0;
    bool heterogeneous = getenv("SLURM_HET_SIZE") != NULL;
    (void)count, (void)arguments;
    if (!*own.folder || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
        return 0;
    if (spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS)
        tasks = 0;
    if (heterogeneous) {
        job = number("SLURM_JOB_ID", job);
        tasks = number("SLURM_NTASKS", tasks);
    }
    /* Slurm's, and told to this side of a plugin in no other way; tasks ask for the item. */
    note_step(step_name(job, step, number("SLURM_RESTART_COUNT", 0)), tasks, heterogeneous);
    return 0;
}

/* In slurmstepd, before its tasks are started. */
int slurm_spank_user_init(spank_t spank, int count, char **arguments) {
    char folder[OPTION_PATH_MAX];
    gid_t *groups;
    int group_count;
    (void)count, (void)arguments;
    own.pooled = own.usable &&
                 spank_getenv(spank, REQUEST_FOLDER, folder, sizeof folder) == ESPANK_SUCCESS &&
                 spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &own.tasks) == ESPANK_SUCCESS &&
                 spank_get_item(spank, S_JOB_UID, &own.user.user) == ESPANK_SUCCESS &&
                 spank_get_item(spank, S_JOB_GID, &own.user.group) == ESPANK_SUCCESS;
    if (own.pooled &&
        spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &group_count) == ESPANK_SUCCESS) {
        own.user.groups = groups;
        own.user.group_count = (size_t)group_count;
    }
    return 0;
}

/* In slurmstepd, before srun hears that the node has no task left: what srun reads then is to
 * be there. */
int slurm_spank_task_exit(spank_t spank, int count, char **arguments) {
    (void)spank, (void)count, (void)arguments;
    if (own.pooled && ++own.ended == own.tasks)
        rescue_figures(own.site.command, &own.user);
    return 0;
}

int slurm_spank_task_init(spank_t spank, int count, char **arguments) {
    (void)count, (void)arguments;
    task_prepare(spank, own.usable ? &own.site : NULL, own.problem);
    return 0;
}

/* Whether tasks that see what this process sees could have made the step's folder, which is not
 * there: tried by making it. If not, one of them has told the user why. */
static bool could_pool_here(const char *path) {
    bool made = mkdir(own.folder, 0700) == 0, could = false;
    if (access(own.site.library, R_OK) == 0 && mkdir(path, 0700) == 0)
        could = rmdir(path) == 0;
    if (made)
        rmdir(own.folder);
    return could;
}

static bool is_empty(const char *folder) {
    DIR *stream = opendir(folder);
    size_t entries = 0;
    while (stream && readdir(stream))
        entries++;
    if (stream)
        closedir(stream);
    return entries <= 2; /* itself and the one above */
}

/* The path as a shell takes it for one word. Control characters are the line's affair. */
static void quote(const char *path, char *quoted, size_t size) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+,:@%=";
    size_t length = 0;
    if (!path[strspn(path, plain)]) {
        format(quoted, size, "%s", path);
        return;
    }
    quoted[length++] = '\'';
    for (; *path && length + sizeof "'\\''" + 1 < size; path++) {
        if (*path == '\'')
            length += (size_t)format(quoted + length, size - length, "'\\''");
        else
            quoted[length++] = *path;
    }
    quoted[length++] = '\'';
    quoted[length] = '\0';
}

/* What tells of a step, behind its name. */
static void tell_step(const struct step *step) {
    char line[1024], path[OPTION_PATH_MAX + sizeof step->folder], name[128];
    char quoted[2 * sizeof path];
    const char *command = own.site.command;
    format(path, sizeof path, "%s/%s", own.folder, step->folder.text);
    format(name, sizeof name, "step %s", step->name.text);
    if (access(path, R_OK | X_OK) != 0) {
        if (could_pool_here(path))
            tell_line("%s: no folder %s here: the nodes have it to themselves, or no plugin "
                      "poolcuda_spank.so",
                      name, path);
        return;
    }
    bool undisturbed = summary_ask(command, path, line, sizeof line);
    if (strtoul(line, NULL, 10) < step->tasks) /* the line begins with the number of ranks */
        format(name, sizeof name, "step %s, %u task%s", step->name.text, step->tasks,
               step->tasks == 1 ? "" : "s");
    quote(path, quoted, sizeof quoted);
    if (*line)
        tell_line("%s: %s; poolcuda report %s", name, line, quoted);
    else if (!undisturbed)
        tell_line("%s: figures in %s; %s was ended before it had added them up", name, path,
                  command);
    else if (access(command, X_OK) != 0)
        tell_line("%s: figures in %s; %s is not here to add them up", name, path, command);
    else if (is_empty(path))
        tell_line("%s: no figures in %s: no task used CUDA, the library was not reached, or "
                  "nothing could be written there",
                  name, path);
    else
        tell_line("%s: %s finds no figures in the files of %s", name, command, path);
}

int slurm_spank_exit(spank_t spank, int count, char **arguments) {
    (void)spank, (void)count, (void)arguments;
    for (size_t i = 0; i < own.step_count; i++) {
        struct step *step = &own.steps[i];
        if (step->heterogeneous)
            step->folder = step_name_learned(own.folder, step->name, own.token);
        tell_step(step);
    }
    own.step_count = 0;
    /* In slurmstepd. What tasks have left running behind them has been killed after them. */
    if (own.pooled)
        rescue_figures(own.site.command, &own.user);
    return 0;
}
