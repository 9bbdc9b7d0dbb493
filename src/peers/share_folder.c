#include "peers/share_folder.h"

#include "base/format.h"
#include "base/raw_files.h"
#include "base/segment.h"
#include "counters/page.h"
#include "counters/page_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void share_folder_path(char path[SHARE_FOLDER]) {
    format(path, SHARE_FOLDER, SHARE_FOLDERS "%u", (unsigned)syscall(SYS_geteuid));
}

/* Whether the process has its user's rights and no others: what a set-user-id program holds is not
 * its caller's to see or steer. */
static bool is_plain_user(void) {
    return syscall(SYS_getuid) == syscall(SYS_geteuid) &&
           syscall(SYS_getgid) == syscall(SYS_getegid);
}

static int open_folder(const char *path, uint32_t user) {
    struct stat status;
    int folder = raw_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (folder < 0)
        return -1;
    if (raw_fstat(folder, &status) == 0 && status.st_uid == user && !(status.st_mode & 077))
        return folder;
    close(folder);
    errno = EPERM;
    return -1;
}

int share_folder_open(bool make) {
    char path[SHARE_FOLDER];
    errno = EPERM;
    if (!is_plain_user())
        return -1;
    share_folder_path(path);
    if (make)
        raw_mkdir(path, 0700);
    return open_folder(path, (uint32_t)syscall(SYS_geteuid));
}

int share_folder_open_of(uint32_t user) {
    char path[SHARE_FOLDER];
    errno = EPERM;
    if (!is_plain_user())
        return -1;
    format(path, sizeof path, SHARE_FOLDERS "%u", (unsigned)user);
    return open_folder(path, user);
}

/* Whether a name is digits, or digits-digits; behind a dot while the page is being made. */
static bool is_process(const char *name) {
    int parts = 0;
    name += *name == '.';
    for (;; name++) {
        if (*name < '1' || *name > '9')
            return false;
        while (*name >= '0' && *name <= '9')
            name++;
        if (!*name)
            return true;
        if (*name != '-' || parts++)
            return false;
    }
}

bool share_walk_next(struct share_walk *walk) {
    /* struct linux_dirent64 */
    enum { LENGTH_AT = 16, NAME_AT = 19 };
    for (;;) {
        if (walk->at >= walk->end) {
            ssize_t got = raw_getdents(walk->folder, walk->entries, sizeof walk->entries);
            if (got <= 0)
                return false;
            walk->at = 0;
            walk->end = (uint32_t)got;
        }
        const char *entry = walk->entries + walk->at, *name = entry + NAME_AT;
        uint16_t length;
        memcpy(&length, entry + LENGTH_AT, sizeof length);
        walk->at += length;
        if (strlen(name) < SHARE_NAME && (walk->unfinished || *name != '.') && is_process(name)) {
            memcpy(walk->name, name, strlen(name) + 1);
            return true;
        }
    }
}

bool share_open_page(int folder, const char *name, bool writable, struct share_page *page) {
    struct stat status, within;
    *page = (struct share_page){.writable = writable};
    page->file = raw_above_standard(
        raw_openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0));
    if (page->file < 0)
        return false;
    if (raw_fstat(page->file, &status) == 0 && S_ISREG(status.st_mode) &&
        raw_fstat(folder, &within) == 0 && status.st_uid == within.st_uid) {
        page->owner = status.st_uid;
        return true;
    }
    share_close_page(page);
    return false;
}

void share_close_entry(struct share_page *page) {
    if (page->file >= 0)
        close(page->file);
    page->file = -1;
}

void share_close_page(struct share_page *page) {
    if (page->live)
        segment_leave(page->live, sizeof *page->live);
    page->live = NULL;
    share_close_entry(page);
}

/* Finds the page itself. The number may be another's by now. */
static void join(struct share_page *page, const struct stats_head *head) {
    if (page->live || !head->segment)
        return;
    page->live =
        segment_join((int)head->segment - 1, sizeof *page->live, page->writable, page->owner);
    if (page->live && !stats_page_is_of((const struct stats_head *)page->live, head)) {
        segment_leave(page->live, sizeof *page->live);
        page->live = NULL;
    }
}

static bool is_head(const struct stats_head *head) {
    return strncmp(head->banner, PAGE_MAGIC, sizeof PAGE_MAGIC - 1) == 0 &&
           head->version == PAGE_VERSION && head->size == sizeof(struct stats_page) &&
           head->counter_count == STATS_COUNTERS && head->route_count == STATS_ROUTES &&
           head->wait_reason_count == WAIT_REASONS;
}

/* Word by word: our memcpy goes by bytes, and a head is large. */
bool share_copy_head(const struct stats_page *page, struct stats_head *head) {
    const _Atomic uint64_t *from = (const void *)page;
    uint64_t *to = (void *)head;
    _Static_assert(sizeof *head % sizeof *to == 0, "whole words");
    for (size_t i = 0; i < sizeof *head / sizeof *to; i++)
        to[i] = stats_read(&from[i]);
    return is_head(head);
}

/* Reads the head as the entry has it. */
static bool read_entry(const struct share_page *page, struct stats_head *head) {
    return raw_pread(page->file, head, sizeof *head, 0) == (ssize_t)sizeof *head && is_head(head);
}

bool share_read_head(struct share_page *page, struct stats_head *head) {
    if (!page->live && !read_entry(page, head))
        return false;
    join(page, head);
    return !page->live || share_copy_head(page->live, head);
}

bool share_is_named(const char *name, const struct stats_head *head) {
    char own[SHARE_NAME], longer[SHARE_NAME];
    format(own, sizeof own, "%llu", (unsigned long long)head->process);
    format(longer, sizeof longer, "%llu-%llu", (unsigned long long)head->process,
           (unsigned long long)head->namespace_id);
    return strcmp(name, own) == 0 || strcmp(name, longer) == 0;
}

static uint64_t number(const char *text) {
    uint64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    return value;
}

uint64_t share_namespace(void) {
    char text[64]; /* pid:[4026531836] */
    ssize_t length = readlink("/proc/self/ns/pid", text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    const char *bracket = strchr(text, '[');
    return bracket ? number(bracket + 1) : 0;
}

/* Whether numbers in /proc mean the same as here: a process may be in a new pid namespace and still
 * have the /proc of the old one, where each number is another process's. */
static bool is_proc_ours(void) {
    char text[32];
    ssize_t length = readlink("/proc/self", text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    return number(text) == (uint64_t)getpid();
}

/* The path of the file of /proc that describes the process. */
static void proc_path(char path[SHARE_NAME], uint64_t process, const char *what) {
    format(path, SHARE_NAME, "/proc/%llu/%s", (unsigned long long)process, what);
}

uint64_t share_born(uint64_t process) {
    enum { STATE = 3, START_TIME = 22 }; /* fields of proc(5), from 1 */
    char path[SHARE_NAME], text[1024];
    proc_path(path, process, "stat");
    int file = is_proc_ours() ? raw_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (file < 0)
        return 0;
    ssize_t length = raw_pread(file, text, sizeof text - 1, 0);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    const char *at = strrchr(text, ')'); /* the command may hold anything, brackets too */
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
        return 0; /* a zombie has ended */
    for (int field = STATE - 1; at && field < START_TIME; field++)
        at = strchr(at + 1, ' ');
    return at ? number(at + 1) : 0;
}

/* Whether the process still runs the program of the page. What cannot be asked is believed. The
 * file is compared, not its path, which may have changed or be seen from another root. */
static bool runs(const struct stats_head *head) {
    char path[SHARE_NAME];
    struct stat program;
    proc_path(path, head->process, "exe");
    return !head->executable[1] || raw_stat(path, &program) != 0 ||
           (program.st_dev == head->executable[0] && program.st_ino == head->executable[1]);
}

bool share_is_stale(const struct stats_head *head) {
    uint64_t here = share_namespace();
    if (!here || head->namespace_id != here || !is_proc_ours())
        return false;
    uint64_t born = share_born(head->process);
    if (!born || (head->born && born != head->born))
        return true;
    return !runs(head);
}

/* Whether an entry's name is of this pid namespace, and no process has the number. */
static bool is_nobodys(const char *name) {
    const char *process = *name == '.' ? name + 1 : name, *dash = strchr(process, '-');
    if (!is_proc_ours() || (dash ? number(dash + 1) != share_namespace() : *name == '.'))
        return false;
    return !share_born(number(process));
}

/* Whether it may be the page of a living process of another version, in another pid namespace. */
static bool is_of_another_version(const struct share_page *page) {
    char banner[sizeof PAGE_MAGIC - 1];
    uint32_t version;
    return page->file >= 0 &&
           raw_pread(page->file, banner, sizeof banner, 0) == (ssize_t)sizeof banner &&
           memcmp(banner, PAGE_MAGIC, sizeof banner) == 0 &&
           raw_pread(page->file, &version, sizeof version, offsetof(struct stats_head, version)) ==
               (ssize_t)sizeof version &&
           version != PAGE_VERSION;
}

/* Removes the entry if it still is that one. */
static void remove_that(int folder, const char *name, const struct stat *that) {
    struct stat now;
    if (raw_lstatat(folder, name, &now) == 0 && now.st_ino == that->st_ino &&
        now.st_dev == that->st_dev)
        raw_remove(folder, name);
}

/* Ends a page, with the last figures in its file, if it can be found. */
static void end_page(struct share_page *page, const struct stats_head *head) {
    join(page, head);
    if (!page->live)
        return;
    page_file_save(page->live);
    segment_let_end((int)head->segment - 1);
}

/* A head is larger than the stack of some threads: none lies there. */

void share_clear(int folder, const char *name) {
    struct stats_head *head = malloc(sizeof *head);
    struct share_page page;
    struct stat entry;
    if (!head || raw_lstatat(folder, name, &entry) != 0) {
        free(head);
        return;
    }
    share_open_page(folder, name, false, &page);
    bool is_page = *name != '.' && page.file >= 0 && read_entry(&page, head);
    bool stale = is_page && share_is_stale(head);
    if (stale)
        end_page(&page, head);
    if (stale || (!is_page && is_nobodys(name) && !is_of_another_version(&page)))
        remove_that(folder, name, &entry);
    share_close_page(&page);
    free(head);
}

void share_clear_own(int folder, const char *name) {
    struct stats_head *head = malloc(sizeof *head);
    struct share_page page;
    if (share_open_page(folder, name, false, &page) && head && read_entry(&page, head) &&
        share_is_named(name, head))
        end_page(&page, head);
    share_close_page(&page);
    free(head);
    raw_remove(folder, name);
}

bool share_is_damaged(int folder, const char *name) {
    struct stats_head *head = malloc(sizeof *head);
    struct share_page page;
    struct stat entry;
    bool readable =
        share_open_page(folder, name, false, &page) && (!head || share_read_head(&page, head));
    share_close_page(&page);
    free(head);
    return !readable && raw_lstatat(folder, name, &entry) == 0;
}
