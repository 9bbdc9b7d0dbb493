/* poolcuda doctor: says before the run whether pooling will work for a program on this machine. */
#include "cli/commands.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/verdict.h"
#include "cli/installed.h"
#include "cli/preload.h"
#include "cli/printable.h"
#include "cli/standard_output.h"

#include <argp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    EXIT_WORKS = 0,
    EXIT_WORKS_NOT = 1,
    EXIT_CANNOT_KNOW = 3,
    EXIT_NO_ANSWER = DOCTOR_NO_ANSWER,
    PLUGINS = 64,
    WIDTH = 100,
    INDENT = 10
};

struct arguments {
    char **app; /* NULL-terminated; NULL: the machine only */
    const char *plugins[PLUGINS];
    size_t plugin_count;
    bool json;
};

enum { KEY_JSON = 'j', KEY_WITH_LIBRARY = 'l' };

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case KEY_JSON:
        arguments->json = true;
        return 0;
    case KEY_WITH_LIBRARY:
        if (arguments->plugin_count == PLUGINS)
            argp_error(state, "expected at most %d libraries", PLUGINS);
        if (!*argument)
            argp_error(state, "\"\": expected the name of a library");
        arguments->plugins[arguments->plugin_count++] = argument;
        return 0;
    case ARGP_KEY_ARG: /* the program: everything behind it is its own */
        if (!*argument)
            argp_error(state, "\"\": expected the name of a program");
        arguments->app = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option rows[] = {
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {"with-library", KEY_WITH_LIBRARY, "FILE", 0,
     "a library that the program opens by itself, such as a plugin; may be repeated", 0},
    {0},
};
const struct argp doctor_argp = {
    .options = rows,
    .parser = parse,
    .args_doc = "[--] [PROGRAM [ARGUMENT...]]",
    .doc =
        "Says before the run whether pooling will work for PROGRAM (a program or a script) on this "
        "machine, and what to do if it will not; without PROGRAM, looks at the machine alone. "
        "Nothing of PROGRAM is run.\v"
        "Exits with 0 if pooling will work, 1 if it will not, 2 if an argument is wrong, 3 if it "
        "cannot be known beforehand, 4 if there is no answer: not all could be printed, or memory "
        "ran out.",
};

/* Words, wrapped, every line but the first behind `indent` blanks. */
static void print_wrapped(const char *text, int indent) {
    int column = indent;
    bool first = true;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (!first && column + 1 + length > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            putchar(' ');
            column++;
        }
        printf("%.*s", length, text);
        column += length;
        first = false;
        text += length;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_finding(const struct finding *finding, bool colours) {
    static const char *const paint[] = {"\033[32m", "", "\033[33m", "\033[31m"};
    const char *name = severity_name(finding->severity);
    bool painted = colours && *paint[finding->severity];
    printf("%s%s%s%*s", painted ? paint[finding->severity] : "", name, painted ? "\033[0m" : "",
           (int)(INDENT - strlen(name)), "");
    print_wrapped(finding->what, INDENT);
    if (*finding->cause) {
        printf("%*s", INDENT, "");
        print_wrapped(finding->cause, INDENT);
    }
    if (*finding->remedy) {
        /* In one line, since it may hold a command to copy. */
        printf("%*sremedy: %s\n", INDENT, "", finding->remedy);
    }
}

/* The arguments as one would type them, each after a blank. The caller frees the text; NULL without
 * memory. */
static char *quote_words(char *const *words) {
    char *text = strdup(""), *longer;
    for (; text && words && *words; words++) {
        char *word = printable_word(*words);
        int length = asprintf(&longer, "%s %s", text, word ? word : "");
        free(word);
        free(text);
        text = length < 0 ? NULL : longer;
    }
    return text;
}

/* What to type next, or to do where there is nothing to type. The caller frees it. */
static char *next_step(const struct doctor *doctor, const struct arguments *arguments) {
    const struct finding *problem = findings_problem(&doctor->findings);
    if (doctor->findings.next)
        return strdup(doctor->findings.next);
    if (problem)
        return strdup(problem->remedy);
    char *text;
    int length =
        asprintf(&text, "%s run --%s", doctor->self, arguments->app ? doctor->command : " PROGRAM");
    return length < 0 ? NULL : text;
}

/* Whether the next step is something to do, and no command to type. */
static bool is_prose(const struct findings *findings) {
    return findings_problem(findings) && !findings->next;
}

static void print_text(const struct findings *findings, const char *next) {
    const char *no_colour = getenv("NO_COLOR");
    bool colours = isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
    for (int severity = SEVERITY_PROBLEM; severity >= SEVERITY_OK; severity--)
        for (size_t i = 0; i < findings->count; i++)
            if (findings->list[i].severity == (enum severity)severity)
                print_finding(&findings->list[i], colours);
    static const char *const lines[] = {
        "pooling will work", "pooling will not work; see each problem's remedy",
        "whether pooling will work cannot be known beforehand; see each warning"};
    printf("\n%s\n%s: %s\n", lines[verdict_of(findings)],
           is_prose(findings) ? "what to do" : "next", next);
}

static bool print_json(const struct findings *findings, const struct arguments *arguments,
                       const char *next) {
    json_t *list = json_array();
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s, s:s}", "id", finding->id, "severity",
                                        severity_name(finding->severity), "what", finding->what,
                                        "cause", finding->cause, "remedy", finding->remedy));
    }
    char *app = arguments->app ? printable_copy(arguments->app[0]) : NULL;
    enum verdict verdict = verdict_of(findings);
    json_t *works =
        verdict == VERDICT_CANNOT_KNOW ? json_null() : json_boolean(verdict == VERDICT_WORKS);
    json_t *object = json_pack("{s:i, s:s, s:o, s:s?, s:s, s:o, s:O}", "version", 1, "verdict",
                               verdict_name(verdict), "works", works, "app", app, "next", next,
                               "findings", list, "facts", findings->facts);
    bool printed = object && json_dumpf(object, stdout, JSON_INDENT(2)) == 0;
    putchar('\n');
    json_decref(object);
    free(app);
    return printed;
}

/* Our own ld.so and the library stand for a program that is still to be named. */
static void check_machine_driver(struct doctor *doctor, bool may_simulate) {
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    struct elf_file self = elf_file_read(own);
    if (self.interpreter)
        check_driver(doctor, self.interpreter, doctor->library ? doctor->library : own,
                     may_simulate);
    elf_file_free(&self);
}

int command_doctor(int argc, char **argv) {
    struct arguments arguments = {.app = NULL};
    struct doctor doctor = {.library = NULL};
    char library[PATH_MAX];
    standard_output_loss_status(EXIT_NO_ANSWER);
    argp_parse(&doctor_argp, argc, argv, ARGP_IN_ORDER, NULL, &arguments);
    findings_start(&doctor.findings);
    doctor.command = quote_words(arguments.app);
    bool by_path = strchr(program_invocation_name, '/') != NULL;
    char *self = printable_word(by_path ? program_invocation_name : "poolcuda");
    doctor.self = self;
    if (!doctor.command || !self) {
        free(doctor.command);
        free(self);
        findings_free(&doctor.findings);
        return EXIT_NO_ANSWER;
    }
    char *preload =
        installed_library(library) ? preload_value(getenv("LD_PRELOAD"), library) : NULL;
    doctor.library = preload ? library : NULL;
    doctor.preload = preload;
    check_machine(&doctor);
    for (size_t i = 0; i < arguments.plugin_count; i++)
        check_plugin(&doctor, arguments.plugins[i]);
    if (arguments.app) {
        check_program(&doctor, arguments.app[0], arguments.app + 1);
        check_conclusion(&doctor);
    }
    check_machine_driver(&doctor, !arguments.app);
    preload_remove_link();
    char *next = next_step(&doctor, &arguments);
    bool printed = true;
    if (arguments.json)
        printed = print_json(&doctor.findings, &arguments, next ? next : "");
    else
        print_text(&doctor.findings, next ? next : "");
    static const int codes[] = {EXIT_WORKS, EXIT_WORKS_NOT, EXIT_CANNOT_KNOW};
    int code = printed ? codes[verdict_of(&doctor.findings)] : EXIT_NO_ANSWER;
    free(next);
    for (size_t i = 0; i < doctor.seen_count; i++) {
        free(doctor.seen[i].path);
        free(doctor.seen[i].arguments);
    }
    for (size_t i = 0; i < doctor.doubt_count; i++)
        free(doctor.doubts[i]);
    for (size_t i = 0; i < doctor.caution_count; i++)
        free(doctor.cautions[i]);
    free(doctor.computing);
    free(doctor.command);
    free(self);
    findings_free(&doctor.findings);
    free(preload);
    return code;
}
