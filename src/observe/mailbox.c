#include "observe/mailbox.h"

#include "raw_files.h"

#include <string.h>
#include <sys/file.h>

static _Atomic uint32_t none;
_Atomic uint32_t *mailbox_posted = &none;
_Atomic uint32_t mailbox_done;

static struct stats_mailbox *box; /* NULL: closed */
static atomic_flag busy = ATOMIC_FLAG_INIT;

void mailbox_open(struct stats_mailbox *opened) {
    box = opened;
    atomic_store(&mailbox_done, atomic_load(&opened->posted));
    atomic_store(&opened->answered, atomic_load(&mailbox_done));
    mailbox_posted = &opened->posted;
}

void mailbox_close(void) {
    mailbox_posted = &none;
    atomic_store(&mailbox_done, 0);
    atomic_flag_clear(&busy);
    box = NULL;
}

bool mailbox_take(struct mailbox_request *request) {
    if (!box || !mailbox_waits() || atomic_flag_test_and_set(&busy))
        return false;
    if (!mailbox_waits()) { /* another thread has answered meanwhile */
        atomic_flag_clear(&busy);
        return false;
    }
    request->serial = atomic_load(&box->posted);
    uint32_t kind = atomic_load(&box->kind);
    request->device = atomic_load(&box->device);
    request->bytes = atomic_load(&box->bytes);
    request->until_ns = atomic_load(&box->until_ns);
    memcpy(request->text, box->text, sizeof request->text);
    bool sound =
        kind < MAILBOX_KINDS && !request->text[sizeof request->text - 1] && request->device >= -1;
    request->kind = sound ? (enum mailbox_kind)kind : MAILBOX_NOTHING;
    request->text[sizeof request->text - 1] = '\0';
    return true;
}

void mailbox_answer(const struct mailbox_request *request, uint64_t released, const char *text) {
    size_t length = strlen(text);
    length = length < sizeof box->answer ? length : sizeof box->answer - 1;
    memcpy(box->answer, text, length);
    memset(box->answer + length, 0, sizeof box->answer - length);
    atomic_store(&box->released, released);
    atomic_store(&box->answered, request->serial);
    atomic_store(&mailbox_done, request->serial);
    atomic_flag_clear(&busy);
}

void mailbox_postpone(void) {
    atomic_flag_clear(&busy);
}

void mailbox_finish(void) {
    struct mailbox_request request;
    if (mailbox_take(&request))
        mailbox_answer(&request, 0, "the program is coming to its end");
}

bool mailbox_lock(int file) {
    return raw_flock(file, LOCK_EX | LOCK_NB) == 0;
}

void mailbox_post(struct stats_mailbox *asked, struct mailbox_request *request) {
    request->serial = atomic_load(&asked->posted) + 1;
    atomic_store(&asked->kind, (uint32_t)MAILBOX_NOTHING);
    atomic_store(&asked->device, (int32_t)request->device);
    atomic_store(&asked->bytes, request->bytes);
    memcpy(asked->text, request->text, sizeof asked->text);
    atomic_store(&asked->until_ns, request->until_ns);
    atomic_store(&asked->kind, (uint32_t)request->kind);
    atomic_store(&asked->posted, request->serial);
}

bool mailbox_look(struct stats_mailbox *asked, uint32_t serial, struct mailbox_reply *reply) {
    if (atomic_load(&asked->answered) != serial)
        return false;
    reply->released = atomic_load(&asked->released);
    memcpy(reply->text, asked->answer, sizeof reply->text);
    reply->text[sizeof reply->text - 1] = '\0';
    return true;
}

void mailbox_withdraw(struct stats_mailbox *asked) {
    atomic_store(&asked->kind, (uint32_t)MAILBOX_NOTHING);
}

void mailbox_unlock(int file) {
    raw_flock(file, LOCK_UN);
}
