#include "cli/live_rows.h"

#include "report/emitter.h"
#include "report/human.h"

#include <stdlib.h>
#include <string.h>

const struct live_key_name live_key_names[LIVE_KEYS] = {
    [LIVE_KEY_HELD] = {'m', "held"},        [LIVE_KEY_IDLE] = {'i', "idle"},
    [LIVE_KEY_LIVE] = {'l', "live"},        [LIVE_KEY_HITS] = {'h', "hits"},
    [LIVE_KEY_ALLOCATIONS] = {'a', "rate"}, [LIVE_KEY_PID] = {'p', "pid"},
};

static uint64_t counter(const struct live_process *process, enum stats_counter which) {
    return process->head.counters[which];
}

static const struct live_process *same(const struct live_list *list,
                                       const struct live_process *process) {
    for (size_t i = 0; i < list->count; i++) {
        const struct live_process *found = &list->processes[i];
        if (found->user == process->user && strcmp(found->name, process->name) == 0 &&
            found->head.process == process->head.process &&
            found->head.start_ns == process->head.start_ns)
            return found;
    }
    return NULL;
}

static double rate(const struct live_process *now, const struct live_process *before,
                   enum stats_counter which) {
    uint64_t since = before ? before->read_ns : now->head.start_ns;
    uint64_t first = before ? counter(before, which) : 0, last = counter(now, which);
    if (now->read_ns <= since || last < first)
        return 0;
    return (double)(last - first) / ((double)(now->read_ns - since) * 1e-9);
}

static struct live_row make_row(const struct live_process *process,
                                const struct live_process *before) {
    struct live_row row = {.process = process, .hit_rate = -1};
    for (unsigned i = 0; i < process->device_count; i++) {
        const struct live_device *device = &process->devices[i];
        row.in_use += device->in_use;
        row.idle += device->idle;
        row.waste += device->waste;
        row.capacity += device->capacity;
    }
    row.held = stats_sum(stats_sum(row.in_use, row.idle), row.waste);
    uint64_t calls = counter(process, STATS_malloc_calls);
    if (calls)
        row.hit_rate = (double)counter(process, STATS_malloc_hits) / (double)calls;
    row.allocation_rate = rate(process, before, STATS_malloc_calls);
    row.wait_rate = rate(process, before, STATS_free_waited);
    return row;
}

static double weight(const struct live_row *row, enum live_key key) {
    switch (key) {
    case LIVE_KEY_HELD:
        return (double)row->held;
    case LIVE_KEY_IDLE:
        return (double)row->idle;
    case LIVE_KEY_LIVE:
        return (double)(row->in_use + row->waste);
    case LIVE_KEY_HITS:
        return row->hit_rate;
    case LIVE_KEY_ALLOCATIONS:
        return row->allocation_rate;
    case LIVE_KEY_PID:
    case LIVE_KEYS:
        break;
    }
    return -(double)row->process->head.process;
}

static int downwards(const void *one, const void *other, void *key) {
    double a = weight(one, *(enum live_key *)key), b = weight(other, *(enum live_key *)key);
    const struct live_row *first = one, *second = other;
    if (a != b)
        return a < b ? 1 : -1;
    return strcmp(first->process->name, second->process->name);
}

void live_rows(const struct live_list *list, const struct live_list *before, enum live_key key,
               struct live_row *rows) {
    for (size_t i = 0; i < list->count; i++)
        rows[i] = make_row(&list->processes[i], same(before, &list->processes[i]));
    if (list->count)
        qsort_r(rows, list->count, sizeof *rows, downwards, &key);
}

/* --- lines for people --- */

#define ROW_FORMAT "%s%9s %8s %10s %10s %10s %10s %6s %6s %9s %8s %5s  %s"

void live_head_line(bool users, char line[LIVE_LINE]) {
    snprintf(line, LIVE_LINE, ROW_FORMAT, users ? "USER        " : "", "PID", "DEVICES", "IN USE",
             "IDLE", "WASTE", "HELD", "SHARE", "HITS", "ALLOC/S", "WAIT/S", "OOM", "COMMAND");
}

static void list_devices(const struct live_process *process, char *text, size_t size) {
    size_t length = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < process->device_count && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%d%s", i ? "," : "",
                                   process->devices[i].ordinal,
                                   process->devices[i].ordinal == PAGE_DEVICES - 1 ? "+" : "");
    if (length >= size)
        snprintf(text, size, "%u", process->device_count);
}

static void percent(char *text, size_t size, double share) {
    if (share < 0)
        snprintf(text, size, "-");
    else
        snprintf(text, size, "%.1f%%", 100 * share);
}

/* At most some digits: what a page says may be anything. */
static void put_rate(char *text, size_t size, double rate) {
    snprintf(text, size, rate < 1e7 ? "%.0f" : "%.1e", rate);
}

/* The column of users: as wide as the head's, or wider. */
static void put_user(char *text, size_t size, uint32_t user) {
    char name[LIVE_USER], clean[LIVE_USER];
    emitter_clean(clean, sizeof clean, live_user(user, name));
    snprintf(text, size, "%-11s ", clean);
}

void live_row_line(const struct live_row *row, bool users, char line[LIVE_LINE]) {
    const struct live_process *process = row->process;
    char command[PAGE_COMMAND], devices[9], share[12], hits[12], allocations[16], waits[16],
        shortages[16], pid[SHARE_NAME + 1], user[LIVE_USER + 12] = "";
    const char *slash = strrchr(process->head.command, '/');
    emitter_clean(command, sizeof command, slash ? slash + 1 : process->head.command);
    list_devices(process, devices, sizeof devices);
    percent(share, sizeof share, row->capacity ? (double)row->held / (double)row->capacity : -1);
    percent(hits, sizeof hits, row->hit_rate);
    put_rate(allocations, sizeof allocations, row->allocation_rate);
    put_rate(waits, sizeof waits, row->wait_rate);
    put_rate(shortages, sizeof shortages, (double)counter(process, STATS_oom_events));
    snprintf(pid, sizeof pid, "%s%s", process->name, process->here ? "" : "*");
    if (users)
        put_user(user, sizeof user, process->user);
    snprintf(line, LIVE_LINE, ROW_FORMAT, user, pid, devices, human(row->in_use).text,
             human(row->idle).text, human(row->waste).text, human(row->held).text, share, hits,
             allocations, waits, shortages, command);
}

void live_sum_line(const struct live_row *rows, size_t count, char line[LIVE_LINE]) {
    uint64_t in_use = 0, idle = 0, held = 0;
    bool elsewhere = false;
    for (size_t i = 0; i < count; i++) {
        in_use += rows[i].in_use;
        idle += rows[i].idle;
        held += rows[i].held;
        elsewhere = elsewhere || !rows[i].process->here;
    }
    if (count)
        snprintf(line, LIVE_LINE, "%zu pooled process%s: %s in use, %s idle, %s held%s", count,
                 count == 1 ? "" : "es", human(in_use).text, human(idle).text, human(held).text,
                 elsewhere ? "; *: in another pid namespace" : "");
    else
        snprintf(line, LIVE_LINE,
                 "no pooled program of yours is running; to start one: poolcuda run ./app");
}
