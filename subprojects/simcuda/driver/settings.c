#include "settings.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { COUNT, SIZE, RATE };

static struct settings values;
static pthread_once_t loaded = PTHREAD_ONCE_INIT;

/* Reads a non-negative number with an optional unit; false when the text is anything else. */
static bool parse(const char *text, enum kind kind, double *number) {
    char *end;

    if (!((*text >= '0' && *text <= '9') || *text == '.'))
        return false;
    errno = 0;
    *number = strtod(text, &end);
    if (errno != 0 || end == text)
        return false;
    if (kind == SIZE && *end != '\0') {
        static const char units[] = "KMGT";
        const char *unit = strchr(units, *end & ~0x20);

        if (unit == NULL)
            return false;
        *number *= (double)(1ull << (10 * (unit - units + 1)));
        end++;
        if (strcmp(end, "iB") == 0)
            end += 2;
        else if (strcmp(end, "B") == 0)
            end += 1;
    }
    return *end == '\0' && (kind == RATE || *number == floor(*number));
}

static double number_from_environment(const char *field, enum kind kind, double minimum,
                                      double maximum, double initial) {
    static const char *const expected[] = {"a whole number", "a size such as 8G",
                                           "a decimal number"};
    char name[64] = "SIMCUDA_";
    char *out = name + strlen(name);
    const char *text;
    double number;

    for (; *field != '\0' && out < name + sizeof name - 1; field++)
        *out++ = (char)(*field == '_' ? '_' : *field >= 'a' ? *field - 'a' + 'A' : *field);
    *out = '\0';
    text = getenv(name);
    if (text == NULL || *text == '\0')
        return initial;
    if (parse(text, kind, &number) && number >= minimum && number <= maximum)
        return number;
    fprintf(stderr, "simcuda: %s=\"%s\": expected %s from %.15g to %.15g, using %.15g\n", name,
            text, expected[kind], minimum, maximum, initial);
    return initial;
}

static const char *text_from_environment(const char *name) {
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? text : NULL;
}

/* Whether the variable has the other of its two words. */
static bool is_chosen(const char *name, const char *usual, const char *other) {
    const char *text = text_from_environment(name);

    if (text == NULL || strcmp(text, usual) == 0)
        return false;
    if (strcmp(text, other) == 0)
        return true;
    fprintf(stderr, "simcuda: %s=\"%s\": expected %s or %s, using %s\n", name, text, other, usual,
            usual);
    return false;
}

static void choose_kernels(void) {
    static const char name[] = "SIMCUDA_KERNELS";
    const char *text = text_from_environment(name);

    values.skips_kernels = text != NULL && strcmp(text, "skip") == 0;
    values.interprets_all = text != NULL && strcmp(text, "interpret") == 0;
    if (text != NULL && !values.skips_kernels && !values.interprets_all && strcmp(text, "run") != 0)
        fprintf(stderr, "simcuda: %s=\"%s\": expected run, interpret or skip, using run\n", name,
                text);
}

static void load(void) {
#define SETTING(field, kind, minimum, maximum, initial, help)                                      \
    values.field = (SETTING_TYPE_##kind)number_from_environment(                                   \
        #field, kind, (double)(minimum), (double)(maximum), (double)(initial));
#include "settings.def"
#undef SETTING
    values.report = text_from_environment("SIMCUDA_REPORT");
    values.shared = text_from_environment("SIMCUDA_SHARED");
    values.fail_caller = text_from_environment("SIMCUDA_FAIL_CALLER");
    values.hazard_aborts = is_chosen("SIMCUDA_HAZARD", "report", "abort");
    choose_kernels();
}

const struct settings *settings(void) {
    pthread_once(&loaded, load);
    return &values;
}
