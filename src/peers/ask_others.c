#include "peers/ask_others.h"

#include "base/clock.h"
#include "base/raw_files.h"
#include "counters/shards.h"
#include "peers/answer_requests.h"
#include "peers/mailbox.h"
#include "peers/share_folder.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_ASKED = 64,      /* processes at a time: MPS has fewer on a GPU */
    MOST_SILENT = 64,     /* processes that are remembered */
    STEP_NS = 500 * 1000, /* between two looks at the answers */
    STEPS_ALIVE = 4       /* so many looks later it is seen whether the asked live */
};

/* A process that let a request go unanswered: `life` is the number of its calls then. One that has
 * the place of another in the table makes that one forgotten. */
struct silent {
    uint64_t process, born, life;
};
static struct silent silent[MOST_SILENT];
static atomic_flag silent_in_use = ATOMIC_FLAG_INIT;

/* How often this process and its parents have been forked. A signal's handler may fork in the midst
 * of a call, which goes on in the child: it finds zeros in the place of the others' pages, and asks
 * no more. */
static atomic_uint forks;

/* Invariant: the page is joined while the process is asked; once `posted` the mailbox may be ours.
 * ending: it has answered that it comes to its end, and gives what it has to the driver. */
struct asked {
    struct share_page page;
    bool posted, ending;
    uint64_t process, born, life;
    struct mailbox_request request;
};

/* All that one call has to do with: on the heap, as some threads have less stack. `head` is the one
 * that was read last. */
struct asking {
    struct asked asked[MOST_ASKED];
    struct stats_head head;
    size_t count, waiting; /* of `asked` */
    size_t released;
    bool ended; /* one of those has, while it was asked */
    bool freed; /* one may have released memory of which this call has no figure */
    unsigned forks;
};

static uint64_t life_of(const struct stats_head *head) {
    return head->counters[STATS_malloc_calls] + head->counters[STATS_free_calls];
}

/* Calls in other threads that look at the table at the same time do without it. */
static bool was_silent(uint64_t process, uint64_t born, uint64_t life) {
    bool found = false;
    if (atomic_flag_test_and_set(&silent_in_use))
        return false;
    const struct silent *entry = &silent[process % MOST_SILENT];
    found = entry->process == process && entry->born == born && entry->life == life;
    atomic_flag_clear(&silent_in_use);
    return found;
}

static void note_silent(const struct asked *asked) {
    if (atomic_flag_test_and_set(&silent_in_use))
        return;
    silent[asked->process % MOST_SILENT] =
        (struct silent){asked->process, asked->born, asked->life};
    atomic_flag_clear(&silent_in_use);
}

/* Idle bytes on the device, and its ordinal there. */
static uint64_t idle_on(const struct stats_page *page, const struct stats_head *head,
                        const uint8_t uuid[STATS_UUID], int *ordinal) {
    for (int i = 0; i < PAGE_DEVICES; i++)
        if (page->devices_used >> i & 1 && memcmp(page->devices[i].uuid, uuid, STATS_UUID) == 0) {
            struct stats_figures figures = shards_device(head->shards, page->devices, i);
            *ordinal = i;
            return stats_rest(figures.held, figures.live);
        }
    return 0;
}

/* Opens an entry if it is a process that might help. What one has that has ended, the driver has by
 * now, perhaps since it was asked. */
static bool consider(int folder, const char *name, const uint8_t uuid[STATS_UUID], size_t bytes,
                     struct asking *asking) {
    struct asked *asked = &asking->asked[asking->count];
    struct stats_head *head = &asking->head;
    bool found =
        share_open_page(folder, name, true, &asked->page) && share_read_head(&asked->page, head);
    bool stale = found && share_is_stale(head);
    if (stale) {
        asking->freed = true;
        share_clear(folder, name);
    }
    if (found && !stale && asked->page.live && !head->finished && share_is_named(name, head) &&
        (head->process != (uint64_t)getpid() || head->namespace_id != share_namespace())) {
        asked->posted = asked->ending = false;
        asked->process = head->process;
        asked->born = head->born;
        asked->life = life_of(head);
        asked->request =
            (struct mailbox_request){.kind = MAILBOX_GIVE_UP, .bytes = bytes, .text = ""};
        if (idle_on(asked->page.live, head, uuid, &asked->request.device) &&
            !was_silent(asked->process, asked->born, asked->life)) {
            share_close_entry(&asked->page); /* the program may be short of descriptors */
            return true;
        }
    }
    share_close_page(&asked->page);
    return false;
}

/* Finds whom to ask. */
static void find(const uint8_t uuid[STATS_UUID], size_t bytes, struct asking *asking) {
    struct share_walk walk = {.folder = share_folder_open(false)};
    if (walk.folder < 0)
        return;
    while (asking->count < MOST_ASKED && share_walk_next(&walk))
        asking->count += consider(walk.folder, walk.name, uuid, bytes, asking);
    close(walk.folder);
}

/* Whether the process has ended, in whatever way. */
static bool has_ended(struct asked *asked, struct stats_head *head) {
    return share_read_head(&asked->page, head) && share_is_stale(head);
}

/* The process comes to its end: only then has the driver what it had. Returns whether it is done
 * with: the end of one in another pid namespace is not seen. */
static bool await_end(struct asked *asked, struct asking *asking) {
    asked->ending = asking->head.namespace_id == share_namespace();
    asking->ended = asking->ended || !asked->ending;
    return !asked->ending;
}

/* Looks for the answer. Returns whether the process is done with. */
static bool look(struct asked *asked, struct asking *asking) {
    struct mailbox_reply reply;
    switch (mailbox_look(&asked->page.live->mailbox, &asked->request, &reply)) {
    case MAILBOX_WAITS:
        return false;
    case MAILBOX_LOST:
        asked->posted = false; /* ask again */
        asking->freed = true;
        return false;
    case MAILBOX_ANSWERED:
        break;
    }
    stats_add(STATS_others_answered, 1);
    stats_add(STATS_others_released_bytes, reply.released);
    asking->released += reply.released;
    return !(share_read_head(&asked->page, &asking->head) && asking->head.finished) ||
           await_end(asked, asking);
}

/* Posts the request where nobody else is asking just now. Returns whether the process is done with.
 */
static bool post(struct asked *asked, struct asking *asking) {
    if (!share_read_head(&asked->page, &asking->head))
        return true;
    if (asking->head.finished)
        return await_end(asked, asking);
    asked->posted = mailbox_post(&asked->page.live->mailbox, &asked->request);
    stats_add(STATS_others_asked, asked->posted);
    return false;
}

/* Returns whether the process is done with. */
static bool pursue(struct asked *asked, struct asking *asking, bool alive) {
    if (!alive && has_ended(asked, &asking->head)) {
        asking->ended = true;
        return true;
    }
    if (asked->ending)
        return false;
    return asked->posted ? look(asked, asking) : post(asked, asking);
}

/* Returns whether the process has begun what it is asked for. */
static bool let_go(struct asked *asked) {
    enum mailbox_end end = MAILBOX_WITHDRAWN;
    if (asked->posted)
        end = mailbox_leave(&asked->page.live->mailbox, &asked->request);
    share_close_page(&asked->page);
    return end != MAILBOX_WITHDRAWN;
}

/* A round through those that have not been done with. */
static void pursue_all(struct asking *asking, bool alive) {
    for (size_t i = 0; i < asking->count; i++)
        if (asking->asked[i].page.live && pursue(&asking->asked[i], asking, alive)) {
            let_go(&asking->asked[i]);
            asking->waiting--;
        }
}

/* Asks those that were found until they have given up so much, one of them has ended, or time is
 * up. */
static void ask(struct pool *pool, struct asking *asking, size_t bytes, uint64_t until_ns) {
    struct asked *asked = asking->asked;
    asking->waiting = asking->count;
    for (size_t i = 0; i < asking->count; i++)
        asked[i].request.until_ns = until_ns;
    for (unsigned step = 0; asking->waiting && asking->released < bytes && !asking->ended; step++) {
        pursue_all(asking, step % STEPS_ALIVE != STEPS_ALIVE - 1);
        if (clock_ns(CLOCK_MONOTONIC) >= until_ns || pool_is_capturing(pool) ||
            atomic_load(&forks) != asking->forks)
            break;
        steer_look(pool, false);
        if (asking->waiting && !asking->ended)
            nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
    bool patient = asking->released < bytes && !asking->ended; /* else nobody had the time */
    for (size_t i = 0; i < asking->count; i++) {
        if (!asked[i].page.live)
            continue;
        if (let_go(&asked[i]))
            asking->freed = asking->freed || !asked[i].ending;
        else if (asked[i].posted && patient)
            note_silent(&asked[i]);
    }
}

enum pool_help ask_others(struct pool *pool, const uint8_t uuid[STATS_UUID], size_t bytes,
                          uint64_t until_ns) {
    static const uint8_t unknown[STATS_UUID];
    if (memcmp(uuid, unknown, STATS_UUID) == 0)
        return POOL_HELP_NONE;
    struct asking *asking = malloc(sizeof *asking);
    if (!asking)
        return POOL_HELP_NONE;
    asking->count = asking->released = 0;
    asking->ended = asking->freed = false;
    asking->forks = atomic_load(&forks);
    find(uuid, bytes, asking);
    ask(pool, asking, bytes, until_ns);
    enum pool_help help = asking->ended                       ? POOL_HELP_COMES
                          : asking->released || asking->freed ? POOL_HELP_GIVEN
                                                              : POOL_HELP_NONE;
    free(asking);
    return help;
}

void ask_forget_after_fork(void) {
    atomic_fetch_add(&forks, 1);
    memset(silent, 0, sizeof silent);
    atomic_flag_clear(&silent_in_use);
}
