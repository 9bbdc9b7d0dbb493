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

void doctor_doubt(struct doctor *doctor, const char *text, ...) {
    va_list arguments;
    char *doubt;
    va_start(arguments, text);
    int length = vasprintf(&doubt, text, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    bool known = doctor->doubt_count == DOUBTS;
    for (size_t i = 0; !known && i < doctor->doubt_count; i++)
        known = strcmp(doctor->doubts[i], doubt) == 0;
    if (known)
        free(doubt);
    else
        doctor->doubts[doctor->doubt_count++] = doubt;
}

void check_conclusion(struct doctor *doctor) {
    struct findings *findings = &doctor->findings;
    if (doctor->cuda_seen || findings_problem(findings))
        return;
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
