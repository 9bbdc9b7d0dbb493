/* What the doctor has found, for people and for programs. */
#ifndef POOLCUDA_CLI_DOCTOR_FINDINGS_H
#define POOLCUDA_CLI_DOCTOR_FINDINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The exit code that is no verdict: memory ran out, or what was to be said is lost. */
enum { DOCTOR_NO_ANSWER = 4 };

enum severity {
    SEVERITY_OK,      /* as it should be */
    SEVERITY_NOTE,    /* good to know */
    SEVERITY_WARNING, /* may spoil it */
    SEVERITY_PROBLEM, /* pooling will not work */
};

/* Invariant: id is a constant of docs/doctor.md; the others are printable and never NULL, cause and
 * remedy "" where there is nothing to say. */
struct finding {
    const char *id;
    enum severity severity;
    char *what, *cause, *remedy;
};

struct findings {
    struct finding *list;
    size_t count;
    json_t *facts; /* an object */
    char *next;    /* a command that mends the first problem, printable; NULL: none is known */
};

/* Without memory the process ends: half a diagnosis is none. */
void findings_start(struct findings *findings);
void findings_free(struct findings *findings);

/* Adds a finding whose cause and remedy are still "". */
__attribute__((format(printf, 4, 5))) void findings_add(struct findings *findings, const char *id,
                                                        enum severity severity, const char *what,
                                                        ...);

/* About the finding added last. */
__attribute__((format(printf, 2, 3))) void findings_cause(struct findings *findings,
                                                          const char *text, ...);
__attribute__((format(printf, 2, 3))) void findings_remedy(struct findings *findings,
                                                           const char *text, ...);

/* The command that mends the problem that was added last; that of the first problem is kept. */
__attribute__((format(printf, 2, 3))) void findings_next(struct findings *findings,
                                                         const char *text, ...);

/* A fact: any text, made printable; NULL for unknown. */
void findings_fact(struct findings *findings, const char *name, const char *value);

/* The first problem; NULL if there is none. */
const struct finding *findings_problem(const struct findings *findings);

/* Takes the problems from the one of this number on out again: they concern what is no CUDA's. */
void findings_drop_problems(struct findings *findings, size_t from);

/* Makes the problems of this id, from that number on, warnings of the id "cannot-know"; how many.
 */
size_t findings_soften(struct findings *findings, size_t from, const char *id);

/* Whether there is a finding of this id. */
bool findings_has(const struct findings *findings, const char *id);

/* "ok", "note", "warning" or "problem" */
const char *severity_name(enum severity severity);

#endif
