#include "peers/mailbox.h"

#include "base/clock.h"

#include <stddef.h>
#include <string.h>

enum { LEASE_MS = 50, MOST_TRIES = 64 };

/* The answer to NOTHING, by which an asker knows that it has to ask again. */
static const char spoilt[] = "the request did not come through: ask again";

static _Atomic uint32_t none;
_Atomic uint32_t *mailbox_posted = &none;
_Atomic uint32_t mailbox_done;

static struct stats_mailbox *box; /* NULL: closed */
static atomic_flag busy = ATOMIC_FLAG_INIT;
/* Where the thread that is busy has taken its request from. NULL: the mailbox has been closed
 * since: a signal's handler has forked in the midst of an answer, which goes on in the child. The
 * request is the parent's to answer. */
static struct stats_mailbox *taken;

/* A claim: the number of a request, and behind it the millisecond until which it holds, 0: none. */
static uint64_t claim_of(uint32_t serial, uint32_t until) {
    return (uint64_t)serial * ((uint64_t)UINT32_MAX + 1) + until;
}

static uint32_t serial_of(uint64_t claim) {
    return (uint32_t)(claim >> 32);
}

static uint32_t until_of(uint64_t claim) {
    return (uint32_t)claim;
}

static uint64_t begun_of(uint32_t serial) {
    return 1 + (uint64_t)serial;
}

/* CLOCK_MONOTONIC, which wraps. */
static uint32_t now_ms(void) {
    return (uint32_t)(clock_ns(CLOCK_MONOTONIC) / 1000000u);
}

static uint32_t lease_from(uint32_t now) {
    uint32_t until = now + LEASE_MS;
    return until ? until : 1;
}

/* How long the claim still holds. A time that no asker sets is none: another time namespace's, or
 * nonsense. */
static uint32_t left_of(uint64_t claim, uint32_t now) {
    uint32_t left = until_of(claim) - now;
    return until_of(claim) && left <= LEASE_MS + 1 ? left : 0;
}

static uint64_t seal_byte(uint64_t seal, unsigned char byte) {
    return (seal ^ byte) * 0x100000001b3u;
}

static uint64_t seal_word(uint64_t seal, uint64_t word) {
    for (unsigned bit = 0; bit < 64; bit += 8)
        seal = seal_byte(seal, (unsigned char)(word >> bit));
    return seal;
}

/* FNV-1a over the number and all that the request says. */
static uint64_t seal_of(const struct mailbox_request *request) {
    uint64_t seal = seal_word(0xcbf29ce484222325u, request->serial);
    seal = seal_word(seal, (uint32_t)request->kind);
    seal = seal_word(seal, (uint32_t)request->device);
    seal = seal_word(seal, request->bytes);
    seal = seal_word(seal, request->until_ns);
    for (size_t i = 0; i < sizeof request->text; i++)
        seal = seal_byte(seal, (unsigned char)request->text[i]);
    return seal;
}

/* A text of the page, which another may write meanwhile: what is read of it is read before whatever
 * the caller looks at next. */
static void read_text(char to[PAGE_REQUEST], const char *from) {
    const _Atomic uint64_t *words = (const void *)from;
    _Static_assert(offsetof(struct stats_mailbox, text) % 8 == 0 && PAGE_REQUEST % 8 == 0, "words");
    _Static_assert(offsetof(struct stats_mailbox, answer) % 8 == 0, "words");
    for (size_t i = 0; i < PAGE_REQUEST / sizeof *words; i++) {
        uint64_t word = atomic_load_explicit(&words[i], memory_order_acquire);
        memcpy(to + i * sizeof word, &word, sizeof word);
    }
}

static void write_text(char *to, const char from[PAGE_REQUEST]) {
    _Atomic uint64_t *words = (void *)to;
    uint64_t word;
    for (size_t i = 0; i < PAGE_REQUEST / sizeof *words; i++) {
        memcpy(&word, from + i * sizeof word, sizeof word);
        atomic_store_explicit(&words[i], word, memory_order_release);
    }
}

void mailbox_open(struct stats_mailbox *opened) {
    box = opened;
    atomic_store(&opened->claim, claim_of(atomic_load(&opened->posted), 0));
    atomic_store(&mailbox_done, atomic_load(&opened->posted));
    atomic_store(&opened->answered, atomic_load(&mailbox_done));
    mailbox_posted = &opened->posted;
}

void mailbox_close(void) {
    mailbox_posted = &none;
    atomic_store(&mailbox_done, 0);
    atomic_flag_clear(&busy);
    taken = box = NULL;
}

bool mailbox_take(struct mailbox_request *request) {
    struct stats_mailbox *from = box;
    if (!from || !mailbox_waits() || atomic_flag_test_and_set(&busy))
        return false;
    taken = from;
    if (!mailbox_waits()) { /* another thread has answered meanwhile */
        atomic_flag_clear(&busy);
        return false;
    }
    request->serial = atomic_load(&from->posted);
    uint32_t kind = atomic_load(&from->kind);
    request->kind = (enum mailbox_kind)kind;
    request->device = atomic_load(&from->device);
    request->bytes = atomic_load(&from->bytes);
    request->until_ns = atomic_load(&from->until_ns);
    read_text(request->text, from->text);
    atomic_store(&from->begun, begun_of(request->serial)); /* before the seal is looked at */
    uint64_t claim = atomic_load(&from->claim);
    bool sound = atomic_load(&from->seal) == seal_of(request) &&
                 serial_of(claim) == request->serial && until_of(claim) && kind < MAILBOX_KINDS &&
                 !request->text[sizeof request->text - 1] && request->device >= -1;
    request->kind = sound ? (enum mailbox_kind)kind : MAILBOX_NOTHING;
    request->text[sizeof request->text - 1] = '\0';
    return true;
}

void mailbox_answer(const struct mailbox_request *request, uint64_t released, const char *text) {
    char answer[PAGE_REQUEST] = "";
    size_t length = strlen(text);
    memcpy(answer, text, length < sizeof answer ? length : sizeof answer - 1);
    struct stats_mailbox *to = taken;
    if (!to)
        return;
    write_text(to->answer, answer);
    atomic_store(&to->released, released);
    atomic_store(&to->answered, request->serial);
    atomic_store(&mailbox_done, request->serial);
    atomic_flag_clear(&busy);
}

void mailbox_refuse(const struct mailbox_request *request) {
    mailbox_answer(request, 0, spoilt);
}

void mailbox_postpone(void) {
    struct stats_mailbox *to = taken;
    if (!to)
        return;
    atomic_store(&to->begun, 0);
    atomic_flag_clear(&busy);
}

void mailbox_finish(void) {
    struct mailbox_request request;
    if (mailbox_take(&request))
        mailbox_answer(&request, 0, "the program is coming to its end");
}

/* Takes the mailbox for a request, whose number is the next. The clock is read last: a claim that
 * another makes between the two would else be one of a time that no asker sets. */
static bool take_box(struct stats_mailbox *asked, struct mailbox_request *request) {
    uint64_t claim = atomic_load(&asked->claim);
    uint32_t now = now_ms();
    if (left_of(claim, now))
        return false;
    request->serial = serial_of(claim) + 1;
    return atomic_compare_exchange_strong(&asked->claim, &claim,
                                          claim_of(request->serial, lease_from(now)));
}

/* Whether the mailbox is the request's still; says for some time more that it is. */
static bool keep_box(struct stats_mailbox *asked, const struct mailbox_request *request) {
    uint64_t claim = atomic_load(&asked->claim);
    uint32_t now = now_ms();
    if (serial_of(claim) != request->serial || !until_of(claim))
        return false;
    return left_of(claim, now) > LEASE_MS / 2 ||
           atomic_compare_exchange_strong(&asked->claim, &claim,
                                          claim_of(request->serial, lease_from(now)));
}

enum mailbox_end mailbox_leave(struct stats_mailbox *asked, const struct mailbox_request *request) {
    uint64_t claim = atomic_load(&asked->claim);
    if (serial_of(claim) != request->serial)
        return MAILBOX_TAKEN_OVER;
    atomic_store(&asked->seal, 0); /* the request counts no more, and the mailbox is ours yet */
    bool begun = atomic_load(&asked->begun) == begun_of(request->serial);
    if (!atomic_compare_exchange_strong(&asked->claim, &claim, claim_of(request->serial, 0)))
        return MAILBOX_TAKEN_OVER;
    return begun ? MAILBOX_BEGUN : MAILBOX_WITHDRAWN;
}

bool mailbox_post(struct stats_mailbox *asked, struct mailbox_request *request) {
    if (!take_box(asked, request))
        return false;
    atomic_store(&asked->kind, (uint32_t)request->kind);
    atomic_store(&asked->device, (int32_t)request->device);
    atomic_store(&asked->bytes, request->bytes);
    write_text(asked->text, request->text);
    atomic_store(&asked->until_ns, request->until_ns);
    atomic_store(&asked->seal, seal_of(request));
    uint32_t posted = atomic_load(&asked->posted);
    for (int tries = 0; tries < MOST_TRIES && keep_box(asked, request); tries++)
        if (atomic_compare_exchange_strong(&asked->posted, &posted, request->serial))
            return true;
    mailbox_leave(asked, request); /* if it still is ours: only a hostile one writes so often */
    return false;
}

enum mailbox_state mailbox_look(struct stats_mailbox *asked, const struct mailbox_request *request,
                                struct mailbox_reply *reply) {
    bool answered = atomic_load(&asked->answered) == request->serial;
    if (answered) {
        reply->released = atomic_load(&asked->released);
        read_text(reply->text, asked->answer);
        reply->text[sizeof reply->text - 1] = '\0';
    }
    /* Behind the copy: as long as the mailbox is ours, no other answer is written. */
    if (!keep_box(asked, request))
        return MAILBOX_LOST;
    if (answered && strcmp(reply->text, spoilt) == 0) {
        mailbox_leave(asked, request);
        return MAILBOX_LOST;
    }
    return answered ? MAILBOX_ANSWERED : MAILBOX_WAITS;
}
