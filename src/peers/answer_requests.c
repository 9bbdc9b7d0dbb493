#include "peers/answer_requests.h"

#include "base/clock.h"
#include "counters/own_page.h"
#include "options/pool_options.h"

/* Whether the one that asked gives up by now. It withdraws its request itself, unless it was
 * killed: nobody wants any more what it asked for, and each try costs the program some calls. */
static bool is_over(const struct mailbox_request *request) {
    return clock_ns(CLOCK_MONOTONIC) >= request->until_ns;
}

/* Returns false if it is to be tried again at a later call. */
static bool release(struct pool *pool, const struct mailbox_request *request, bool may_wait) {
    size_t released;
    if (pool_is_capturing(pool)) {
        mailbox_answer(request, 0, "a stream is being captured: nothing can be released just now");
        return true;
    }
    if (request->kind == MAILBOX_TRIM && request->device >= 0 &&
        !pool_uses_device(pool, request->device)) {
        mailbox_answer(request, 0, "the program has allocated nothing on a device of that number");
        return true;
    }
    bool complete = pool_give_up(pool, request->device, request->bytes, may_wait, &released);
    if (!complete && !released)
        return false;
    stats_add(STATS_given_up_bytes, released);
    mailbox_answer(request, released,
                   complete ? "" : "other work is under way: there may be more later");
    return true;
}

/* That setting alone: the program may have changed the others itself (poolcuda_set_limit). */
static void set(struct pool *pool, const struct mailbox_request *request) {
    char error[PAGE_REQUEST];
    struct options asked;
    size_t row;
    options_parse(&asked, NULL, NULL);
    if (options_set_live(&asked, request->text, &row, error, sizeof error)) {
        struct pool_config config = pool_config_from(&asked);
        pool_set_config(pool, &config, pool_setting_of(row));
        stats_option(request->text);
        error[0] = '\0';
    }
    mailbox_answer(request, 0, error);
}

void steer_answer(struct pool *pool, bool may_wait) {
    struct mailbox_request request;
    if (!mailbox_take(&request))
        return;
    if (request.kind != MAILBOX_NOTHING && is_over(&request)) {
        mailbox_answer(&request, 0, "the request comes too late: nothing was done");
        return;
    }
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
        mailbox_refuse(&request);
        return;
    }
    stats_add(STATS_requests_answered, 1);
}
