/* What the doctor checks of a shell's text: the commands that it gives, one by one, and what
 * becomes of LD_PRELOAD before them. */
#include "cli/doctor/launchers.h"
#include "cli/doctor/python_path.h"
#include "cli/doctor/script.h"
#include "cli/doctor/shell_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_text(struct shell *shell, const char *text, size_t length, bool perhaps);

static void define_function(void *context, const char *name, const char *body, size_t length) {
    struct shell *shell = context;
    if (shell->function_count == FUNCTIONS)
        return;
    struct function function = {strdup(name), strndup(body, length), false};
    if (function.name && function.body) {
        shell->functions[shell->function_count++] = function;
    } else {
        free(function.name);
        free(function.body);
    }
}

static void go(struct shell *shell, const char *folder) {
    if (!folder || strchr(folder, SHELL_UNKNOWN) || !changes_go(&shell->changes, folder))
        shell->state.elsewhere = true;
}

/* Arguments that are only data for these; what they do not name they do not start. */
static bool takes_data(const char *name) {
    static const char *const names[] = {
        "echo",     "printf",  "test",   "[",        "true",   "false",  ":",       "exit",
        "return",   "read",    "wait",   "ulimit",   "umask",  "alias",  "type",    "hash",
        "pwd",      "getopts", "let",    "jobs",     "kill",   "module", "unalias", "break",
        "continue", "times",   "shopt",  "complete", "fg",     "bg",     "dirs",    "disown",
        "history",  "bind",    "caller", "compgen",  "enable", "logout"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* A program that uses CUDA is started. `from` is the count of findings before it was looked at. */
static void tell_start(struct shell *shell, const char *name, const struct shell_state *state,
                       size_t from) {
    struct doctor *doctor = shell->doctor;
    struct findings *findings = &doctor->findings;
    bool lost = false;
    for (size_t i = from; i < findings->count; i++)
        lost = lost || (findings->list[i].severity == SEVERITY_PROBLEM &&
                        (strcmp(findings->list[i].id, "preload-lost") == 0 ||
                         strcmp(findings->list[i].id, "disabled") == 0));
    bool own = !lost && (state->preload == LOST || state->enabled == LOST);
    if (own && state->preload == LOST) {
        findings_add(findings, "preload-lost", SEVERITY_PROBLEM, "%s starts %s without LD_PRELOAD",
                     shell->title, name);
        findings_cause(findings, "its text takes that variable away or sets it anew");
        findings_remedy(findings, "take that out of %s, or start the program there by poolcuda run",
                        shell->title);
    } else if (own) {
        findings_add(findings, "disabled", SEVERITY_PROBLEM,
                     "%s starts %s with POOLCUDA_DISABLE: the library does nothing", shell->title,
                     name);
        findings_remedy(findings, "take POOLCUDA_DISABLE out of %s", shell->title);
    }
    if (lost || own) {
        shell->lost++;
    } else if (state->preload == LOST_PERHAPS || state->enabled == LOST_PERHAPS) {
        doctor_caution(doctor,
                       "whether %s starts %s with LD_PRELOAD, and without POOLCUDA_DISABLE, "
                       "depends on what it finds as it runs",
                       shell->title, name);
    } else {
        shell->pooled++;
    }
    if (state->elsewhere && *name != '/' && strchr(name, '/'))
        doctor_caution(doctor, "%s starts %s in a folder that cannot be known from its text",
                       shell->title, name);
}

/* Programs of the system that use no CUDA are not asked for what they load, unless they start
 * others. */
static bool is_worth_looking(const char *word, const char *path) {
    bool system = strncmp(path, "/usr/", 5) == 0 || strncmp(path, "/bin/", 5) == 0;
    if (launcher_find(word, path) || python_is_interpreter(word) || shell_is(path))
        return true;
    struct elf_file file = elf_file_read(path);
    bool by_path = strchr(word, '/') != NULL;
    bool worth = (file.kind == ELF_GOOD &&
                  (routes_of(&file, path) || program_starts_others(&file) ||
                   (!system && by_path && file.needed_count > 1 && !file.is_static))) ||
                 ((file.kind == ELF_SCRIPT || script_is_text(path)) && by_path);
    elf_file_free(&file);
    return worth;
}

/* What is behind a name that cannot be known: any of the arguments may be started. */
static void start_unknown(struct shell *shell, char *const *words) {
    shell->unseen++;
    check_arguments(shell->doctor, shell->title, words);
}

static void start(struct shell *shell, const struct shell_command *command, size_t first) {
    struct doctor *doctor = shell->doctor;
    char *const *words = command->words + first;
    if (first >= command->count || !words[0])
        return;
    char *path = script_find_program(words[0]);
    struct shell_state here = shell->state;
    /* A launcher that this machine lacks may be where the script is meant to run. */
    bool launches = !path && launcher_find(words[0], words[0]);
    if (!path && words[1] && !launches) {
        start_unknown(shell, words + 1);
        return;
    }
    if (!launches && (!path || access(path, X_OK) != 0 || !is_worth_looking(words[0], path))) {
        free(path);
        return;
    }
    bool pools =
        strcmp(base_name(words[0]), "poolcuda") == 0 && words[1] && strcmp(words[1], "run") == 0;
    if (pools)
        here.preload = KEPT;
    bool before = doctor->cuda_seen, barred = doctor->cuda_barred;
    size_t from = doctor->findings.count;
    doctor->cuda_seen = doctor->cuda_barred = false;
    if (launches) {
        check_launcher(doctor, words[0], words[0], words + 1);
    } else if (command->input && !words[1] && (shell_is(path) || python_is_interpreter(words[0]))) {
        struct python_program python = {words[0], path, NULL, NULL, false, 0};
        if (shell_is(path))
            check_shell_text(doctor, shell->title, shell->folder, command->input, NULL);
        else
            check_python_code(doctor, &python, shell->title, command->input);
    } else {
        check_program(doctor, words[0], words + 1);
    }
    bool cuda = doctor->cuda_seen;
    if (cuda)
        tell_start(shell, words[0], &here, from);
    else if (!doctor->cuda_barred)
        findings_drop_problems(&doctor->findings, from);
    doctor->cuda_seen = cuda || before;
    doctor->cuda_barred = doctor->cuda_barred || barred;
    free(path);
}

static void call_function(struct shell *shell, struct function *function,
                          const struct shell_command *command, size_t first) {
    char *const *parameters = shell->parameters;
    bool known = shell->parameters_known;
    if (function->running)
        return;
    function->running = true;
    struct shell_call *outer = shell->call, call = {.scopes = shell->scopes};
    shell->call = &call;
    shell->parameters = command->words + first + 1;
    shell->parameters_known = !command->all_unknown;
    read_text(shell, function->body, strlen(function->body), command->perhaps);
    shell->call = outer;
    if (call.preload) {
        shell->state.preload = call.before.preload;
        shell->state.hidden = call.before.hidden;
        shell->state.own = call.before.own;
    }
    if (call.enabled) {
        shell->state.enabled = call.before.enabled;
        shell->state.off = call.before.off;
    }
    shell->parameters = parameters;
    shell->parameters_known = known;
    function->running = false;
}

static void read_file(struct shell *shell, const char *path, bool perhaps) {
    size_t length = 0;
    if (strchr(path, SHELL_UNKNOWN) || (shell->state.elsewhere && *path != '/')) {
        shell_lose_perhaps(shell);
        return;
    }
    char *found = strchr(path, '/') ? strdup(path) : script_find_program(path);
    char *text = script_read_bytes(found ? found : path, 1 << 20, &length);
    shell->sourced++;
    if (text)
        read_text(shell, text, length, perhaps);
    shell->sourced--;
    free(text);
    free(found);
}

static void evaluate(struct shell *shell, const struct shell_command *command, size_t first) {
    char text[1 << 14] = "";
    size_t length = 0;
    bool known = true;
    for (size_t i = first + 1; i < command->count; i++) {
        known = known && !strchr(command->words[i], SHELL_UNKNOWN);
        int more = snprintf(text + length, sizeof text - length, "%s ", command->words[i]);
        length += more > 0 && (size_t)more < sizeof text - length ? (size_t)more : 0;
    }
    if (known) {
        read_text(shell, text, length, command->perhaps);
    } else {
        shell->unseen++;
        shell_lose_perhaps(shell);
    }
}

/* set -- WORD ..., and shift: the words are kept by whoever reads this command, not by us. */
static void change_parameters(struct shell *shell, const struct shell_command *command,
                              size_t first) {
    bool shifts = strcmp(command->words[first], "shift") == 0;
    size_t count = command->count > first + 1 && command->words[first + 1]
                       ? strtoul(command->words[first + 1], NULL, 10)
                       : 1;
    if (!shifts) {
        for (size_t i = first + 1; i < command->count; i++)
            if (command->words[i] && ((*command->words[i] != '-' && *command->words[i] != '+') ||
                                      strcmp(command->words[i], "--") == 0))
                shell->parameters_known = false;
        return;
    }
    if (command->perhaps)
        shell->parameters_known = false;
    while (count-- && shell->parameters && *shell->parameters)
        shell->parameters++;
}

/* Past exec, command and builtin with their options; the word that is the command then. */
static size_t pass_prefixes(const struct shell_command *command, size_t first,
                            struct shell_state *state) {
    while (first < command->count) {
        const char *word = command->words[first];
        bool exec = strcmp(word, "exec") == 0;
        if (!exec && strcmp(word, "command") != 0 && strcmp(word, "builtin") != 0)
            break;
        for (first++; first < command->count && *command->words[first] == '-'; first++) {
            if (exec && strchr(command->words[first], 'c'))
                state->preload = LOST;
            if (exec && strchr(command->words[first], 'a'))
                first++;
            if (!exec && strpbrk(command->words[first], "vV"))
                return command->count;
        }
    }
    return first;
}

/* Whether this ends the shell whatever becomes of it: exec with a program. */
static bool is_replaced(const struct shell_command *command, size_t first) {
    bool exec = false;
    for (size_t i = command->assignments; i < first; i++)
        exec = exec || strcmp(command->words[i], "exec") == 0;
    return exec && !command->perhaps && !strchr(command->words[first], SHELL_UNKNOWN);
}

static void run(struct shell *shell, const struct shell_command *command, size_t first) {
    const char *name = command->words[first];
    char *const *words = command->words + first;
    if (strchr(name, SHELL_UNKNOWN)) {
        if (shell_names_preload(command, first))
            shell_lose_perhaps(shell);
        start_unknown(shell, words);
        return;
    }
    for (size_t i = shell->function_count; i-- > 0;)
        if (strcmp(shell->functions[i].name, name) == 0) {
            call_function(shell, &shell->functions[i], command, first);
            return;
        }
    if (shell_change_variables(shell, command, first))
        return;
    if (strcmp(name, "exit") == 0 && !command->perhaps)
        shell->state.ended = true;
    if (strcmp(name, "return") == 0 && !command->perhaps && shell->call && !shell->sourced)
        shell->call->returned = shell->call->scopes == shell->scopes;
    if (strcmp(name, "cd") == 0 || strcmp(name, "pushd") == 0)
        go(shell, words[1] ? words[1] : getenv("HOME"));
    else if (strcmp(name, "popd") == 0)
        shell->state.elsewhere = true;
    else if (strcmp(name, "eval") == 0)
        evaluate(shell, command, first);
    else if ((strcmp(name, ".") == 0 || strcmp(name, "source") == 0) && words[1])
        read_file(shell, words[1], command->perhaps);
    else if (strcmp(name, "trap") == 0 && words[1])
        read_text(shell, words[1], strlen(words[1]), true);
    else if (strcmp(name, "set") == 0 || strcmp(name, "shift") == 0)
        change_parameters(shell, command, first);
    else if (!takes_data(name))
        start(shell, command, first);
}

static void take_command(void *context, const struct shell_command *command) {
    struct shell *shell = context;
    struct changes changes = {.count = 0};
    size_t variables = shell->state.variable_count;
    if (shell->depth > DOCTOR_DEEPEST || shell->state.ended ||
        (shell->call && shell->call->returned))
        return;
    if (command->apart)
        shell_scope(shell, true);
    if (command->assignments == command->count) {
        for (size_t i = 0; i < command->count; i++)
            shell_assign(shell, command->words[i], command->perhaps, false, &shell->state,
                         &shell->changes);
    } else {
        struct shell_state state = shell->state;
        for (size_t i = 0; i < command->assignments; i++)
            shell_assign(shell, command->words[i], false, true, &state, &changes);
        /* What was assigned for this command alone is not expanded in it. */
        shell_forget_variables(shell, variables);
        size_t first = pass_prefixes(command, command->assignments, &state);
        if (first < command->count) {
            struct shell_state before = shell->state;
            shell->state.preload = state.preload;
            shell->state.enabled = state.enabled;
            shell->state.hidden = state.hidden;
            run(shell, command, first);
            if (command->assignments) {
                shell->state.preload = before.preload;
                shell->state.enabled = before.enabled;
                shell->state.hidden = before.hidden;
            }
            if (is_replaced(command, first))
                shell->state.ended = true;
        }
        changes_undo(&changes);
    }
    if (command->apart)
        shell_scope(shell, false);
}

static void read_text(struct shell *shell, const char *text, size_t length, bool perhaps) {
    const struct shell_reader reader = {shell,          take_command,    shell_scope,
                                        shell_value_of, define_function, shell_loop_variable};
    if (shell->depth > DOCTOR_DEEPEST)
        return;
    shell->depth++;
    shell_text_read(&reader, text, length, perhaps);
    shell->depth--;
}

/* Some starts are pooled and some are not, or may be others that are not seen: no verdict. */
static void soften(struct shell *shell, size_t from) {
    struct doctor *doctor = shell->doctor;
    if (!shell->lost || !(shell->pooled || shell->unseen))
        return;
    if (findings_soften(&doctor->findings, from, "preload-lost") +
        findings_soften(&doctor->findings, from, "disabled"))
        doctor_caution(doctor,
                       "%s does not start all of its programs with LD_PRELOAD, and without "
                       "POOLCUDA_DISABLE",
                       shell->title);
}

void check_shell_text(struct doctor *doctor, const char *title, const char *folder,
                      const char *text, char *const *parameters) {
    if (doctor->depth >= DOCTOR_DEEPEST)
        return;
    struct shell *shell = calloc(1, sizeof *shell);
    size_t from = doctor->findings.count;
    if (!shell)
        return;
    shell->doctor = doctor;
    shell->title = title;
    shell->folder = folder;
    shell->parameters = parameters;
    shell->parameters_known = true;
    doctor->depth++;
    read_text(shell, text, strlen(text), false);
    doctor->depth--;
    changes_undo(&shell->changes);
    soften(shell, from);
    doctor_doubt(doctor, "%s starts programs that cannot all be told from its text", title);
    shell_forget_variables(shell, 0);
    for (size_t i = 0; i < shell->function_count; i++) {
        free(shell->functions[i].name);
        free(shell->functions[i].body);
    }
    free(shell);
}
