#include "interpose/steer.h"

#include "interpose/state.h"

/* Whether a request was tried often enough: each time costs the program some calls. The mailbox
 * gives it to one thread at a time. */
static bool is_overdue(const struct mailbox_request *request) {
    enum { MOST_TRIES = 1000 };
    static uint32_t serial, tries;
    tries = request->serial == serial ? tries + 1 : 0;
    serial = request->serial;
    return tries >= MOST_TRIES;
}

/* Returns false if it is to be tried again at a later call. */
static bool release(struct pool *pool, const struct mailbox_request *request, bool may_wait) {
    size_t released;
    if (pool_is_capturing(pool)) {
        mailbox_answer(request, 0, "a stream is being captured: nothing can be released just now");
        return true;
    }
    bool complete = pool_give_up(pool, request->device, request->bytes, may_wait, &released);
    if (!complete && !released && !is_overdue(request))
        return false;
    stats_add(STATS_given_up_bytes, released);
    mailbox_answer(request, released,
                   complete ? "" : "other work is under way: there may be more later");
    return true;
}

static void set(struct pool *pool, const struct mailbox_request *request) {
    char error[PAGE_REQUEST];
    struct pool_config config;
    if (state_set_option(request->text, &config, error, sizeof error)) {
        pool_set_config(pool, &config, POOL_SET_ALL);
        stats_option(request->text);
        error[0] = '\0';
    }
    mailbox_answer(request, 0, error);
}

void steer_answer(struct pool *pool, bool may_wait) {
    struct mailbox_request request;
    if (!mailbox_take(&request))
        return;
    switch (request.kind) {
    case MAILBOX_TRIM:
    case MAILBOX_GIVE_UP:
        if (!release(pool, &request, may_wait)) {
            mailbox_postpone();
            return;
        }
        break;
    case MAILBOX_SET:
        set(pool, &request);
        break;
    case MAILBOX_NOTHING:
    case MAILBOX_KINDS:
        mailbox_answer(&request, 0, "");
        return;
    }
    stats_add(STATS_requests_answered, 1);
}
