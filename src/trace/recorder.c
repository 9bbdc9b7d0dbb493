#include "trace/recorder.h"

#include "base/clock.h"
#include "base/command_line.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/modules.h"
#include "base/output_file.h"
#include "base/raw_files.h"
#include "base/signals.h"
#include "base/text_hash.h"
#include "counters/own_page.h"
#include "counters/stats.h"
#include "site_tag.h"
#include "trace/record_format.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    BUFFER_SIZE = 8192,
    WRITE_INTERVAL_NS = 100000,
    SITE_SLOTS = 16384, /* a power of two */
    SITES = SITE_SLOTS / 2,
    MODULES = 1024,
};

/* Invariant: depth is 0 in an unused slot. */
struct site_slot {
    struct call_site key;
    uint64_t number;
};

/* What has been described in the file. Invariant: sites are found by linear probing from their
 * hash; at most half of the slots are used. Only a page that is touched takes memory. */
struct described {
    struct site_slot sites[SITE_SLOTS];
    struct {
        uintptr_t base;
        uint64_t path; /* its hash: another module may come to lie at the same address */
    } modules[MODULES];
};

/* Guards all below. Taken under any other lock, and none is taken under it.
 *
 * A signal's handler may fork in the midst of any function here, which goes on in the child: it has
 * to find the table there, and no file. What it leaves behind open_file clears away. So as not to
 * write to what the child has opened by then, signals are held off from the look at `file` to the
 * end of the write. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* LOCK_RECORDER */

/* Invariant: the file holds whole records up to `length`, and its own position is there; buffer[0,
 * used) comes next and holds buffered_events events. `failed`: nothing but the end will be written
 * any more. event_count counts what has been given a number, lost or not. A stream (a pipe, a
 * device) is another thing: it has no position, and after a failure gets nothing more, since a part
 * of a record cannot be taken back. */
static struct {
    int file;
    bool stream, failed;
    struct known_file known;
    size_t used;
    uint64_t length, buffered_events, event_count, lost;
    uint64_t last_start, last_events; /* where the last buffer in the file begins, and its events */
    uint64_t start_ns, written_ns;    /* CLOCK_MONOTONIC */
    struct described *described;
    uint32_t site_count, module_count;
    const char *awaited; /* the name of a file that the first event makes; NULL: none */
    void (*say)(const char *line);
} recorder = {.file = -1};
static _Alignas(8) unsigned char buffer[BUFFER_SIZE];

atomic_bool recorder_on;

/* Whether the descriptor is still ours, at the position where we left it: the program may have
 * closed it, with all that it does not know, and opened a file of its own. */
static bool is_ours(void) {
    return recorder.file >= 0 && output_file_is(&recorder.known) &&
           (recorder.stream || lseek(recorder.file, 0, SEEK_CUR) == (off_t)recorder.length);
}

/* Whether a write of that size stays within the limit for files: one beyond it would be answered by
 * a signal. */
static bool may_write(size_t size) {
    return is_ours() && (recorder.stream || raw_may_be_as_long(recorder.length + size));
}

/* Appends the bytes. A part that was written is taken back, so that the file stays whole. Signals
 * are held off. */
static bool append_undisturbed(const void *bytes, size_t size) {
    errno = EFBIG;
    if (!may_write(size))
        return false;
    if (output_file_write(recorder.file, bytes, size)) {
        recorder.length += size;
        return true;
    }
    if (recorder.stream || lseek(recorder.file, (off_t)recorder.length, SEEK_SET) < 0 ||
        ftruncate(recorder.file, (off_t)recorder.length) < 0)
        recorder.failed = true; /* the next write would fail anyway */
    return false;
}

static bool append(const void *bytes, size_t size) {
    uint64_t before = signals_hold();
    bool appended = append_undisturbed(bytes, size);
    int error = errno;
    signals_let_come(before);
    errno = error;
    return appended;
}

static void note_lost(uint64_t events) {
    recorder.lost += events;
    stats_set(STATS_trace_lost, recorder.lost);
}

/* Where a fork has left the file, the events are the parent's to write. Lock held. */
static void write_buffer(void) {
    lock_check_held(LOCK_RECORDER);
    uint64_t start = recorder.length;
    if (recorder.file < 0)
        recorder.used = 0;
    if (recorder.used && (recorder.failed || !append(buffer, recorder.used))) {
        recorder.failed = true;
        note_lost(recorder.buffered_events);
    } else if (recorder.used) {
        recorder.last_start = start;
        recorder.last_events = recorder.buffered_events;
    }
    recorder.used = 0;
    recorder.buffered_events = 0;
}

/* Makes room for a record, whose bytes are zero or the remains of others. Lock held. */
static void *room(size_t size) {
    lock_check_held(LOCK_RECORDER);
    if (recorder.used + size > sizeof buffer)
        write_buffer();
    void *place = buffer + recorder.used;
    recorder.used += size;
    return place;
}

static size_t padded(size_t size) {
    return (size + 7) & ~(size_t)7;
}

/* The module's number in the file, in which it is described if it has not been; 0 beyond the table.
 * Lock held. */
static uint32_t module_number(const struct module *module) {
    lock_check_held(LOCK_RECORDER);
    struct described *described = recorder.described;
    uint64_t path = text_hash(module->path);
    for (uint32_t i = 0; i < recorder.module_count; i++)
        if (described->modules[i].base == module->base && described->modules[i].path == path)
            return i + 1;
    if (recorder.module_count == MODULES)
        return 0;
    described->modules[recorder.module_count].base = module->base;
    described->modules[recorder.module_count].path = path;
    unsigned char id[RECORD_BUILD_ID_MAX];
    size_t id_size = modules_build_id(module, id, sizeof id), length = strlen(module->path);
    size_t size = padded(sizeof(struct record_head) + id_size + length);
    unsigned char *record = room(size);
    struct record_head head = {RECORD_MODULE, 0, (uint16_t)id_size, (uint32_t)length};
    memset(record, 0, size);
    memcpy(record, &head, sizeof head);
    memcpy(record + sizeof head, id, id_size);
    memcpy(record + sizeof head + id_size, module->path, length);
    return ++recorder.module_count;
}

/* Lock held. */
static void describe_tag(const char *name) {
    lock_check_held(LOCK_RECORDER);
    size_t length = strlen(name), size = padded(sizeof(struct record_head) + length);
    unsigned char *record = room(size);
    struct record_head head = {RECORD_SITE_NAME, 0, 0, (uint32_t)length};
    memset(record, 0, size);
    memcpy(record, &head, sizeof head);
    // NOLINTNEXTLINE(bugprone-not-null-terminated-result): the head counts its bytes
    memcpy(record + sizeof head, name, length);
}

/* Describes a new site in the file. Lock held. */
static void describe_site(const struct call_site *site) {
    lock_check_held(LOCK_RECORDER);
    const char *name = site_tag_name(site);
    if (name) {
        describe_tag(name);
        return;
    }
    struct record_frame frames[CALL_SITE_MAX_DEPTH] = {{0}};
    for (uintptr_t i = 0; i < site->depth; i++) {
        struct module module;
        frames[i].offset = site->frames[i];
        if (!modules_find(site->frames[i], &module))
            continue;
        frames[i].module = module_number(&module);
        if (frames[i].module)
            frames[i].offset -= module.base;
    }
    size_t size = site->depth * sizeof frames[0];
    unsigned char *record = room(sizeof(struct record_head) + size);
    struct record_head head = {RECORD_SITE, 0, (uint16_t)site->depth, 0};
    memcpy(record, &head, sizeof head);
    memcpy(record + sizeof head, frames, size);
}

static bool same_site(const struct call_site *one, const struct call_site *other) {
    if (one->depth != other->depth)
        return false;
    for (uintptr_t i = 0; i < one->depth; i++)
        if (one->frames[i] != other->frames[i])
            return false;
    return true;
}

/* The site's number in the file, 0 for an unknown one and beyond the table. Lock held. */
static uint32_t site_number(const struct call_site *site) {
    lock_check_held(LOCK_RECORDER);
    if (!site || !site->frames[0])
        return 0;
    struct site_slot *sites = recorder.described->sites;
    size_t i = site_id(site) * (uint64_t)0x9e3779b97f4a7c15u >> 32;
    for (; sites[i % SITE_SLOTS].key.depth; i++)
        if (same_site(&sites[i % SITE_SLOTS].key, site))
            return (uint32_t)sites[i % SITE_SLOTS].number;
    if (recorder.site_count == SITES)
        return 0;
    describe_site(site);
    sites[i % SITE_SLOTS] = (struct site_slot){*site, ++recorder.site_count};
    return recorder.site_count;
}

static void open_file(void);

/* Takes the time under the lock, so that events come in its order. Without a file the recording has
 * ended while this thread was on its way. */
static uint64_t add_event(struct record_event *event, const struct call_site *site) {
    lock_take(&lock, LOCK_RECORDER);
    if (recorder.awaited)
        open_file();
    uint64_t number = recorder.event_count;
    if (recorder.file >= 0)
        stats_set(STATS_trace_events, ++recorder.event_count);
    if (recorder.failed) {
        note_lost(1);
    } else if (recorder.file >= 0) {
        uint64_t now = clock_ns(CLOCK_MONOTONIC);
        event->head.number = site_number(site);
        event->time_ns = now - recorder.start_ns;
        struct record_event *place = room(sizeof *event);
        *place = *event;
        recorder.buffered_events++;
        if (now - recorder.written_ns >= WRITE_INTERVAL_NS) {
            write_buffer();
            recorder.written_ns = now;
        }
    }
    lock_drop(&lock, LOCK_RECORDER);
    return number;
}

void recorder_alloc(uint64_t pointer, size_t bytes, const struct call_site *site, int device,
                    uint64_t stream) {
    if (!pointer || !bytes)
        return;
    struct record_event event = {.head = {.kind = RECORD_ALLOC, .small = (uint16_t)device},
                                 .pointer = pointer,
                                 .value = bytes,
                                 .stream = stream};
    add_event(&event, site);
}

uint64_t recorder_free(uint64_t pointer, uint64_t stream) {
    struct record_event event = {
        .head = {.kind = RECORD_FREE}, .pointer = pointer, .stream = stream};
    return add_event(&event, NULL);
}

void recorder_free_failed(uint64_t number, uint64_t pointer) {
    struct record_event event = {
        .head = {.kind = RECORD_FREE_FAILED}, .pointer = pointer, .value = number};
    add_event(&event, NULL);
}

static bool write_header(void) {
    static const char zeros[8];
    const struct command_line *line = command_line_own();
    size_t used = command_line_used(line), fill = padded(used) - used;
    struct record_header header = {
        .magic = RECORD_MAGIC,
        .version = RECORD_VERSION,
        .header_size = (uint32_t)(sizeof header + used + fill),
        .clock = RECORD_CLOCK_MONOTONIC,
        .process = (uint32_t)getpid(),
        .start_ns = recorder.start_ns,
        .wall_ns = clock_ns(CLOCK_REALTIME),
        .command_line = line->size,
    };
    return append(&header, sizeof header) && append(line->text, used) && append(zeros, fill);
}

static void leave_file(void) {
    atomic_store(&recorder_on, false);
    if (is_ours())
        close(recorder.file);
    recorder.file = -1;
}

static void let_go(void) {
    leave_file();
    if (recorder.described)
        munmap(recorder.described, sizeof *recorder.described);
    memset(&recorder, 0, sizeof recorder);
    recorder.file = -1;
}

/* The table, empty: in a child it lies where the parent's does. NULL: there is no memory for it. */
static struct described *make_table(struct described *inherited) {
    void *table =
        mmap(inherited, sizeof *inherited, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (inherited ? MAP_FIXED : 0), -1, 0);
    return table == MAP_FAILED ? NULL : table;
}

/* Begins a recording. Signals are held off. */
static void begin(const char *path_pattern, void (*say)(const char *line)) {
    char path[OUTPUT_PATH_SIZE];
    int saved = errno;
    struct described *inherited = recorder.described;
    memset(&recorder, 0, sizeof recorder);
    recorder.described = inherited;
    recorder.file = output_file_create(path_pattern, path, &recorder.stream);
    recorder.known = output_file_know(recorder.file);
    bool made = recorder.file >= 0 && (recorder.described = make_table(inherited));
    recorder.start_ns = clock_ns(CLOCK_MONOTONIC);
    if (made && write_header()) {
        stats_trace(path);
        errno = saved;
        return;
    }
    char line[256];
    format(line, sizeof line,
           "poolcuda: POOLCUDA_TRACE=\"%.80s\": cannot be written (%s), recording nothing",
           path_pattern, output_file_fault(errno).text);
    if (recorder.file >= 0 && !recorder.stream) /* what it holds is no trace */
        raw_unlinkat(AT_FDCWD, path);
    let_go();
    say(line);
    errno = saved;
}

/* Lock held. */
static void open_file(void) {
    lock_check_held(LOCK_RECORDER);
    uint64_t before = signals_hold();
    if (recorder.awaited) /* else it was the parent's to open */
        begin(recorder.awaited, recorder.say);
    signals_let_come(before);
}

void recorder_open(const char *path_pattern, void (*say)(const char *line)) {
    if (!path_pattern || !*path_pattern)
        return;
    recorder.awaited = path_pattern;
    recorder.say = say;
    atomic_store(&recorder_on, true);
}

static bool write_end(void) {
    struct record_end end = {{.kind = RECORD_END}, recorder.lost};
    return (!recorder.stream || !recorder.failed) && append(&end, sizeof end);
}

/* Where there is no room for the end, the last events make room for it: without it no reader learns
 * that some are lost. Lock held. */
static bool take_back_last(void) {
    lock_check_held(LOCK_RECORDER);
    off_t start = (off_t)recorder.last_start;
    if (recorder.stream || !recorder.last_events || !is_ours() ||
        lseek(recorder.file, start, SEEK_SET) < 0 || ftruncate(recorder.file, start) < 0)
        return false;
    recorder.length = recorder.last_start;
    note_lost(recorder.last_events);
    recorder.last_events = 0;
    return true;
}

bool recorder_is_at_rest(int (*try_lock)(pthread_mutex_t *)) {
    bool rests = !try_lock(&lock);
    if (rests)
        pthread_mutex_unlock(&lock);
    return rests;
}

void recorder_finish(void) {
    if (!recorder_active())
        return;
    uint64_t before = signals_hold();
    lock_take(&lock, LOCK_RECORDER);
    write_buffer();
    if (!write_end() && take_back_last())
        write_end();
    let_go();
    lock_drop(&lock, LOCK_RECORDER);
    signals_let_come(before);
}

/* The file's position is shared with the parent: nothing may be written. The table stays, for the
 * call that a handler has forked in. */
void recorder_forget_after_fork(void) {
    leave_file();
    recorder.awaited = NULL;
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* another thread may have had it */
}
