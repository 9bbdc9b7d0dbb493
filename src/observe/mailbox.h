/* Requests to a process: another of the same user writes one into its stats page, and the process
 * answers at its next allocation or free.
 *
 * The asker holds the exclusive flock of the page's entry from mailbox_post until the answer or
 * mailbox_withdraw. It writes the arguments, then the kind, then `posted`; the process reads them
 * the other way round. A request that was withdrawn is of the kind NOTHING, so that a process which
 * comes to it late does nothing. */
#ifndef POOLCUDA_OBSERVE_MAILBOX_H
#define POOLCUDA_OBSERVE_MAILBOX_H

#include "observe/page.h"

enum mailbox_kind {
    MAILBOX_NOTHING,
    MAILBOX_TRIM,    /* release `bytes` of idle memory of `device`, an ordinal or -1: all */
    MAILBOX_SET,     /* set an option: text is NAME=VALUE */
    MAILBOX_GIVE_UP, /* as TRIM, for another process that is out of memory */
    MAILBOX_KINDS
};

struct mailbox_request {
    uint32_t serial;
    enum mailbox_kind kind;
    int device;
    uint64_t bytes;
    char text[PAGE_REQUEST]; /* ends */
    uint64_t until_ns;       /* by CLOCK_MONOTONIC: when the asker gives up */
};

/* Functions of the process that is asked. */

extern _Atomic uint32_t *mailbox_posted __attribute__((visibility("hidden"))); /* never NULL */
extern _Atomic uint32_t mailbox_done
    __attribute__((visibility("hidden"))); /* the last request that was answered */

/* Whether a request waits. */
static inline bool mailbox_waits(void) {
    return atomic_load_explicit(mailbox_posted, memory_order_relaxed) !=
           atomic_load_explicit(&mailbox_done, memory_order_relaxed);
}

void mailbox_open(struct stats_mailbox *box);
void mailbox_close(void);

/* Copies the request that waits. False: there is none, or another thread is at it. If true it must
 * be answered or postponed. An unsound request comes out as NOTHING. */
bool mailbox_take(struct mailbox_request *request);
/* text: what the user reads, "" for nothing; shortened if need be. */
void mailbox_answer(const struct mailbox_request *request, uint64_t released, const char *text);
void mailbox_postpone(void); /* the request waits on */
/* To be called when the process ends: answers who asks just now. */
void mailbox_finish(void);

/* Functions of the asker. */

/* Locks the mailbox, by the file of the page's entry. False: somebody else is asking just now. */
bool mailbox_lock(int file);
/* To be called before the file is closed: a child that another thread has forked meanwhile holds it
 * open. */
void mailbox_unlock(int file);
/* Posts a request, whose serial number is set. */
void mailbox_post(struct stats_mailbox *asked, struct mailbox_request *request);

struct mailbox_reply {
    uint64_t released;
    char text[PAGE_REQUEST]; /* ends */
};
/* Whether the request is answered. */
bool mailbox_look(struct stats_mailbox *asked, uint32_t serial, struct mailbox_reply *reply);
/* To be called when nobody waits for the answer any more. */
void mailbox_withdraw(struct stats_mailbox *asked);

#endif
