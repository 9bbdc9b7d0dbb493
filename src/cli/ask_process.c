#include "cli/ask_process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum state { GONE, LOCKED_OUT, POSTED, BEGUN, ANSWERED };

struct asked {
    const struct live_process *process;
    struct share_page page;
    enum state state;
    struct mailbox_request request;
};

/* Why a process that was named is none of those that can be asked. */
static void explain(const char *command, const char *who) {
    char *end;
    long process = strtol(who, &end, 10);
    if (*end) /* of another pid namespace */
        fprintf(stderr, "%s: %.40s: no such process\n", command, who);
    else if (kill((pid_t)process, 0) != 0 && errno == ESRCH)
        fprintf(stderr, "%s: %ld: no such process\n", command, process);
    else if (kill((pid_t)process, 0) != 0)
        fprintf(stderr, "%s: %ld: another user's process; only its owner can ask it\n", command,
                process);
    else
        fprintf(stderr,
                "%s: %ld: not a pooled process: it was started without libpoolcuda.so or with "
                "POOLCUDA_SHARE=0, uses no CUDA yet, or is another user's\n",
                command, process);
}

/* Posts it where nobody else is asking just now. */
static void post(struct asked *asked) {
    struct stats_head head;
    /* It may have come to its end meanwhile. */
    if (!share_read_head(&asked->page, &head) || !asked->page.live || head.finished)
        asked->state = GONE;
    else if (mailbox_post(&asked->page.live->mailbox, &asked->request))
        asked->state = POSTED;
}

static void begin(int folder, struct asked *asked, const struct mailbox_request *request,
                  uint64_t until_ns) {
    asked->state = GONE;
    asked->request = *request;
    asked->request.until_ns = until_ns;
    if (share_open_page(folder, asked->process->name, true, &asked->page))
        asked->state = LOCKED_OUT;
}

static void look(struct asked *asked, struct mailbox_reply *reply) {
    switch (mailbox_look(&asked->page.live->mailbox, &asked->request, reply)) {
    case MAILBOX_WAITS:
        return;
    case MAILBOX_ANSWERED:
        asked->state = ANSWERED;
        mailbox_leave(&asked->page.live->mailbox, &asked->request);
        return;
    case MAILBOX_LOST: /* what is asked for may be done twice */
        asked->state = LOCKED_OUT;
        return;
    }
}

static void leave(struct asked *asked) {
    static const enum state ends[] = {
        [MAILBOX_WITHDRAWN] = POSTED, [MAILBOX_BEGUN] = BEGUN, [MAILBOX_TAKEN_OVER] = LOCKED_OUT};
    if (asked->state == POSTED)
        asked->state = ends[mailbox_leave(&asked->page.live->mailbox, &asked->request)];
}

static void missed(const char *command, const struct asked *asked, double timeout) {
    const char *name = asked->process->name;
    if (asked->state == GONE || (asked->process->here && share_is_stale(&asked->process->head)))
        fprintf(stderr, "%s: %s: has ended\n", command, name);
    else if (asked->state == LOCKED_OUT)
        fprintf(stderr, "%s: %s: not answered within %g s: others are asking it just now\n",
                command, name, timeout);
    else if (asked->state == BEGUN)
        fprintf(stderr, "%s: %s: not answered within %g s: it is about to do it\n", command, name,
                timeout);
    else
        fprintf(stderr,
                "%s: %s: not answered within %g s: it allocates and frees no memory just now; "
                "nothing was done\n",
                command, name, timeout);
}

/* Posts all, and waits for the answers. */
static void wait_for_answers(struct asked *asked, size_t count, uint64_t until_ns,
                             struct mailbox_reply *replies) {
    const struct timespec step = {.tv_nsec = 1000 * 1000};
    for (;;) {
        bool waits = false;
        for (size_t i = 0; i < count; i++) {
            if (asked[i].state == LOCKED_OUT)
                post(&asked[i]);
            if (asked[i].state == POSTED)
                look(&asked[i], &replies[i]);
            waits = waits || asked[i].state == POSTED || asked[i].state == LOCKED_OUT;
        }
        if (!waits || live_now() >= until_ns)
            return;
        nanosleep(&step, NULL);
    }
}

static bool ask(const char *command, struct asked *asked, size_t count,
                const struct mailbox_request *request, double timeout,
                struct mailbox_reply *replies,
                bool (*tell)(const char *name, const struct mailbox_request *request,
                             const struct mailbox_reply *reply)) {
    bool good = true;
    int folder = share_folder_open(false);
    uint64_t until_ns = live_now() + (uint64_t)(timeout * 1e9);
    for (size_t i = 0; i < count; i++)
        begin(folder, &asked[i], request, until_ns);
    if (folder >= 0)
        close(folder);
    wait_for_answers(asked, count, until_ns, replies);
    for (size_t i = 0; i < count; i++) {
        leave(&asked[i]);
        if (asked[i].state == ANSWERED) {
            good = tell(asked[i].process->name, request, &replies[i]) && good;
        } else {
            missed(command, &asked[i], timeout);
            good = false;
        }
        share_close_page(&asked[i].page);
    }
    return good;
}

/* Chooses the processes that are asked; returns how many. */
static size_t choose(const struct live_list *list, const char *who, struct asked *asked) {
    const struct live_process *one = live_find(list, who);
    size_t count = 0;
    if (strcmp(who, "all") == 0)
        for (; count < list->count; count++)
            asked[count].process = &list->processes[count];
    else if (one)
        asked[count++].process = one;
    return count;
}

bool ask_processes(const char *command, const char *who, const struct mailbox_request *request,
                   double timeout,
                   bool (*tell)(const char *name, const struct mailbox_request *request,
                                const struct mailbox_reply *reply)) {
    struct live_list list;
    char error[256];
    bool good = false;
    if (!live_list(&list, LIVE_OWN, error, sizeof error)) {
        fprintf(stderr, "%s: %s\n", command, error);
        return false;
    }
    live_tell_missed(&list, command);
    struct asked *asked = calloc(list.count + 1, sizeof *asked);
    struct mailbox_reply *replies = calloc(list.count + 1, sizeof *replies);
    if (!asked || !replies) {
        fprintf(stderr, "%s: not enough memory for the list of processes\n", command);
    } else {
        size_t count = choose(&list, who, asked);
        if (count)
            good = ask(command, asked, count, request, timeout, replies, tell);
        else if (strcmp(who, "all") == 0)
            fprintf(stderr, "%s: no pooled program of yours is running\n", command);
        else
            explain(command, who);
    }
    free(asked);
    free(replies);
    live_free(&list);
    return good;
}
