/* poolcuda trim: has running programs give idle memory back. */
#include "cli/ask_process.h"
#include "cli/commands.h"
#include "cli/process_argument.h"
#include "cli/size_argument.h"
#include "cli/timeout_argument.h"
#include "cli/usage.h"
#include "report/emitter.h"
#include "report/human.h"

#include <argp.h>
#include <stdio.h>

struct arguments {
    const char *who;
    uint64_t bytes;
    int device; /* -1: all */
    double timeout;
    int count;
};

static int device_argument(const char *text, struct argp_state *state) {
    unsigned long device;
    if (!usage_whole_number(text, 0, 1000, &device))
        usage_error(state, "--device=%s: expected the number of a device, from 0", text);
    return (int)device;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case 'd':
        arguments->device = device_argument(argument, state);
        return 0;
    case 't':
        arguments->timeout = timeout_argument(argument, state);
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->count == 0)
            arguments->who = process_argument(argument, state);
        else if (arguments->count == 1)
            arguments->bytes = bytes_argument("BYTES", argument, state);
        else
            usage_error(state, "%s: expected PID and BYTES only", usage_word(argument));
        arguments->count++;
        return 0;
    case ARGP_KEY_END:
        if (!arguments->count)
            usage_error(state, "no process given; expected its id, or `all`");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"device", 'd', "N", 0, "only this device, by the number it has in the program", 0},
    {"timeout", 't', "S", 0, TIMEOUT_HELP, 0},
    {0},
};
const struct argp trim_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "PID [BYTES]",
    .doc = "Has a running program give idle memory back to the driver: all of it, or whole blocks, "
           "the largest first, until they are at least BYTES (64M, 2G). PID may be `all`.\v"
           "The program does so at its next free, or allocation that no idle block serves at once, "
           "where "
           "that waits for no kernel.",
};

static bool tell(const char *name, const struct mailbox_request *request,
                 const struct mailbox_reply *reply) {
    char text[PAGE_REQUEST];
    (void)request;
    printf("%s: released %s", name, human(reply->released).text);
    if (*reply->text)
        printf(": %s", emitter_clean(text, sizeof text, reply->text));
    putchar('\n');
    return reply->released || !*reply->text;
}

int command_trim(int argc, char **argv) {
    struct arguments arguments = {.bytes = SIZE_MAX, .device = -1, .timeout = TIMEOUT_DEFAULT};
    argp_parse(&trim_argp, argc, argv, 0, NULL, &arguments);
    struct mailbox_request request = {
        .kind = MAILBOX_TRIM, .device = arguments.device, .bytes = arguments.bytes};
    return ask_processes("poolcuda trim", arguments.who, &request, arguments.timeout, tell) ? 0 : 1;
}
