#include "observe/mailbox.h"

#include "raw_files.h"

#include <string.h>
#include <sys/file.h>
#include <time.h>

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

void mailbox_finish(int file) {
    enum { STEP_NS = 1000 * 1000, STEPS = 20 };
    struct mailbox_request request;
    if (mailbox_take(&request))
        mailbox_answer(&request, 0, "the program is coming to its end");
    for (int step = 0; step < STEPS && !mailbox_lock(file); step++)
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
}

#define PLACE(field) (off_t)(offsetof(struct stats_page, mailbox.field))

bool mailbox_lock(int file) {
    return raw_flock(file, LOCK_EX | LOCK_NB) == 0;
}

static bool put(int file, const void *from, size_t size, off_t offset) {
    return raw_pwrite(file, from, size, offset) == (ssize_t)size;
}

static bool get(int file, void *to, size_t size, off_t offset) {
    return raw_pread(file, to, size, offset) == (ssize_t)size;
}

bool mailbox_post(int file, struct mailbox_request *request) {
    const uint32_t nothing = MAILBOX_NOTHING, kind = request->kind;
    const int32_t device = request->device;
    uint32_t posted;
    if (!get(file, &posted, sizeof posted, PLACE(posted)))
        return false;
    request->serial = posted + 1;
    return put(file, &nothing, sizeof nothing, PLACE(kind)) &&
           put(file, &device, sizeof device, PLACE(device)) &&
           put(file, &request->bytes, sizeof request->bytes, PLACE(bytes)) &&
           put(file, request->text, sizeof request->text, PLACE(text)) &&
           put(file, &request->until_ns, sizeof request->until_ns, PLACE(until_ns)) &&
           put(file, &kind, sizeof kind, PLACE(kind)) &&
           put(file, &request->serial, sizeof request->serial, PLACE(posted));
}

bool mailbox_look(int file, uint32_t serial, struct mailbox_reply *reply) {
    uint32_t answered;
    if (!get(file, &answered, sizeof answered, PLACE(answered)) || answered != serial)
        return false;
    reply->text[0] = '\0';
    reply->released = 0;
    get(file, &reply->released, sizeof reply->released, PLACE(released));
    get(file, reply->text, sizeof reply->text, PLACE(answer));
    reply->text[sizeof reply->text - 1] = '\0';
    return true;
}

void mailbox_withdraw(int file) {
    const uint32_t nothing = MAILBOX_NOTHING;
    char banner[sizeof PAGE_MAGIC - 1];
    /* The file may have become the report of a process that has ended. */
    if (get(file, banner, sizeof banner, 0) && memcmp(banner, PAGE_MAGIC, sizeof banner) == 0)
        put(file, &nothing, sizeof nothing, PLACE(kind));
}

void mailbox_unlock(int file) {
    raw_flock(file, LOCK_UN);
}
