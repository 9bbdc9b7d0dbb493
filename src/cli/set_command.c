/* poolcuda set: changes options of running programs. */
#include "cli/ask_process.h"
#include "cli/commands.h"
#include "cli/process_argument.h"
#include "cli/timeout_argument.h"
#include "cli/usage.h"
#include "options/options.h"
#include "report/emitter.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SETTINGS = 32 };

struct arguments {
    const char *who;
    double timeout;
    const char *settings[MOST_SETTINGS];
    int count;
};

/* POOLCUDA_NAME=VALUE, or NAME=VALUE, as the latter. */
static const char *without_prefix(const char *setting) {
    static const char prefix[] = "POOLCUDA_";
    bool whole = strncmp(setting, prefix, sizeof prefix - 1) == 0;
    return setting + (whole ? sizeof prefix - 1 : 0);
}

static void add_setting(struct arguments *arguments, const char *setting,
                        const struct argp_state *state) {
    if (!strcspn(without_prefix(setting), "="))
        usage_error(state, "\"%s\": expected NAME=VALUE, as in MAX_IDLE=64M", setting);
    arguments->settings[arguments->count++] = setting;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case 't':
        arguments->timeout = timeout_argument(argument, state);
        return 0;
    case ARGP_KEY_ARG:
        if (!arguments->who)
            arguments->who = process_argument(argument, state);
        else if (arguments->count == MOST_SETTINGS)
            usage_error(state, "%s: expected at most %d settings", usage_word(argument),
                        MOST_SETTINGS);
        else
            add_setting(arguments, argument, state);
        return 0;
    case ARGP_KEY_END:
        if (!arguments->count)
            usage_error(state, "expected a process and what to set: PID NAME=VALUE");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"timeout", 't', "S", 0, TIMEOUT_HELP, 0},
    {0},
};
const struct argp set_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "PID NAME=VALUE...",
    .doc = "Changes options of a running program, from its next free on. NAME may be "
           "without POOLCUDA_; `poolcuda options` tells which may change. PID may be `all`.",
};

static bool tell(const char *name, const struct mailbox_request *request,
                 const struct mailbox_reply *reply) {
    char text[PAGE_REQUEST];
    if (*reply->text)
        fprintf(stderr, "poolcuda set: %s: %s\n", name,
                emitter_clean(text, sizeof text, reply->text));
    else
        printf("%s: %s\n", name, request->text);
    return !*reply->text;
}

static void say_nothing(const char *line) {
    (void)line;
}

/* Prepares the request, with the setting as the process will check it. False: a line has said why
 * it is none. */
static bool prepare(const char *setting, struct mailbox_request *request) {
    struct options scratch;
    char error[320];
    size_t row;
    options_parse(&scratch, NULL, say_nothing);
    *request = (struct mailbox_request){.kind = MAILBOX_SET, .device = -1};
    if ((size_t)snprintf(request->text, sizeof request->text, "POOLCUDA_%s",
                         without_prefix(setting)) >= sizeof request->text)
        snprintf(error, sizeof error, "a setting of more than %zu bytes", sizeof request->text - 1);
    else if (options_set_live(&scratch, request->text, &row, error, sizeof error))
        return true;
    fprintf(stderr, "poolcuda set: %s\n", error);
    return false;
}

/* Whether a line has said that the last of them sets an option once more. */
static bool sets_again(const struct mailbox_request *requests, int last) {
    int length = (int)strcspn(requests[last].text, "=");
    for (int i = 0; i < last; i++) {
        if (strncmp(requests[i].text, requests[last].text, (size_t)length + 1) != 0)
            continue;
        fprintf(stderr, "poolcuda set: %.*s: given twice, expected one value; nothing was set\n",
                length, requests[last].text);
        return true;
    }
    return false;
}

int command_set(int argc, char **argv) {
    struct arguments arguments = {.timeout = TIMEOUT_DEFAULT};
    struct mailbox_request requests[MOST_SETTINGS];
    bool good = true;
    argp_parse(&set_argp, argc, argv, 0, NULL, &arguments);
    for (int i = 0; i < arguments.count; i++) /* all are good before the first is set */
        if (!prepare(arguments.settings[i], &requests[i]) || sets_again(requests, i))
            return EXIT_USAGE;
    for (int i = 0; i < arguments.count && good; i++)
        good = ask_processes("poolcuda set", arguments.who, &requests[i], arguments.timeout, tell);
    return good ? 0 : 1;
}
