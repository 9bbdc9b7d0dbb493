/* poolcuda_spank.so: srun --poolcuda pools a step's tasks, and nothing else.
 *
 * In srun: options are checked, and what is asked for is put into the step's environment; when the
 * step has ended, its figures are added up. In slurmstepd, between a task's fork and its program's
 * start: the task's environment is set. Neither of the two processes preloads anything itself. */
#include "format.h"
#include "options.h"
#include "slurm/request.h"
#include "slurm/settings.h"
#include "slurm/site.h"
#include "slurm/summary.h"
#include "slurm/task.h"

#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC visibility push(default)
SPANK_PLUGIN(poolcuda, 1)
#pragma GCC visibility pop

enum { STEPS_MOST = 64 };

/* What this process knows, srun or slurmstepd. Invariant: site is read if usable. */
static struct {
    bool usable;
    struct site site;
    struct settings settings;
    char folder[OPTION_PATH_MAX]; /* absolute; "" where no step is pooled */
    struct step_name steps[STEPS_MOST];
    unsigned tasks[STEPS_MOST];
    size_t step_count;
} own;

/* Steps may be launched by threads. */
static pthread_mutex_t steps_lock = PTHREAD_MUTEX_INITIALIZER;

/* Ends srun, which has started nothing yet, with one line. Returned to, it would add one of its
 * own. */
static _Noreturn void refuse(const char *error) {
    slurm_spank_log("poolcuda: %s; nothing was started", error);
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
    char error[2 * SETTINGS_ERROR];
    spank_context_t context = spank_context();
    if (context != S_CTX_LOCAL && context != S_CTX_REMOTE)
        return 0;
    own.usable = site_read(&own.site, count, arguments, error, sizeof error);
    if (!own.usable && context == S_CTX_LOCAL)
        slurm_spank_log("poolcuda: %s; no step is pooled", error);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        spank_option_register(spank, &options[i]);
    return 0;
}

/* The folder as an absolute path. False if it has no room. */
static bool make_absolute(const char *folder) {
    char here[OPTION_PATH_MAX / 2];
    if (*folder == '/')
        return format(own.folder, sizeof own.folder, "%s", folder) < (int)sizeof own.folder;
    return getcwd(here, sizeof here) &&
           format(own.folder, sizeof own.folder, "%s/%s", here, folder) < (int)sizeof own.folder;
}

/* Puts what is asked for into the environment that the tasks get. */
static void ask_tasks(void) {
    const struct settings *settings = &own.settings;
    const char *preset = settings->preset ? settings->preset : own.site.preset;
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
}

int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments) {
    char error[SETTINGS_ERROR];
    const struct settings *settings = &own.settings;
    const char *folder = settings->folder ? settings->folder : own.site.folder;
    (void)spank, (void)count, (void)arguments;
    if (spank_context() != S_CTX_LOCAL)
        return 0;
    /* They may be those of an srun in whose task this one runs. */
    unsetenv(REQUEST_FOLDER);
    unsetenv(REQUEST_PRESET);
    unsetenv(REQUEST_SET);
    if (!settings->asked || !own.usable)
        return 0;
    if (!site_allows_me(&own.site)) {
        const struct passwd *entry = getpwuid(getuid());
        format(error, sizeof error, "--poolcuda: the site does not allow it to %s, but to %.200s",
               entry ? entry->pw_name : "you", own.site.allowed);
        refuse(error);
    }
    if (!make_absolute(folder)) {
        format(error, sizeof error, "--poolcuda-stats=%.200s: the path is too long", folder);
        refuse(error);
    }
    ask_tasks();
    return 0;
}

/* In srun, for a step that is about to start. Of one with several components the job is the
 * first's, and the tasks are the first's. */
int slurm_spank_local_user_init(spank_t spank, int count, char **arguments) {
    uint32_t job, step, tasks = 0;
    /* Slurm's, and told to this side of a plugin in no other way; tasks ask for the item. */
    const char *restarts = getenv("SLURM_RESTART_COUNT");
    (void)count, (void)arguments;
    if (!*own.folder || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
        return 0;
    if (spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS)
        tasks = 0;
    struct step_name name =
        step_name(job, step, restarts ? (unsigned)strtoul(restarts, NULL, 10) : 0);
    pthread_mutex_lock(&steps_lock);
    size_t at = 0;
    while (at < own.step_count && strcmp(own.steps[at].text, name.text) != 0)
        at++;
    if (at < STEPS_MOST) {
        own.steps[at] = name;
        own.tasks[at] = tasks;
        if (at == own.step_count)
            own.step_count++;
    }
    pthread_mutex_unlock(&steps_lock);
    return 0;
}

int slurm_spank_task_init(spank_t spank, int count, char **arguments) {
    (void)count, (void)arguments;
    if (own.usable)
        task_prepare(spank, &own.site);
    return 0;
}

/* Where the folder is not there, a task has told why it runs unpooled; or it is on the nodes only.
 */
static void tell_step(const char *name, unsigned tasks) {
    char line[1024], path[OPTION_PATH_MAX + sizeof(struct step_name)], many[32] = "";
    format(path, sizeof path, "%s/%s", own.folder, name);
    if (access(path, R_OK | X_OK) != 0)
        return;
    summary_ask(own.site.command, path, line, sizeof line);
    if (strtoul(line, NULL, 10) < tasks) /* the line begins with the number of ranks */
        format(many, sizeof many, ", %u task%s", tasks, tasks == 1 ? "" : "s");
    if (*line)
        slurm_spank_log("poolcuda: step %s%s: %s; poolcuda report %s", name, many, line, path);
    else if (access(own.site.command, X_OK) == 0)
        slurm_spank_log("poolcuda: step %s%s: no figures in %s: no task used CUDA, or the library "
                        "was not reached",
                        name, many, path);
    else
        slurm_spank_log("poolcuda: step %s%s: figures in %s; %s is not here to add them up", name,
                        many, path, own.site.command);
}

int slurm_spank_exit(spank_t spank, int count, char **arguments) {
    (void)spank, (void)count, (void)arguments;
    for (size_t i = 0; i < own.step_count; i++)
        tell_step(own.steps[i].text, own.tasks[i]);
    own.step_count = 0;
    return 0;
}
