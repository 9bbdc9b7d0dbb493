/* Asking running processes for something, for `poolcuda trim` and `poolcuda set`. */
#ifndef POOLCUDA_CLI_ASK_PROCESS_H
#define POOLCUDA_CLI_ASK_PROCESS_H

#include "cli/live.h"
#include "peers/mailbox.h"

/* Posts the request to the process named `who`, or to all if that is "all", and waits up to
 * `timeout` seconds for all the answers. Each is handed to tell(), which returns whether it is a
 * good one. For each answer that does not come one line on standard error, which begins with
 * `command`, says why. Returns whether all came and were good. */
bool ask_processes(const char *command, const char *who, const struct mailbox_request *request,
                   double timeout,
                   bool (*tell)(const char *name, const struct mailbox_request *request,
                                const struct mailbox_reply *reply));

#endif
