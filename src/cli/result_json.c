#include "cli/result_json.h"

#include "cli/printable.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

json_t *result_name(const char *name) {
    json_t *string = json_string(name);
    char *copy = string ? NULL : strdup(name);
    for (char *letter = copy; letter && *letter; letter++)
        if (*letter & 0x80)
            *letter = '?';
    if (copy)
        string = json_string(copy);
    free(copy);
    return string;
}

json_t *result_to_json(const struct replay_result *result, const char *trace, uint64_t memory,
                       bool gpu, const char *options) {
    json_t *object =
        json_pack("{s:s, s:i, s:o, s:b, s:s}", "kind", "poolcuda-replay", "version", RESULT_VERSION,
                  "trace", result_name(trace), "gpu", gpu, "options", options);
    if (!object)
        return NULL;
    if (!gpu)
        json_object_set_new(object, "memory", json_integer((json_int_t)memory));
    json_object_set_new(object, "simulated", json_boolean(result->simulated));
#define SET(name, text) json_object_set_new(object, #name, json_integer((json_int_t)result->name));
    RESULT_NUMBERS(SET)
#undef SET
    json_object_set_new(object, "hit_rate", json_real(result_hit_rate(result)));
    json_object_set_new(object, "fragmentation", json_real(result->fragmentation));
    json_object_set_new(object, "worst_held_ratio", json_real(result->worst_held_ratio));
    json_object_set_new(object, "modelled_seconds", json_real(result->modelled_seconds));
    json_object_set_new(object, "host_seconds", json_real(result->host_seconds));
    return object;
}

static bool read_number(const json_t *object, const char *name, uint64_t *number) {
    const json_t *value = json_object_get(object, name);
    *number = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool read_real(const json_t *object, const char *name, double *number) {
    const json_t *value = json_object_get(object, name);
    *number = json_number_value(value);
    return json_is_number(value);
}

/* Returns the name that is missing or wrong, NULL if there is none. */
static const char *read_all(const json_t *object, struct replay_result *result) {
    uint64_t version;
    const char *kind = json_string_value(json_object_get(object, "kind"));
    if (!kind || strcmp(kind, "poolcuda-replay") != 0)
        return "kind";
    if (!read_number(object, "version", &version) || version != RESULT_VERSION)
        return "version";
#define READ(name, text)                                                                           \
    if (!read_number(object, #name, &result->name))                                                \
        return #name;
    RESULT_NUMBERS(READ)
#undef READ
    if (!read_real(object, "fragmentation", &result->fragmentation))
        return "fragmentation";
    if (!read_real(object, "worst_held_ratio", &result->worst_held_ratio))
        return "worst_held_ratio";
    if (!read_real(object, "modelled_seconds", &result->modelled_seconds))
        return "modelled_seconds";
    return read_real(object, "host_seconds", &result->host_seconds) ? NULL : "host_seconds";
}

bool result_from_file(const char *path, struct replay_result *result, char *error,
                      size_t error_size) {
    json_error_t fault;
    struct stat status;
    FILE *file = fopen(path, "rbe");
    if (file && fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode)) {
        fclose(file);
        file = NULL;
        errno = EISDIR;
    }
    if (!file) {
        snprintf(error, error_size, "%s: %s; expected what `poolcuda replay --json` prints", path,
                 strerror(errno));
        return false;
    }
    json_t *object = json_loadf(file, 0, &fault);
    fclose(file);
    if (!object) {
        snprintf(error, error_size,
                 "%s, line %d: %s; expected what `poolcuda replay --json` prints", path, fault.line,
                 printable(fault.text));
        return false;
    }
    const char *wrong = read_all(object, result);
    json_decref(object);
    if (wrong)
        snprintf(error, error_size,
                 "%s: no sound \"%s\"; expected what `poolcuda replay --json` prints", path, wrong);
    return !wrong;
}
