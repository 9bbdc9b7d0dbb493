#include "interpose/ask_others.h"

#include "clock.h"
#include "interpose/answer_requests.h"
#include "observe/mailbox.h"
#include "observe/shards.h"
#include "observe/share_folder.h"
#include "raw_files.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_ASKED = 16,                 /* processes at a time */
    MOST_SILENT = 64,                /* processes that are remembered */
    PATIENCE_NS = 125 * 1000 * 1000, /* an allocation asks twice at most */
    STEP_NS = 500 * 1000             /* between two looks at the answers */
};

/* A process that let a request go unanswered: `life` is the number of its calls then. One that has
 * the place of another in the table makes that one forgotten. */
struct silent {
    uint64_t process, born, life;
};
static struct silent silent[MOST_SILENT];
static atomic_flag silent_in_use = ATOMIC_FLAG_INIT;

/* Invariant: the page's file is open while the process is asked, and locked once `posted`. */
struct asked {
    struct share_page page;
    bool posted;
    uint64_t process, born, life;
    struct mailbox_request request;
};

/* All that one call has to do with: on the heap, as some threads have less stack. `head` is the one
 * that was read last. */
struct asking {
    struct asked asked[MOST_ASKED];
    struct stats_head head;
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

/* Opens an entry if it is a process that might help. */
static bool consider(int folder, const char *name, const uint8_t uuid[STATS_UUID], size_t bytes,
                     struct asked *asked, struct stats_head *head) {
    bool found =
        share_open_page(folder, name, true, &asked->page) && share_read_head(&asked->page, head);
    bool stale = found && share_is_stale(head);
    if (stale)
        share_clear(folder, name);
    if (found && !stale && asked->page.live && !head->finished && share_is_named(name, head) &&
        (head->process != (uint64_t)getpid() || head->namespace_id != share_namespace())) {
        asked->posted = false;
        asked->process = head->process;
        asked->born = head->born;
        asked->life = life_of(head);
        asked->request =
            (struct mailbox_request){.kind = MAILBOX_GIVE_UP, .bytes = bytes, .text = ""};
        if (idle_on(asked->page.live, head, uuid, &asked->request.device) &&
            !was_silent(asked->process, asked->born, asked->life))
            return true;
    }
    share_close_page(&asked->page);
    return false;
}

/* Whom to ask; returns how many. */
static size_t find(const uint8_t uuid[STATS_UUID], size_t bytes, struct asking *asking) {
    struct share_walk walk = {.folder = share_folder_open(false)};
    size_t count = 0;
    if (walk.folder < 0)
        return 0;
    while (count < MOST_ASKED && share_walk_next(&walk))
        count +=
            consider(walk.folder, walk.name, uuid, bytes, &asking->asked[count], &asking->head);
    close(walk.folder);
    return count;
}

/* Posts the request where nobody else is asking just now, then looks for the answer. Returns
 * whether the process is done with. */
static bool pursue(struct asked *asked, struct stats_head *head, size_t *released) {
    struct mailbox_reply reply;
    if (asked->posted) {
        if (!mailbox_look(&asked->page.live->mailbox, asked->request.serial, &reply))
            return false;
        stats_add(STATS_others_answered, 1);
        stats_add(STATS_others_released_bytes, reply.released);
        *released += reply.released;
        return true;
    }
    if (!mailbox_lock(asked->page.file))
        return false;
    /* It may have ended meanwhile. */
    if (!share_read_head(&asked->page, head) || head->finished)
        return true;
    mailbox_post(&asked->page.live->mailbox, &asked->request);
    asked->posted = true;
    stats_add(STATS_others_asked, 1);
    return false;
}

static void let_go(struct asked *asked) {
    mailbox_unlock(asked->page.file);
    share_close_page(&asked->page);
}

/* Asks those that were found until they have given up so much, or time is up. */
static size_t ask(struct pool *pool, struct asking *asking, size_t count, size_t bytes) {
    struct asked *asked = asking->asked;
    size_t released = 0, waiting = count;
    const uint64_t end = clock_ns(CLOCK_MONOTONIC) + PATIENCE_NS;
    for (size_t i = 0; i < count; i++)
        asked[i].request.until_ns = end;
    while (waiting && released < bytes) {
        for (size_t i = 0; i < count; i++)
            if (asked[i].page.file >= 0 && pursue(&asked[i], &asking->head, &released)) {
                let_go(&asked[i]);
                waiting--;
            }
        if (clock_ns(CLOCK_MONOTONIC) >= end || pool_is_capturing(pool))
            break;
        steer_look(pool, false);
        if (waiting)
            nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
    bool patient = released < bytes; /* else nobody had the time */
    for (size_t i = 0; i < count; i++) {
        if (asked[i].page.file < 0)
            continue;
        if (asked[i].posted)
            mailbox_withdraw(&asked[i].page.live->mailbox);
        if (asked[i].posted && patient)
            note_silent(&asked[i]);
        let_go(&asked[i]);
    }
    return released;
}

size_t ask_others(struct pool *pool, const uint8_t uuid[STATS_UUID], size_t bytes) {
    static const uint8_t unknown[STATS_UUID];
    if (memcmp(uuid, unknown, STATS_UUID) == 0)
        return 0;
    struct asking *asking = malloc(sizeof *asking);
    size_t count = asking ? find(uuid, bytes, asking) : 0;
    size_t released = count ? ask(pool, asking, count, bytes) : 0;
    free(asking);
    return released;
}

void ask_forget_after_fork(void) {
    memset(silent, 0, sizeof silent);
    atomic_flag_clear(&silent_in_use);
}
