#include "counters/page_file.h"

#include "base/format.h"
#include "base/output_file.h"
#include "base/raw_files.h"
#include "counters/page.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* Invariant: known is what `file` was opened as. */
static struct {
    enum page_file kind;
    int file; /* of a stream, or a regular file */
    struct known_file known;
    char path[PAGE_FILE];
} own;

enum { FIRST_NS = 1000 * 1000, MOST_NS = 100 * 1000 * 1000, PART = 16 };

_Atomic uint64_t page_file_due = UINT64_MAX;
static _Atomic uint64_t shortage_due; /* when a shortage may be a reason to write again */

static bool alone;                             /* page_file_stands_alone */
static atomic_flag writing = ATOMIC_FLAG_INIT; /* a thread is at the file; for good, at the end */

/* Gives the file its length, and room where the file system can promise it. */
static bool reserve(int file) {
    errno = EFBIG;
    return raw_may_be_as_long(sizeof(struct stats_page)) &&
           (raw_fallocate(file, 0, sizeof(struct stats_page)) == 0 || errno == EOPNOTSUPP ||
            errno == ENOSYS) &&
           ftruncate(file, sizeof(struct stats_page)) == 0;
}

/* Another program, or a new folder of this one's, would take a relative path for another file. */
static void note_path(const char *path) {
    char folder[PAGE_FILE];
    bool absolute = *path == '/';
    if (!absolute && (raw_getcwd(folder, sizeof folder) <= 0 || *folder != '/'))
        return;
    if ((size_t)format(own.path, sizeof own.path, "%s%s%s", absolute ? "" : folder,
                       absolute ? "" : "/", path) >= sizeof own.path)
        own.path[0] = '\0'; /* a part of a path is another path */
}

void page_file_stands_alone(void) {
    alone = true;
}

enum page_file page_file_open(const char *pattern, void (*say)(const char *line)) {
    char path[OUTPUT_PATH_SIZE], line[256];
    bool stream;
    own.kind = PAGE_FILE_NONE;
    own.path[0] = '\0';
    if (!pattern || !*pattern)
        return own.kind;
    own.file = output_file_create(pattern, path, &stream);
    own.known = output_file_know(own.file);
    if (own.file >= 0 && own.known.inode && (stream || reserve(own.file))) {
        own.kind = stream ? PAGE_FILE_STREAM : PAGE_FILE_REGULAR;
        if (!stream) {
            note_path(path);
            atomic_store(&page_file_due, 0);
        }
        return own.kind;
    }
    format(line, sizeof line, "poolcuda: POOLCUDA_STATS_FILE=\"%.80s\": cannot be made (%s), %s",
           pattern, output_file_fault(errno).text,
           alone ? "no figures of this process" : "printing to standard error at exit");
    say(line);
    if (own.file >= 0) {
        close(own.file);
        if (!stream)
            raw_unlinkat(AT_FDCWD, path);
    }
    return own.kind = PAGE_FILE_MISSED;
}

static bool is_open(void) {
    return own.kind >= PAGE_FILE_STREAM && output_file_is(&own.known);
}

enum page_file page_file_look(void) {
    if (own.kind == PAGE_FILE_STREAM && !is_open())
        own.kind = PAGE_FILE_MISSED;
    return own.kind;
}

const char *page_file_path(void) {
    return own.path;
}

/* Writes what is used of the page, and sees to it that the file is as long as a page: somebody may
 * have cut it short. */
static void write_page(int file, const struct stats_page *page) {
    struct page_part parts[PAGE_PARTS];
    size_t count = stats_page_parts(page, parts);
    if (!raw_may_be_as_long(sizeof *page) || ftruncate(file, sizeof *page) != 0)
        return;
    for (size_t i = 0; i < count; i++)
        raw_pwrite(file, (const char *)page + parts[i].offset, parts[i].size,
                   (off_t)parts[i].offset);
}

static int open_again(const char *path) {
    return raw_above_standard(
        raw_openat(AT_FDCWD, path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0));
}

void page_file_write(const struct stats_page *page) {
    if (own.kind != PAGE_FILE_REGULAR || atomic_flag_test_and_set(&writing))
        return;
    int again = is_open() ? -1 : open_again(own.path);
    struct known_file same = own.known;
    if (again >= 0)
        same.file = again;
    if (output_file_is(&same))
        write_page(same.file, page);
    if (again >= 0)
        close(again);
    atomic_flag_clear(&writing);
}

__attribute__((cold)) void page_file_write_due(const struct stats_page *page, uint64_t now) {
    uint64_t pause = FIRST_NS + now / PART;
    atomic_store_explicit(&page_file_due, now + (pause < MOST_NS ? pause : MOST_NS),
                          memory_order_relaxed);
    page_file_write(page);
}

bool page_file_may_write_shortage(uint64_t now) {
    uint64_t from = atomic_load_explicit(&shortage_due, memory_order_relaxed);
    return atomic_load_explicit(&page_file_due, memory_order_relaxed) != UINT64_MAX &&
           now >= from && atomic_compare_exchange_strong(&shortage_due, &from, now + MOST_NS);
}

void page_file_write_last(const struct stats_page *page) {
    page_file_write(page);
    atomic_store(&page_file_due, UINT64_MAX);
}

int page_file_begin_report(void) {
    enum { STEP_NS = 1000 * 1000, STEPS = 100 };
    if (own.kind != PAGE_FILE_REGULAR)
        return is_open() ? own.file : -1;
    /* The program may have called exit in a handler of a signal that came while we wrote. */
    for (int step = 0; atomic_flag_test_and_set(&writing) && step < STEPS; step++)
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    if (is_open() && lseek(own.file, 0, SEEK_SET) == 0)
        return own.file;
    atomic_flag_clear(&writing);
    return -1;
}

void page_file_end_report(void) {
    if (own.kind != PAGE_FILE_REGULAR)
        return;
    off_t end = lseek(own.file, 0, SEEK_CUR);
    if (end > 0)
        (void)!ftruncate(own.file, end);
}

void page_file_forget(void) {
    if (is_open())
        close(own.file);
    own.kind = PAGE_FILE_NONE;
    atomic_store(&page_file_due, UINT64_MAX);
    atomic_store(&shortage_due, 0);
    atomic_flag_clear(&writing);
}

/* Whether the file has a page of the same run. Not by its head, which is large: a program that
 * starts saves others' pages on the stack that it happens to have. */
static bool has_page_of(int file, const struct stats_page *page) {
    enum { RUN = offsetof(struct stats_page, process) };
    char banner[sizeof PAGE_MAGIC - 1], run[offsetof(struct stats_page, executable) - RUN];
    struct stat status;
    return raw_fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_uid == (uid_t)syscall(SYS_geteuid) &&
           raw_pread(file, banner, sizeof banner, 0) == (ssize_t)sizeof banner &&
           memcmp(banner, PAGE_MAGIC, sizeof banner) == 0 &&
           raw_pread(file, run, sizeof run, RUN) == (ssize_t)sizeof run &&
           memcmp(run, (const char *)page + RUN, sizeof run) == 0;
}

void page_file_save(const struct stats_page *page) {
    char path[PAGE_FILE];
    memcpy(path, page->file, sizeof path);
    path[sizeof path - 1] = '\0';
    int file = *path == '/' ? open_again(path) : -1;
    if (file < 0)
        return;
    if (has_page_of(file, page))
        write_page(file, page);
    close(file);
}
