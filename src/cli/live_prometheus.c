/* `poolcuda top --prometheus`: one metric for each row of counters.def, and those of each device.
 */
#include "cli/live_rows.h"

#include <inttypes.h>
#include <string.h>

struct metric {
    enum stats_counter counter;
    bool gauge;
    const char *name, *help;
};

static const struct metric metrics[] = {
#define COUNTER(field, help) {STATS_##field, false, "poolcuda_" #field "_total", help},
#define GAUGE(field, help)   {STATS_##field, true, "poolcuda_" #field, help},
#include "observe/counters.def"
};

/* What is known of a device. */
static const struct {
    const char *name, *help;
    size_t offset;
    bool gauge;
} device_metrics[] = {
#define FIGURE(name, help, field, gauge)                                                           \
    { "poolcuda_device_" name, help, offsetof(struct live_device, field), gauge }
    FIGURE("capacity_bytes", "memory of the device", capacity, true),
    FIGURE("in_use_bytes", "in use by the program on the device, as requested", in_use, true),
    FIGURE("idle_bytes", "idle on the device, kept for reuse", idle, true),
    FIGURE("waste_bytes", "what live blocks on the device are larger than requested", waste, true),
    FIGURE("peak_held_bytes", "largest held on the device", peak_held, true),
    FIGURE("allocations_total", "allocations on the device", allocations, false),
    FIGURE("hits_total", "of those, served from idle memory", hits, false),
#undef FIGURE
};

static void put_head(FILE *out, const char *name, const char *help, bool gauge) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, gauge ? "gauge" : "counter");
}

/* A label's value: the three characters that need it are escaped; what is not printable ASCII,
 * which need not be UTF-8, is replaced. */
static void put_label(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            fputc('\\', out);
        fputc(*text >= ' ' && *text <= '~' ? *text : '?', out);
    }
}

/* Opens the braces of the labels that every figure of the process has. */
static void put_labels(FILE *out, const char *name, const struct live_process *process) {
    fprintf(out, "%s{pid=\"", name);
    put_label(out, process->name);
    fputs("\",command=\"", out);
    put_label(out, process->head.command);
    fputs("\",rank=\"", out);
    if (process->head.rank >= 0)
        fprintf(out, "%d", (int)process->head.rank);
    fputc('"', out);
}

static void put_device_metric(FILE *out, size_t which, const struct live_row *rows, size_t count) {
    put_head(out, device_metrics[which].name, device_metrics[which].help,
             device_metrics[which].gauge);
    for (size_t i = 0; i < count; i++) {
        const struct live_process *process = rows[i].process;
        for (unsigned d = 0; d < process->device_count; d++) {
            const struct live_device *device = &process->devices[d];
            uint64_t value;
            memcpy(&value, (const char *)device + device_metrics[which].offset, sizeof value);
            put_labels(out, device_metrics[which].name, process);
            fprintf(out, ",device=\"%d\",uuid=\"", device->ordinal);
            for (size_t b = 0; b < STATS_UUID; b++)
                fprintf(out, "%02x", device->uuid[b]);
            fprintf(out, "\"} %" PRIu64 "\n", value);
        }
    }
}

void live_prometheus(FILE *out, const struct live_row *rows, size_t count) {
    put_head(out, "poolcuda_processes", "processes of this user that pool", true);
    fprintf(out, "poolcuda_processes %zu\n", count);
    put_head(out, "poolcuda_start_time_seconds", "when the process began to pool, since 1970",
             true);
    for (size_t i = 0; i < count; i++) {
        put_labels(out, "poolcuda_start_time_seconds", rows[i].process);
        fprintf(out, "} %.3f\n", (double)rows[i].process->head.start_wall_ns * 1e-9);
    }
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        put_head(out, metrics[m].name, metrics[m].help, metrics[m].gauge);
        for (size_t i = 0; i < count; i++) {
            put_labels(out, metrics[m].name, rows[i].process);
            fprintf(out, "} %" PRIu64 "\n",
                    (uint64_t)rows[i].process->head.counters[metrics[m].counter]);
        }
    }
    for (size_t m = 0; m < sizeof device_metrics / sizeof device_metrics[0]; m++)
        put_device_metric(out, m, rows, count);
}
