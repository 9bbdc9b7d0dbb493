#include "peers/shared_page.h"

#include "base/format.h"
#include "base/raw_files.h"
#include "base/segment.h"
#include "counters/page.h"
#include "peers/share_folder.h"

#include <stdlib.h>
#include <string.h>

/* Invariant: process is who made the page, or 0; name is "" while the page has none in the folder;
 * of the file that has the name, device and inode are known. lasting is 1 + the number of the
 * page's segment as long as nothing ends that yet. */
static struct {
    pid_t process;
    const struct stats_page *page;
    char name[SHARE_NAME];
    dev_t device;
    ino_t inode;
    uint32_t lasting;
} own;

struct stats_page *share_open(bool lasting) {
    int number;
    share_forget();
    int folder = share_folder_open(true);
    if (folder < 0)
        return NULL;
    close(folder);
    struct stats_page *page = segment_make(sizeof *page, &number);
    if (!page)
        return NULL;
    if (!lasting)
        segment_let_end(number);
    own.process = getpid();
    own.page = page;
    page->segment = 1 + (uint32_t)number;
    own.lasting = lasting ? page->segment : 0;
    return page;
}

static void let_segment_end(void) {
    if (own.lasting)
        segment_let_end((int)own.lasting - 1);
    own.lasting = 0;
}

/* Whether the number is still the page's. In another IPC namespace, into which the program may have
 * gone since, it is nobody's, or that of a segment of the program's own. */
static bool has_segment(void) {
    struct stats_page *found =
        segment_join((int)own.lasting - 1, sizeof *found, false, (uint32_t)syscall(SYS_geteuid));
    bool same = found && stats_page_is_of((const struct stats_head *)found,
                                          (const struct stats_head *)own.page);
    if (found)
        segment_leave(found, sizeof *found);
    return same;
}

/* Whether what has the name is the page of another pid namespace, whose process has our number. */
static bool is_anothers(int folder, const char *name, uint64_t namespace_id) {
    struct stats_head *head = malloc(sizeof *head); /* not on the stack: see share_folder.c */
    struct share_page page;
    bool another = share_open_page(folder, name, false, &page) && head &&
                   share_read_head(&page, head) && head->namespace_id != namespace_id;
    share_close_page(&page);
    free(head);
    return another;
}

/* Finds the name of this process's entry and frees it. */
static void free_name(int folder, const struct stats_page *page, char name[SHARE_NAME]) {
    format(name, SHARE_NAME, "%llu", (unsigned long long)page->process);
    if (is_anothers(folder, name, page->namespace_id))
        format(name, SHARE_NAME, "%llu-%llu", (unsigned long long)page->process,
               (unsigned long long)page->namespace_id);
    share_clear_own(folder, name);
}

/* Clears some pages away, as each new process does: processes that are killed or end by _exit leave
 * theirs, which take memory from everybody. */
static void clear_some(int folder) {
    enum { MOST = 32 };
    struct share_walk walk = {.folder = folder, .unfinished = true};
    for (int i = 0; i < MOST && share_walk_next(&walk); i++)
        share_clear(folder, walk.name);
}

static bool write_part(int file, const struct stats_page *page, size_t from, size_t to) {
    return raw_pwrite(file, (const char *)page + from, to - from, (off_t)from) ==
           (ssize_t)(to - from);
}

/* Writes the head, but for the shards: to read them would make memory of them. */
static bool write_head(int file, const struct stats_page *page) {
    const size_t shards = offsetof(struct stats_head, shards),
                 behind = offsetof(struct stats_head, version), end = sizeof(struct stats_head);
    return raw_may_be_as_long(end) && write_part(file, page, 0, shards) &&
           write_part(file, page, behind, end);
}

/* Makes the file, of which nobody is to see a part. */
static bool make_file(int folder, const struct stats_page *page) {
    struct stat status = {0};
    raw_remove(folder, own.name); /* of a process that was killed at this very place */
    int file = raw_above_standard(
        raw_openat(folder, own.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file < 0)
        return false;
    bool made = raw_fstat(file, &status) == 0 && write_head(file, page);
    close(file);
    own.device = status.st_dev;
    own.inode = status.st_ino;
    return made;
}

void share_publish(const struct stats_page *page) {
    char name[SHARE_NAME];
    int folder = share_folder_open(false);
    bool named = false;
    if (folder >= 0) {
        format(own.name, sizeof own.name, ".%llu-%llu", (unsigned long long)page->process,
               (unsigned long long)page->namespace_id);
        if (make_file(folder, page)) {
            free_name(folder, page, name);
            named = raw_linkat(folder, own.name, name) == 0;
        }
        raw_unlinkat(folder, own.name);
        clear_some(folder);
        close(folder);
    }
    format(own.name, sizeof own.name, "%s", named ? name : "");
    if (!named) /* nobody could clear it away */
        let_segment_end();
}

/* Whether the entry is what we made: the process may have been given another's /dev/shm. */
static bool is_own(int folder) {
    struct stat status;
    return raw_lstatat(folder, own.name, &status) == 0 && status.st_ino == own.inode &&
           status.st_dev == own.device;
}

void share_close(void) {
    /* A child of a bare clone() does not know that it is one. */
    if (!own.process || own.process != getpid())
        return;
    /* A page that cannot be ended from here is ended by whoever comes across its entry. */
    bool can_end = !own.lasting || has_segment();
    int folder = can_end && *own.name ? share_folder_open(false) : -1;
    if (folder >= 0) {
        if (is_own(folder))
            raw_unlinkat(folder, own.name);
        close(folder);
    }
    own.name[0] = '\0';
    if (can_end)
        let_segment_end();
    own.lasting = 0;
}

void share_forget(void) {
    memset(&own, 0, sizeof own);
}
