#include "cli/live.h"

#include "base/clock.h"
#include "counters/shards.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t live_now(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

static void read_device(const struct stats_page *page, int ordinal, struct live_process *process) {
    const struct stats_device *read = &page->devices[ordinal];
    uint64_t capacity = stats_read(&read->capacity);
    if (!capacity)
        return;
    struct live_device *device = &process->devices[process->device_count++];
    struct stats_figures of = shards_device(process->head.shards, page->devices, ordinal);
    *device = (struct live_device){.ordinal = ordinal,
                                   .capacity = capacity,
                                   .in_use = of.in_use,
                                   .idle = stats_rest(of.held, of.live),
                                   .waste = stats_rest(of.live, of.in_use),
                                   .peak_held = stats_read(&read->peak_held),
                                   .allocations = of.allocations,
                                   .hits = of.hits};
    memcpy(device->uuid, read->uuid, sizeof device->uuid);
}

bool live_read(const struct stats_page *page, struct live_process *process) {
    struct stats_head *head = &process->head;
    if (!share_copy_head(page, head))
        return false;
    head->command[sizeof head->command - 1] = '\0';
    head->host[sizeof head->host - 1] = '\0';
    head->job[sizeof head->job - 1] = '\0';
    head->step[sizeof head->step - 1] = '\0';
    process->here = head->namespace_id == share_namespace();
    process->read_ns = live_now();
    process->bypasses = page->bypass_count;
    process->device_count = 0;
    for (int ordinal = 0; ordinal < PAGE_DEVICES; ordinal++)
        if (head->devices_used >> ordinal & 1)
            read_device(page, ordinal, process);
    shards_fold_head(head, page->devices);
    return true;
}

static bool add(struct live_list *list, const struct live_process *process) {
    struct live_process *longer =
        realloc(list->processes, (list->count + 1) * sizeof *list->processes);
    if (!longer)
        return false;
    list->processes = longer;
    list->processes[list->count++] = *process;
    return true;
}

static void note_damaged(struct live_list *list, int folder, const char *name, uint32_t user) {
    if (!share_is_damaged(folder, name))
        return;
    list->damaged++;
    snprintf(list->damaged_path, sizeof list->damaged_path, SHARE_FOLDERS "%" PRIu32 "/%s", user,
             name);
}

static void clear(enum live_scope scope, int folder, const char *name) {
    if (scope == LIVE_OWN)
        share_clear(folder, name);
}

/* Returns false without memory. */
static bool visit(struct live_list *list, enum live_scope scope, int folder, uint32_t user,
                  const char *name) {
    static struct live_process process; /* some kilobytes */
    struct stats_head head;
    struct share_page page;
    bool done = true;
    if (!share_open_page(folder, name, false, &page) || !share_read_head(&page, &head)) {
        clear(scope, folder, name);
        note_damaged(list, folder, name, user);
    } else if (share_is_stale(&head)) {
        clear(scope, folder, name);
    } else if (page.live && live_read(page.live, &process) && !process.head.finished &&
               share_is_named(name, &process.head)) {
        snprintf(process.name, sizeof process.name, "%s", name);
        process.user = user;
        done = add(list, &process);
    }
    share_close_page(&page);
    return done;
}

static int by_process(const void *one, const void *other) {
    const struct live_process *a = one, *b = other;
    if (a->head.process != b->head.process)
        return a->head.process < b->head.process ? -1 : 1;
    int order = strcmp(a->name, b->name);
    return order || a->user == b->user ? order : a->user < b->user ? -1 : 1;
}

/* Returns false without memory. Closes the folder. */
static bool visit_folder(struct live_list *list, enum live_scope scope, int folder, uint32_t user) {
    struct share_walk walk = {.folder = folder};
    bool complete = true;
    while (complete && share_walk_next(&walk))
        complete = visit(list, scope, folder, user, walk.name);
    close(folder);
    return complete;
}

/* What another user has made under such a name is not read. Returns false without memory.
 */
static bool visit_users(struct live_list *list) {
    const char *prefix = strrchr(SHARE_FOLDERS, '/') + 1;
    bool complete = true;
    DIR *folders = opendir("/dev/shm");
    for (struct dirent *entry; complete && folders && (entry = readdir(folders));) {
        char *end, path[SHARE_FOLDER];
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        unsigned long user = strtoul(entry->d_name + strlen(prefix), &end, 10);
        snprintf(path, sizeof path, "%s%lu", prefix, user);
        if (user >= UINT32_MAX || strcmp(path, entry->d_name) != 0)
            continue;
        int folder = share_folder_open_of((uint32_t)user);
        if (folder >= 0)
            complete = visit_folder(list, LIVE_ALL, folder, (uint32_t)user);
        else
            list->closed += errno == EACCES;
    }
    if (folders)
        closedir(folders);
    return complete;
}

bool live_list(struct live_list *list, enum live_scope scope, char *error, size_t error_size) {
    char path[SHARE_FOLDER];
    bool complete;
    *list = (struct live_list){.processes = NULL};
    if (scope == LIVE_ALL) {
        complete = visit_users(list);
    } else {
        int folder = share_folder_open(false);
        if (folder < 0 && errno == ENOENT)
            return true; /* no program has pooled yet */
        if (folder < 0) {
            share_folder_path(path);
            snprintf(error, error_size,
                     "%s: not a folder that is yours alone (owner you, mode 0700): not used", path);
            return false;
        }
        complete = visit_folder(list, scope, folder, geteuid());
    }
    if (!complete) {
        snprintf(error, error_size, "not enough memory for the list of processes");
        live_free(list);
        return false;
    }
    if (list->count)
        qsort(list->processes, list->count, sizeof *list->processes, by_process);
    return true;
}

void live_tell_missed(const struct live_list *list, const char *command) {
    if (list->damaged)
        fprintf(stderr,
                "%s: %s: damaged, or of another version of poolcuda: not shown%s, and removed once "
                "its process has ended\n",
                command, list->damaged_path, list->damaged > 1 ? ", nor are others like it" : "");
    if (list->closed)
        fprintf(stderr, "%s: %zu other user%s pooled programs that only root may read: not shown\n",
                command, list->closed, list->closed == 1 ? " has" : "s have");
}

const char *live_user(uint32_t user, char text[LIVE_USER]) {
    const struct passwd *known = getpwuid(user);
    if (known)
        snprintf(text, LIVE_USER, "%s", known->pw_name);
    else
        snprintf(text, LIVE_USER, "%" PRIu32, user);
    return text;
}

void live_free(struct live_list *list) {
    free(list->processes);
    *list = (struct live_list){.processes = NULL};
}

const struct live_process *live_find(const struct live_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->processes[i].name, name) == 0)
            return &list->processes[i];
    return NULL;
}
