#include "cli/doctor/findings.h"

#include "cli/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn static void out_of_memory(void) {
    fputs("poolcuda doctor: out of memory\n", stderr);
    exit(DOCTOR_NO_ANSWER);
}

/* Replaces *text by the formatted one, made printable. */
static void set_text(char **text, const char *pattern, va_list arguments) {
    char *fresh;
    if (vasprintf(&fresh, pattern, arguments) < 0)
        out_of_memory();
    free(*text);
    *text = printable(fresh);
}

static char *empty(void) {
    char *text = strdup("");
    if (!text)
        out_of_memory();
    return text;
}

void findings_start(struct findings *findings) {
    *findings = (struct findings){.facts = json_object()};
    if (!findings->facts)
        out_of_memory();
}

void findings_add(struct findings *findings, const char *id, enum severity severity,
                  const char *what, ...) {
    va_list arguments;
    struct finding *grown =
        reallocarray(findings->list, findings->count + 1, sizeof *findings->list);
    if (!grown)
        out_of_memory();
    findings->list = grown;
    struct finding *added = &grown[findings->count++];
    *added = (struct finding){id, severity, NULL, empty(), empty()};
    va_start(arguments, what);
    set_text(&added->what, what, arguments);
    va_end(arguments);
}

void findings_cause(struct findings *findings, const char *text, ...) {
    va_list arguments;
    va_start(arguments, text);
    set_text(&findings->list[findings->count - 1].cause, text, arguments);
    va_end(arguments);
}

void findings_remedy(struct findings *findings, const char *text, ...) {
    va_list arguments;
    va_start(arguments, text);
    set_text(&findings->list[findings->count - 1].remedy, text, arguments);
    va_end(arguments);
}

void findings_next(struct findings *findings, const char *text, ...) {
    va_list arguments;
    if (findings_problem(findings) != &findings->list[findings->count - 1])
        return;
    va_start(arguments, text);
    set_text(&findings->next, text, arguments);
    va_end(arguments);
}

void findings_fact(struct findings *findings, const char *name, const char *value) {
    char *text = value ? printable_copy(value) : NULL;
    if ((value && !text) ||
        json_object_set_new(findings->facts, name, text ? json_string(text) : json_null()) != 0)
        out_of_memory();
    free(text);
}

const struct finding *findings_problem(const struct findings *findings) {
    for (size_t i = 0; i < findings->count; i++)
        if (findings->list[i].severity == SEVERITY_PROBLEM)
            return &findings->list[i];
    return NULL;
}

/* The next step that a problem has named goes with it. */
static void forget_next(struct findings *findings) {
    if (findings_problem(findings))
        return;
    free(findings->next);
    findings->next = NULL;
}

static void free_texts(struct finding *finding) {
    free(finding->what);
    free(finding->cause);
    free(finding->remedy);
}

void findings_drop_problems(struct findings *findings, size_t from) {
    size_t kept = from, count = findings->count;
    for (size_t i = from; i < count; i++) {
        if (findings->list[i].severity == SEVERITY_PROBLEM)
            free_texts(&findings->list[i]);
        else
            findings->list[kept++] = findings->list[i];
    }
    findings->count = kept;
    if (kept < count)
        forget_next(findings);
}

size_t findings_soften(struct findings *findings, size_t from, const char *id) {
    size_t softened = 0;
    for (size_t i = from; i < findings->count; i++) {
        struct finding *finding = &findings->list[i];
        if (finding->severity != SEVERITY_PROBLEM || strcmp(finding->id, id) != 0)
            continue;
        finding->severity = SEVERITY_WARNING;
        finding->id = "cannot-know";
        softened++;
    }
    if (softened)
        forget_next(findings);
    return softened;
}

bool findings_has(const struct findings *findings, const char *id) {
    for (size_t i = 0; i < findings->count; i++)
        if (strcmp(findings->list[i].id, id) == 0)
            return true;
    return false;
}

const char *severity_name(enum severity severity) {
    static const char *const names[] = {"ok", "note", "warning", "problem"};
    return names[severity];
}

void findings_free(struct findings *findings) {
    for (size_t i = 0; i < findings->count; i++) {
        free_texts(&findings->list[i]);
    }
    free(findings->list);
    free(findings->next);
    json_decref(findings->facts);
    *findings = (struct findings){.list = NULL};
}
