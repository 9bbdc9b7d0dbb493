/* Requests to a process: another of the same user writes one into its stats page, and the process
 * answers at its next allocation or free.
 *
 * Who asks holds the exclusive flock of the page's file from mailbox_post until the answer or
 * mailbox_withdraw. It writes the arguments, then the kind, then `posted`; the process reads them
 * the other way round. One that was withdrawn is of the kind NOTHING, so that a process which comes
 * to it late does nothing. */
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
    uint64_t until_ns;       /* by CLOCK_MONOTONIC: when the one that asks gives up */
};

/* The process that is asked. */

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

/* Copies the request that waits. False: there is none, or another thread is at it; else it must be
 * answered or postponed. An unsound one comes out as NOTHING. */
bool mailbox_take(struct mailbox_request *request);
/* text: what to tell the user, "" for nothing; shortened if need be. */
void mailbox_answer(const struct mailbox_request *request, uint64_t released, const char *text);
void mailbox_postpone(void); /* it waits on */
/* The process ends, and `file`, the page's, will be something else: tells who asks just now, and
 * sees to it that nobody writes to it, as far as that takes no time. */
void mailbox_finish(int file);

/* The one that asks, through the page's file. */

/* Locks the mailbox. False: somebody else is asking just now. */
bool mailbox_lock(int file);
/* To be called before the file is closed: a child that another thread has forked meanwhile holds it
 * open. */
void mailbox_unlock(int file);
/* Posts a request, whose serial number is set. False: the file cannot be written. */
bool mailbox_post(int file, struct mailbox_request *request);

struct mailbox_reply {
    uint64_t released;
    char text[PAGE_REQUEST]; /* ends */
};
/* Whether the request is answered. */
bool mailbox_look(int file, uint32_t serial, struct mailbox_reply *reply);
/* Nobody waits for the answer any more. */
void mailbox_withdraw(int file);

#endif
