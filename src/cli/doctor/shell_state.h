/* Inside the reader of a shell's commands: what is known of the shell as it goes through its text.
 */
#ifndef POOLCUDA_CLI_DOCTOR_SHELL_STATE_H
#define POOLCUDA_CLI_DOCTOR_SHELL_STATE_H

#include "cli/doctor/changes.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/shell_text.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { VARIABLES = 128, FUNCTIONS = 64, SCOPES = 32 };

/* What becomes of something that the pool needs in the programs that are started. */
enum state { KEPT, LOST_PERHAPS, LOST };

/* What a subshell takes over, and does not give back. */
struct shell_state {
    enum state preload, enabled;
    bool off;       /* POOLCUDA_DISABLE is set, if not yet for the programs */
    bool hidden;    /* LD_PRELOAD is not exported: programs do without, */
    enum state own; /* whatever the shell itself has in it */
    bool ended;     /* behind exit, or exec with a program */
    bool elsewhere; /* in a folder that is not known */
    size_t variable_count;
};

/* What a function gets back at its end of what it has made its own. */
struct shell_call {
    bool preload, enabled;
    struct shell_state before;
    size_t scopes; /* that were open when it began */
    bool returned;
};

struct shell {
    struct doctor *doctor;
    const char *title;       /* for people */
    const char *folder;      /* of the script */
    char *const *parameters; /* $1 ..., NULL-terminated */
    bool parameters_known;
    struct shell_state state, outer[SCOPES];
    struct changes changes, outer_changes[SCOPES];
    size_t scopes;
    struct variable {
        char *name, *value; /* value is NULL if it cannot be known */
    } variables[VARIABLES]; /* the last of a name counts */
    struct function {
        char *name, *body;
        bool running;
    } functions[FUNCTIONS];
    size_t function_count;
    unsigned sourced;            /* files that are being read by "." */
    struct shell_call *call;     /* the function that is being read; NULL: none */
    size_t pooled, lost, unseen; /* starts of what uses CUDA; of what cannot be known */
    unsigned depth;
    char here[PATH_MAX]; /* $PWD */
};

static inline enum state weaken(enum state state, bool perhaps) {
    return state == LOST && perhaps ? LOST_PERHAPS : state;
}

/* The shell_reader's questions, whose context is a struct shell. */
const char *shell_value_of(void *context, const char *name, size_t which, bool *known);
void shell_scope(void *context, bool begins);
void shell_loop_variable(void *context, const char *name);

/* Only the first `count` variables stay. */
void shell_forget_variables(struct shell *shell, size_t count);

/* NAME=VALUE for this command alone (`now`), or from here on. `exports`: also of a name that the
 * environment does not have. */
void shell_assign(struct shell *shell, const char *assignment, bool perhaps, bool exports,
                  struct shell_state *state, struct changes *changes);

/* The shell's own commands that change variables, whose name is the word `first`: false if this is
 * none of them. */
bool shell_change_variables(struct shell *shell, const struct shell_command *command, size_t first);

/* What is done to the variables cannot be read: LD_PRELOAD may be among them. */
void shell_lose_perhaps(struct shell *shell);

/* Whether some word from `first` on names what the pool needs. */
bool shell_names_preload(const struct shell_command *command, size_t first);

#endif
