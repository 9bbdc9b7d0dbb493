/* What follows from all findings: pooling will work, will not, or cannot be known to. */
#include "cli/doctor/verdict.h"

#include "cli/doctor/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void doctor_computes(struct doctor *doctor, const char *name) {
    free(doctor->computing);
    doctor->computing = strdup(name);
}

/* Each reason once. */
static void note_reason(char **reasons, size_t *count, const char *text, va_list arguments) {
    char *reason;
    if (vasprintf(&reason, text, arguments) < 0)
        return;
    bool known = *count == DOUBTS;
    for (size_t i = 0; !known && i < *count; i++)
        known = strcmp(reasons[i], reason) == 0;
    if (known)
        free(reason);
    else
        reasons[(*count)++] = reason;
}

void doctor_doubt(struct doctor *doctor, const char *text, ...) {
    va_list arguments;
    va_start(arguments, text);
    note_reason(doctor->doubts, &doctor->doubt_count, text, arguments);
    va_end(arguments);
}

void doctor_caution(struct doctor *doctor, const char *text, ...) {
    va_list arguments;
    va_start(arguments, text);
    note_reason(doctor->cautions, &doctor->caution_count, text, arguments);
    va_end(arguments);
}

static void tell_cautions(struct doctor *doctor) {
    for (size_t i = 0; i < doctor->caution_count; i++) {
        findings_add(&doctor->findings, "cannot-know", SEVERITY_WARNING, "CUDA is seen, but %s",
                     doctor->cautions[i]);
        findings_remedy(&doctor->findings, "run it: the report says whether it was pooled");
    }
}

void check_conclusion(struct doctor *doctor) {
    struct findings *findings = &doctor->findings;
    if (findings_problem(findings))
        return;
    if (doctor->cuda_seen) {
        tell_cautions(doctor);
        return;
    }
    for (size_t i = 0; i < doctor->doubt_count; i++) {
        findings_add(findings, "cannot-know", SEVERITY_WARNING, "no CUDA is seen, but %s",
                     doctor->doubts[i]);
        findings_cause(findings, "what uses CUDA in that way is pooled as well");
        findings_remedy(findings,
                        "run it: the report says whether it was; or name what it opens by "
                        "--with-library");
    }
    if (doctor->doubt_count)
        return;
    findings_add(findings, "no-cuda", SEVERITY_PROBLEM,
                 "%s can use no CUDA, so there is nothing to pool",
                 doctor->computing ? doctor->computing : "it");
    findings_cause(findings, "neither it, nor what it is linked with, imports or opens, reaches "
                             "CUDA's runtime or driver");
    findings_remedy(findings, "%s",
                    findings_has(findings, "offload-host")
                        ? "build it for the GPU: gcc -fopenmp -foffload=nvptx-none, or clang "
                          "-fopenmp -fopenmp-targets=nvptx64"
                        : "give the program that does the computing");
}

enum verdict verdict_of(const struct findings *findings) {
    if (findings_problem(findings))
        return VERDICT_WORKS_NOT;
    return findings_has(findings, "cannot-know") || findings_has(findings, "not-verified")
               ? VERDICT_CANNOT_KNOW
               : VERDICT_WORKS;
}

const char *verdict_name(enum verdict verdict) {
    static const char *const names[] = {"works", "works-not", "cannot-know"};
    return names[verdict];
}
