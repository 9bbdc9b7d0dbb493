/* What a shell's text does to variables, among them LD_PRELOAD and POOLCUDA_DISABLE. */
#include "cli/doctor/shell_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void set_variable(struct shell *shell, const char *name, const char *value) {
    struct shell_state *state = &shell->state;
    if (state->variable_count == VARIABLES)
        return;
    struct variable variable = {strdup(name),
                                value && !strchr(value, SHELL_UNKNOWN) ? strdup(value) : NULL};
    if (variable.name)
        shell->variables[state->variable_count++] = variable;
    else
        free(variable.value);
}

void shell_forget_variables(struct shell *shell, size_t count) {
    while (shell->state.variable_count > count) {
        struct variable *last = &shell->variables[--shell->state.variable_count];
        free(last->name);
        free(last->value);
    }
}

/* Variables that the shell itself sets, whatever the environment has. */
static bool is_made_by_shell(const char *name) {
    static const char *const names[] = {
        "PWD",        "OLDPWD", "RANDOM",   "SECONDS",  "LINENO",   "UID",    "EUID",
        "PPID",       "GROUPS", "HOSTNAME", "HOSTTYPE", "REPLY",    "OPTARG", "OPTIND",
        "PIPESTATUS", "SHLVL",  "FUNCNAME", "DIRSTACK", "MACHTYPE", "OSTYPE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "BASH", 4) == 0 || strncmp(name, "EPOCH", 5) == 0;
}

const char *shell_value_of(void *context, const char *name, size_t which, bool *known) {
    struct shell *shell = context;
    const char *pool = shell->doctor->preload ? shell->doctor->preload : "libpoolcuda.so";
    *known = true;
    if (strcmp(name, SHELL_PRELOAD_COMMAND) == 0)
        return pool;
    if (strcmp(name, "LD_PRELOAD") == 0) {
        enum state state = shell->state.hidden ? shell->state.own : shell->state.preload;
        *known = state != LOST_PERHAPS;
        return state == KEPT ? pool : "";
    }
    if (strcmp(name, "@") == 0 || (*name >= '1' && *name <= '9')) {
        size_t wanted = *name == '@' ? which : (size_t)(*name - '0');
        *known = shell->parameters_known;
        for (size_t i = 1; *known && shell->parameters && shell->parameters[i - 1]; i++)
            if (i == wanted)
                return shell->parameters[i - 1];
        return NULL;
    }
    for (size_t i = shell->state.variable_count; i-- > 0;)
        if (strcmp(shell->variables[i].name, name) == 0) {
            *known = shell->variables[i].value != NULL;
            return shell->variables[i].value;
        }
    if (strcmp(name, "/") == 0)
        return shell->folder;
    if (strcmp(name, "PWD") == 0 && !shell->state.elsewhere &&
        getcwd(shell->here, sizeof shell->here))
        return shell->here;
    if (is_made_by_shell(name)) {
        *known = false;
        return NULL;
    }
    const char *value = getenv(name);
    *known = value != NULL || strcmp(name, "0") != 0;
    return value ? value : "";
}

void shell_scope(void *context, bool begins) {
    struct shell *shell = context;
    if (begins) {
        if (shell->scopes < SCOPES) {
            shell->outer[shell->scopes] = shell->state;
            shell->outer_changes[shell->scopes] = shell->changes;
            memset(&shell->changes, 0, sizeof shell->changes);
        }
        shell->scopes++;
    } else if (shell->scopes-- <= SCOPES) {
        size_t count = shell->outer[shell->scopes].variable_count;
        shell_forget_variables(shell, count);
        shell->state = shell->outer[shell->scopes];
        changes_undo(&shell->changes);
        shell->changes = shell->outer_changes[shell->scopes];
    }
}

void shell_loop_variable(void *context, const char *name) {
    if (strcmp(name, "LD_PRELOAD") == 0 || strcmp(name, "POOLCUDA_DISABLE") == 0)
        shell_lose_perhaps(context);
    set_variable(context, name, NULL);
}

/* What a word that stands for LD_PRELOAD's value does to the pool. */
static enum state preload_after(const char *value) {
    if (strstr(value, "libpoolcuda"))
        return KEPT;
    return strchr(value, SHELL_UNKNOWN) ? LOST_PERHAPS : LOST;
}

void shell_assign(struct shell *shell, const char *assignment, bool perhaps, bool exports,
                  struct shell_state *state, struct changes *changes) {
    char name[128];
    size_t length = strcspn(assignment, "=");
    const char *value = assignment + length + (assignment[length] == '=');
    bool appends = length && assignment[length - 1] == '+';
    snprintf(name, sizeof name, "%.*s", (int)(length - appends), assignment);
    if (strcmp(name, "LD_PRELOAD") == 0) {
        enum state *changed = state->hidden && !exports ? &state->own : &state->preload;
        enum state before = state->hidden ? state->own : state->preload;
        enum state after = preload_after(value);
        if (appends && after != KEPT)
            after = before;
        *changed = perhaps && after != *changed ? LOST_PERHAPS : after;
        state->hidden = state->hidden && (!exports || perhaps);
        return;
    }
    if (strcmp(name, "POOLCUDA_DISABLE") == 0) {
        bool known = !strchr(value, SHELL_UNKNOWN);
        bool off = !known || disables(value);
        state->off = off;
        if (exports || state->enabled != KEPT)
            state->enabled = off ? weaken(LOST, perhaps || !known)
                                 : (perhaps ? weaken(state->enabled, true) : KEPT);
        return;
    }
    bool known = !strchr(value, SHELL_UNKNOWN) && !perhaps && !appends;
    if (exports || getenv(name)) {
        if (known)
            changes_set(changes, name, value);
    }
    set_variable(shell, name, known ? value : NULL);
}

void shell_lose_perhaps(struct shell *shell) {
    shell->state.preload = shell->state.own = LOST_PERHAPS;
}

/* LD_PRELOAD is there, but not for programs, or is nowhere any more. */
static void hide_preload(struct shell *shell, enum state own, bool perhaps) {
    struct shell_state *state = &shell->state;
    if (state->preload != LOST)
        state->preload = weaken(LOST, perhaps);
    state->own = perhaps ? LOST_PERHAPS : own;
    state->hidden = state->hidden || !perhaps;
}

static void show_preload(struct shell *shell, bool perhaps) {
    struct shell_state *state = &shell->state;
    if (!state->hidden)
        return;
    state->preload = perhaps && state->own != state->preload ? LOST_PERHAPS : state->own;
    state->hidden = perhaps;
}

/* local and its like in a function: what stands in such a variable before is there again at the
 * function's end. */
static void make_own(struct shell *shell, const char *word) {
    struct shell_call *call = shell->call;
    size_t length = strcspn(word, "+=");
    if (strncmp(word, "LD_PRELOAD", length) == 0 && length == strlen("LD_PRELOAD")) {
        if (!call->preload) {
            call->before.preload = shell->state.preload;
            call->before.hidden = shell->state.hidden;
            call->before.own = shell->state.own;
        }
        call->preload = true;
        if (!word[length]) /* empty, or as before: shells differ */
            shell->state.preload = weaken(LOST, true);
    } else if (strncmp(word, "POOLCUDA_DISABLE", length) == 0 &&
               length == strlen("POOLCUDA_DISABLE")) {
        if (!call->enabled) {
            call->before.enabled = shell->state.enabled;
            call->before.off = shell->state.off;
        }
        call->enabled = true;
    }
}

/* export, declare -x, readonly and their like. */
static void declare(struct shell *shell, const struct shell_command *command, size_t first) {
    const char *name = command->words[first];
    bool exports = strcmp(name, "export") == 0, takes_away = false, other = false;
    bool own = shell->call && !exports && strcmp(name, "readonly") != 0;
    for (size_t i = first + 1; i < command->count; i++) {
        const char *word = command->words[i];
        if (*word == '-' || *word == '+') {
            bool exporting = strcmp(name, "export") == 0;
            own = own && !strchr(word, 'g');
            other = other || (!exporting && strchr(word, 'n')) || strchr(word, SHELL_UNKNOWN);
            exports = exports || (*word == '-' && strchr(word, 'x'));
            takes_away = takes_away || (exporting && strchr(word, 'n')) ||
                         (*word == '+' && strchr(word, 'x'));
            continue;
        }
        size_t length = strcspn(word, "=");
        if (memchr(word, SHELL_UNKNOWN, length) ||
            (other && (strstr(word, "LD_PRELOAD") || strchr(word, SHELL_UNKNOWN))))
            shell_lose_perhaps(shell);
        if (own)
            make_own(shell, word);
        if (takes_away && length == strlen("LD_PRELOAD") &&
            strncmp(word, "LD_PRELOAD", length) == 0) {
            hide_preload(shell, word[length] ? preload_after(word + length) : shell->state.preload,
                         command->perhaps);
        } else if (exports && strcmp(word, "LD_PRELOAD") == 0) {
            show_preload(shell, command->perhaps);
        } else if (strchr(word, '=')) {
            shell_assign(shell, word, command->perhaps, exports, &shell->state, &shell->changes);
        } else if (exports && strcmp(word, "POOLCUDA_DISABLE") == 0 && shell->state.off) {
            shell->state.enabled = weaken(LOST, command->perhaps);
        } else if (exports) {
            bool known = false;
            const char *value = shell_value_of(shell, word, 0, &known);
            if (known && value && strcmp(word, "LD_PRELOAD") != 0)
                changes_set(&shell->changes, word, value);
        }
    }
}

static void unset(struct shell *shell, const struct shell_command *command, size_t first) {
    for (size_t i = first + 1; i < command->count; i++) {
        const char *word = command->words[i];
        if (*word == '-' && strchr(word, 'f'))
            return; /* a function */
        if (strchr(word, SHELL_UNKNOWN)) {
            shell_lose_perhaps(shell);
        } else if (strcmp(word, "LD_PRELOAD") == 0) {
            hide_preload(shell, LOST, command->perhaps);
        } else if (strcmp(word, "POOLCUDA_DISABLE") == 0) {
            shell->state.off = false;
            shell->state.enabled = weaken(shell->state.enabled == KEPT ? KEPT : LOST, true);
            if (!command->perhaps)
                shell->state.enabled = KEPT;
        } else if (*word != '-') {
            set_variable(shell, word, command->perhaps ? NULL : "");
            if (!command->perhaps)
                changes_set(&shell->changes, word, NULL);
        }
    }
}

/* Whether some word could do to LD_PRELOAD what is not understood here. */
bool shell_names_preload(const struct shell_command *command, size_t first) {
    for (size_t i = first; i < command->count; i++)
        if (strstr(command->words[i], "LD_PRELOAD") ||
            strstr(command->words[i], "POOLCUDA_DISABLE"))
            return true;
    return false;
}

/* read, mapfile and printf -v set variables that they are given by name. */
static bool fills_variables(const struct shell_command *command, size_t first) {
    static const char *const names[] = {"read", "mapfile", "readarray", "getopts", "let"};
    const char *name = command->words[first];
    const char *next = first + 1 < command->count ? command->words[first + 1] : "";
    bool fills = strcmp(name, "printf") == 0 && strncmp(next, "-v", 2) == 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        fills = fills || strcmp(name, names[i]) == 0;
    return fills;
}

bool shell_change_variables(struct shell *shell, const struct shell_command *command,
                            size_t first) {
    static const char *const declaring[] = {"export", "declare", "typeset", "local", "readonly"};
    const char *name = command->words[first];
    for (size_t i = 0; i < sizeof declaring / sizeof declaring[0]; i++)
        if (strcmp(name, declaring[i]) == 0) {
            declare(shell, command, first);
            return true;
        }
    if (strcmp(name, "unset") == 0) {
        unset(shell, command, first);
        return true;
    }
    if (!fills_variables(command, first))
        return false;
    bool only_name = strcmp(name, "printf") == 0;
    for (size_t i = first + 1; i < command->count && (!only_name || i < first + 3); i++)
        if (strchr(command->words[i], SHELL_UNKNOWN))
            shell_lose_perhaps(shell);
    if (shell_names_preload(command, first + 1))
        shell_lose_perhaps(shell);
    return true;
}
