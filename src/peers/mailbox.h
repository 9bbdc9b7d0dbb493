/* Requests to a process: another of the same user writes one into its stats page, and the process
 * answers at its next allocation or free.
 *
 * No lock: who holds one may be stopped, for days. An asker has the mailbox for as long as it says
 * again and again that it still waits, by its *claim*, one word: its request's number and until
 * when. A claim that nobody has renewed for a moment is over: that of an asker that is stopped,
 * or was killed. Another then takes the mailbox with the next number, by compare-and-swap, so that
 * one of several gets it. So at any time there is one owner, and former ones, which may still be
 * in the middle of any function here and go on at any moment:
 *
 *  - while it writes a request: it writes over the owner's. What is read then does not match its
 *    *seal*, which covers the number and every word, whichever of both wrote the seal: the process
 *    takes it for NOTHING and says so. The owner's request is lost, and it asks again.
 *  - before it sets `posted`: it looks first whether it is still the owner. If it loses the mailbox
 *    between that and its compare-and-swap, `posted` either has changed, and it looks again; or it
 *    is set to its number, which is not the claim's: NOTHING, until the owner sets its own.
 *  - while it looks for its answer: that of another may be written as it copies it. It has been
 *    answered only if it is still the owner after the copy; else nobody can tell.
 *  - when it renews its claim, or withdraws: both are compare-and-swap from a claim of its own
 *    number, and fail. The seal that it takes away before may be another's, as above.
 *
 * The process says which request it begins, and then looks at the seal. Who withdraws a request
 * takes the seal away, and then looks whether it was begun: what was not, never is.
 *
 * A request counts if its number is the claim's, which is no longer 0 milliseconds, as one that was
 * withdrawn: a process that comes to it late does nothing. The request of an asker that is stopped
 * or was killed counts until another takes the mailbox, or until the asker would have given up. The
 * process never waits for an asker. It numbers its answer, text first, and finds the next request,
 * if one came meanwhile, afterwards.
 *
 * Whatever a hostile program of the same user writes here is such a request, or NOTHING. */
#ifndef POOLCUDA_PEERS_MAILBOX_H
#define POOLCUDA_PEERS_MAILBOX_H

#include "counters/page.h"

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
/* In a forked child. What has been taken is the parent's: to answer it does nothing. */
void mailbox_close(void);

/* Copies the request that waits. False: there is none, or another thread is at it. If true it must
 * be answered or postponed. An unsound request comes out as NOTHING. */
bool mailbox_take(struct mailbox_request *request);
/* text: what the user reads, "" for nothing; shortened if need be. */
void mailbox_answer(const struct mailbox_request *request, uint64_t released, const char *text);
void mailbox_refuse(const struct mailbox_request *request); /* the answer to NOTHING: ask again */
void mailbox_postpone(void);                                /* the request waits on */
/* To be called when the process ends: answers who asks just now. */
void mailbox_finish(void);

/* Functions of the asker. */

/* Posts a request, whose serial number is set. False: somebody else is asking just now. To be left
 * by mailbox_leave once it is posted. */
bool mailbox_post(struct stats_mailbox *asked, struct mailbox_request *request);

struct mailbox_reply {
    uint64_t released;
    char text[PAGE_REQUEST]; /* ends */
};
/* LOST: it is to be asked again. This process did nothing for so long that another has taken its
 * place, and nobody can tell whether the request was answered; or such a one has spoilt it. */
enum mailbox_state { MAILBOX_WAITS, MAILBOX_ANSWERED, MAILBOX_LOST };
/* To be called all the time while the answer is waited for: it tells others that it is. */
enum mailbox_state mailbox_look(struct stats_mailbox *asked, const struct mailbox_request *request,
                                struct mailbox_reply *reply);
/* WITHDRAWN: nothing was done for it, nor will be. BEGUN: it was answered, or is being. TAKEN_OVER:
 * nobody can tell. */
enum mailbox_end { MAILBOX_WITHDRAWN, MAILBOX_BEGUN, MAILBOX_TAKEN_OVER };
/* To be called when nobody waits for the answer any more. */
enum mailbox_end mailbox_leave(struct stats_mailbox *asked, const struct mailbox_request *request);

#endif
