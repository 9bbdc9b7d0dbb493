/* `poolcuda top --prometheus` and `--openmetrics`: one metric for each row of counters.def, those
 * of each process, and those of each of its devices.
 *
 * The two forms differ in what a counter is called above its values (OpenMetrics names the family,
 * without "_total"), in the line of the unit, and in the last line. Names are those that both
 * allow: they end in the unit, which is bytes or seconds, and a counter's in "_total". */
#include "cli/live_rows.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum form { PROMETHEUS, OPENMETRICS };

struct metric {
    const char *name, *help; /* without "poolcuda_" and "_total" */
    bool gauge;
};

static const struct metric counters[STATS_COUNTERS] = {
#define COUNTER(field, help) {#field, help, false},
#define GAUGE(field, help)   {#field, help, true},
#include "counters/counters.def"
};

static const char nanoseconds[] = "nanoseconds";

/* Whether the figure is of nanoseconds, which are printed as seconds. */
static bool is_time(const struct metric *metric) {
    size_t length = strlen(metric->name);
    return length > 3 && strcmp(metric->name + length - 3, "_ns") == 0;
}

struct family_name {
    char text[96];
};

/* What the values' names begin with. */
static struct family_name family(const struct metric *metric) {
    struct family_name name;
    int length = (int)strlen(metric->name) - (is_time(metric) ? 3 : 0);
    snprintf(name.text, sizeof name.text, "poolcuda_%.*s%s", length, metric->name,
             is_time(metric) ? "_seconds" : "");
    return name;
}

static const char *unit(const char *family_text) {
    const char *last = strrchr(family_text, '_') + 1;
    return strcmp(last, "bytes") == 0 || strcmp(last, "seconds") == 0 ? last : NULL;
}

static void put_head(FILE *out, enum form form, const struct metric *metric) {
    struct family_name name = family(metric);
    const char *help = metric->help, *ending = metric->gauge || form == OPENMETRICS ? "" : "_total";
    if (is_time(metric) && strncmp(help, nanoseconds, sizeof nanoseconds - 1) == 0)
        help += strlen("nano");
    fprintf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name.text, ending, help, name.text, ending,
            metric->gauge ? "gauge" : "counter");
    if (form == OPENMETRICS && unit(name.text))
        fprintf(out, "# UNIT %s %s\n", name.text, unit(name.text));
}

/* A label's value: the characters that need it are escaped; what is not printable ASCII, which need
 * not be UTF-8, is replaced. */
static void put_label(FILE *out, const char *name, const char *text) {
    fprintf(out, "%s=\"", name);
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            fputc('\\', out);
        fputc(*text >= ' ' && *text <= '~' ? *text : '?', out);
    }
    fputc('"', out);
}

/* Opens the braces of the labels that every figure of the process has. `job` alone is the name of
 * the target that Prometheus asked. */
static void put_labels(FILE *out, const struct metric *metric, const struct live_process *process) {
    char user[LIVE_USER], rank[16] = "";
    if (process->head.rank >= 0)
        snprintf(rank, sizeof rank, "%d", (int)process->head.rank);
    fputs(family(metric).text, out);
    fputs(metric->gauge ? "{" : "_total{", out);
    put_label(out, "pid", process->name);
    put_label(out, ",command", process->head.command);
    put_label(out, ",user", live_user(process->user, user));
    put_label(out, ",job_id", process->head.job);
    put_label(out, ",step_id", process->head.step);
    put_label(out, ",rank", rank);
}

static void put_value(FILE *out, const struct metric *metric, uint64_t value) {
    if (is_time(metric))
        fprintf(out, "} %.9f\n", (double)value * 1e-9);
    else
        fprintf(out, "} %" PRIu64 "\n", value);
}

/* --- of processes --- */

static uint64_t start_time(const struct live_process *process) {
    return process->head.start_wall_ns;
}

static uint64_t bypasses(const struct live_process *process) {
    return process->bypasses;
}

static const struct {
    struct metric metric;
    uint64_t (*value)(const struct live_process *process);
} process_metrics[] = {
    {{"start_time_ns", "when the process began to pool, since 1970", true}, start_time},
    {{"bypasses", "pieces of code that call the driver past the pool", true}, bypasses},
};

static void put_processes(FILE *out, enum form form, const struct live_row *rows, size_t count) {
    for (size_t m = 0; m < sizeof process_metrics / sizeof process_metrics[0]; m++) {
        const struct metric *metric = &process_metrics[m].metric;
        put_head(out, form, metric);
        for (size_t i = 0; i < count; i++) {
            put_labels(out, metric, rows[i].process);
            put_value(out, metric, process_metrics[m].value(rows[i].process));
        }
    }
    for (size_t m = 0; m < STATS_COUNTERS; m++) {
        put_head(out, form, &counters[m]);
        for (size_t i = 0; i < count; i++) {
            put_labels(out, &counters[m], rows[i].process);
            put_value(out, &counters[m], rows[i].process->head.counters[m]);
        }
    }
}

/* --- of devices --- */

static const struct {
    struct metric metric;
    size_t offset;
} device_metrics[] = {
#define FIGURE(name, help, field, gauge)                                                           \
    { {"device_" name, help, gauge}, offsetof(struct live_device, field) }
    FIGURE("capacity_bytes", "memory of the device", capacity, true),
    FIGURE("in_use_bytes", "in use by the program on the device, as requested", in_use, true),
    FIGURE("idle_bytes", "idle on the device, kept for reuse", idle, true),
    FIGURE("waste_bytes", "what live blocks on the device are larger than requested", waste, true),
    FIGURE("peak_held_bytes", "largest held on the device", peak_held, true),
    FIGURE("allocations", "allocations on the device", allocations, false),
    FIGURE("hits", "of those, served from idle memory", hits, false),
#undef FIGURE
};

static void put_device(FILE *out, size_t which, const struct live_process *process,
                       const struct live_device *device) {
    char uuid[2 * STATS_UUID + 1], ordinal[16];
    uint64_t value;
    for (size_t i = 0; i < STATS_UUID; i++)
        snprintf(uuid + 2 * i, 3, "%02x", device->uuid[i]);
    snprintf(ordinal, sizeof ordinal, "%d", device->ordinal);
    memcpy(&value, (const char *)device + device_metrics[which].offset, sizeof value);
    put_labels(out, &device_metrics[which].metric, process);
    put_label(out, ",device", ordinal);
    put_label(out, ",uuid", uuid);
    put_value(out, &device_metrics[which].metric, value);
}

static void put_devices(FILE *out, enum form form, const struct live_row *rows, size_t count) {
    for (size_t m = 0; m < sizeof device_metrics / sizeof device_metrics[0]; m++) {
        put_head(out, form, &device_metrics[m].metric);
        for (size_t i = 0; i < count; i++)
            for (unsigned d = 0; d < rows[i].process->device_count; d++)
                put_device(out, m, rows[i].process, &rows[i].process->devices[d]);
    }
}

static size_t of_user(const struct live_row *rows, size_t count, uint32_t user) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += rows[i].process->user == user;
    return found;
}

/* A line for each user, so that the files of several users can lie side by side; without any
 * program one for this user, whose 0 tells that somebody has looked. */
static void put_counts(FILE *out, enum form form, const struct live_row *rows, size_t count) {
    static const struct metric processes = {"processes", "programs that pool", true};
    char name[LIVE_USER];
    put_head(out, form, &processes);
    for (size_t i = 0; i < count || i == 0; i++) {
        uint32_t user = count ? rows[i].process->user : geteuid();
        if (of_user(rows, i < count ? i : count, user))
            continue;
        fprintf(out, "%s{", family(&processes).text);
        put_label(out, "user", live_user(user, name));
        fprintf(out, "} %zu\n", of_user(rows, count, user));
    }
}

static void put_all(FILE *out, enum form form, const struct live_row *rows, size_t count) {
    put_counts(out, form, rows, count);
    put_processes(out, form, rows, count);
    put_devices(out, form, rows, count);
}

void live_prometheus(FILE *out, const struct live_row *rows, size_t count) {
    put_all(out, PROMETHEUS, rows, count);
}

void live_openmetrics(FILE *out, const struct live_row *rows, size_t count) {
    put_all(out, OPENMETRICS, rows, count);
    fputs("# EOF\n", out);
}
