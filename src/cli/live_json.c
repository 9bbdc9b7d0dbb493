/* `poolcuda top --json`. */
#include "cli/live_rows.h"
#include "report/emitter.h"

static void write_out(const char *text, size_t length, void *state) {
    fwrite(text, 1, length, state);
}

static const char *const counter_names[STATS_COUNTERS] = {
#define COUNTER(field, help) #field,
#define GAUGE(field, help)   #field,
#include "counters/counters.def"
};

static void emit_device(struct emitter *emitter, const struct live_device *device) {
    char uuid[2 * STATS_UUID + 1];
    for (size_t i = 0; i < STATS_UUID; i++)
        snprintf(uuid + 2 * i, 3, "%02x", device->uuid[i]);
    emitter_open(emitter, NULL, '{');
    emitter_number(emitter, "device", (uint64_t)device->ordinal);
    emitter_string(emitter, "uuid", uuid);
    emitter_number(emitter, "capacity_bytes", device->capacity);
    emitter_number(emitter, "in_use_bytes", device->in_use);
    emitter_number(emitter, "idle_bytes", device->idle);
    emitter_number(emitter, "waste_bytes", device->waste);
    emitter_number(emitter, "held_bytes",
                   stats_sum(stats_sum(device->in_use, device->idle), device->waste));
    emitter_number(emitter, "peak_held_bytes", device->peak_held);
    emitter_number(emitter, "allocations", device->allocations);
    emitter_number(emitter, "hits", device->hits);
    emitter_close(emitter, '}');
}

static void emit_process(struct emitter *emitter, const struct live_process *process) {
    const struct stats_head *head = &process->head;
    emitter_open(emitter, NULL, '{');
    emitter_number(emitter, "pid", head->process);
    emitter_string(emitter, "name", process->name);
    emitter_bool(emitter, "other_pid_namespace", !process->here);
    char user[LIVE_USER];
    emitter_string(emitter, "user", live_user(process->user, user));
    emitter_string(emitter, "command", head->command);
    emitter_string(emitter, "host", head->host);
    if (head->rank >= 0)
        emitter_number(emitter, "rank", (uint64_t)head->rank);
    else
        emitter_string(emitter, "rank", NULL);
    emitter_string(emitter, "job", *head->job ? head->job : NULL);
    emitter_string(emitter, "step", *head->step ? head->step : NULL);
    emitter_number(emitter, "bypasses", process->bypasses);
    emitter_number(emitter, "start_wall_ns", head->start_wall_ns);
    emitter_number(emitter, "running_ns",
                   process->read_ns > head->start_ns ? process->read_ns - head->start_ns : 0);
    emitter_open(emitter, "counters", '{');
    for (size_t i = 0; i < STATS_COUNTERS; i++)
        emitter_number(emitter, counter_names[i], head->counters[i]);
    emitter_close(emitter, '}');
    emitter_open(emitter, "devices", '[');
    for (unsigned i = 0; i < process->device_count; i++)
        emit_device(emitter, &process->devices[i]);
    emitter_close(emitter, ']');
    emitter_close(emitter, '}');
}

void live_json(FILE *out, const struct live_row *rows, size_t count) {
    struct emitter emitter = {.json = true, .write = write_out, .state = out};
    emitter_open(&emitter, NULL, '{');
    emitter_string(&emitter, "format", "poolcuda top");
    emitter_number(&emitter, "version", 1);
    emitter_open(&emitter, "processes", '[');
    for (size_t i = 0; i < count; i++)
        emit_process(&emitter, rows[i].process);
    emitter_close(&emitter, ']');
    emitter_close(&emitter, '}');
}
