#include "observe/shared_page.h"

#include "format.h"
#include "observe/page.h"
#include "observe/share_folder.h"
#include "raw_files.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
    CHUNK = 8 << 10, /* what is reserved at a time */
    CHUNKS = (sizeof(struct stats_page) + CHUNK - 1) / CHUNK,
    TARGET = 4096
};

/* Invariant: process is who made the file, or 0; name is "" while the page has none in the folder;
 * of the file that is mapped, device and inode are known (inode 0: none is) and bit i of reserved
 * stands for its i-th chunk. */
static struct {
    pid_t process;
    char name[SHARE_NAME];
    dev_t device;
    ino_t inode;
    uint64_t reserved[CHUNKS / 64 + 1];
    bool is_link;
} own;

static bool is_reserved(size_t chunk) {
    return own.reserved[chunk / 64] >> (chunk % 64) & 1;
}

static bool reserve_in(int file, size_t first, size_t last) {
    for (size_t chunk = first; chunk <= last; chunk++) {
        int result = is_reserved(chunk) ? 0 : -1;
        for (int attempt = 0; result != 0 && attempt < 8; attempt++) {
            result = raw_fallocate(file, (off_t)(chunk * CHUNK), CHUNK);
            if (result != 0 && errno != EINTR)
                return false;
        }
        if (result != 0)
            return false;
        own.reserved[chunk / 64] |= (uint64_t)1 << (chunk % 64);
    }
    return true;
}

bool share_reserve(size_t offset, size_t length) {
    size_t first = offset / CHUNK, last = (offset + length - 1) / CHUNK;
    bool done = true;
    struct stat status;
    if (!own.inode)
        return true;
    for (size_t chunk = first; done && chunk <= last; chunk++)
        done = is_reserved(chunk);
    if (done)
        return true;
    int folder = *own.name ? share_folder_open(false) : -1;
    if (folder < 0)
        return false;
    int file = raw_openat(folder, own.name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    close(folder);
    if (file < 0)
        return false;
    done = raw_fstat(file, &status) == 0 && status.st_ino == own.inode &&
           status.st_dev == own.device && reserve_in(file, first, last);
    close(file);
    return done;
}

static void *map_file(int file) {
    struct stat status;
    if (raw_fstat(file, &status) != 0 || ftruncate(file, (off_t)CHUNKS * CHUNK) != 0)
        return NULL;
    own.device = status.st_dev;
    own.inode = status.st_ino;
    if (!reserve_in(file, 0, (offsetof(struct stats_page, modules) - 1) / CHUNK))
        return NULL;
    void *page = mmap(NULL, sizeof(struct stats_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return page == MAP_FAILED ? NULL : page;
}

struct stats_page *share_open(void) {
    share_forget();
    if (!raw_may_be_as_long((uint64_t)CHUNKS * CHUNK)) /* the chunks' end is a whole number */
        return NULL;
    int folder = share_folder_open(true);
    if (folder < 0)
        return NULL;
    own.process = getpid();
    format(own.name, sizeof own.name, ".%llu-%llu", (unsigned long long)getpid(),
           (unsigned long long)share_namespace());
    raw_remove(folder, own.name); /* of a process that was killed at this very place */
    int file =
        raw_openat(folder, own.name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stats_page *page = file < 0 ? NULL : map_file(file);
    if (file >= 0)
        close(file);
    if (!page) {
        raw_unlinkat(folder, own.name);
        share_forget();
    }
    close(folder);
    return page;
}

/* Whether what has the name is the page of another pid namespace, whose process has our number. */
static bool is_anothers(int folder, const char *name, uint64_t namespace_id) {
    struct stats_head head;
    int file = share_open_page(folder, name, false);
    bool another = file >= 0 && share_read_head(file, &head) && head.namespace_id != namespace_id;
    if (file >= 0)
        close(file);
    return another;
}

/* Finds the name of this process's entry and frees it: what else has the name is from before an
 * exec, or of a process that had the number earlier. */
static void free_name(int folder, const struct stats_page *page, char name[SHARE_NAME]) {
    format(name, SHARE_NAME, "%llu", (unsigned long long)page->process);
    if (is_anothers(folder, name, page->namespace_id))
        format(name, SHARE_NAME, "%llu-%llu", (unsigned long long)page->process,
               (unsigned long long)page->namespace_id);
    raw_remove(folder, name);
}

/* Clears some pages away, as each new process does: processes that are killed or end by _exit leave
 * theirs, which take memory from everybody. */
static void clear_some(int folder) {
    enum { MOST = 32 };
    struct share_walk walk = {.folder = folder, .unfinished = true};
    for (int i = 0; i < MOST && share_walk_next(&walk); i++)
        share_clear(folder, walk.name);
}

bool share_publish(const struct stats_page *page) {
    char name[SHARE_NAME];
    int folder = own.inode ? share_folder_open(false) : -1;
    if (folder < 0)
        return false;
    free_name(folder, page, name);
    bool named = raw_linkat(folder, own.name, name) == 0;
    raw_unlinkat(folder, own.name);
    format(own.name, sizeof own.name, "%s", named ? name : "");
    clear_some(folder);
    close(folder);
    return named;
}

void share_link(const struct stats_page *page, const char *path) {
    char target[TARGET], name[SHARE_NAME];
    ssize_t length = *path == '/' ? 1 : raw_getcwd(target, sizeof target);
    if (length <= 0)
        return;
    target[length - 1] = '\0';
    if ((size_t)format(target + length - 1, sizeof target - (size_t)length + 1, "%s%s",
                       *path == '/' ? "" : "/", path) >= sizeof target - (size_t)length + 1)
        return;
    int folder = share_folder_open(true);
    if (folder < 0)
        return;
    free_name(folder, page, name);
    own.process = getpid();
    own.is_link = raw_symlinkat(target, folder, name) == 0;
    format(own.name, sizeof own.name, "%s", own.is_link ? name : "");
    clear_some(folder);
    close(folder);
}

bool share_copy(struct stats_page *copy, const struct stats_page *page) {
    for (size_t chunk = 0; own.inode && chunk < CHUNKS; chunk++) {
        size_t from = chunk * CHUNK, rest = sizeof *page - from;
        if (is_reserved(chunk))
            memcpy((char *)copy + from, (const char *)page + from, rest < CHUNK ? rest : CHUNK);
    }
    return own.inode != 0;
}

/* Whether the entry is what we made: the process may have been given another's /dev/shm. */
static bool is_own(int folder) {
    struct stat status;
    char target[2];
    if (own.is_link)
        return raw_readlinkat(folder, own.name, target, sizeof target) > 0;
    int file = raw_openat(folder, own.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (file < 0)
        return false;
    bool same =
        raw_fstat(file, &status) == 0 && status.st_ino == own.inode && status.st_dev == own.device;
    close(file);
    return same;
}

void share_close(void) {
    /* A child of a bare clone() does not know that it is one. */
    int folder = *own.name && own.process == getpid() ? share_folder_open(false) : -1;
    if (folder < 0)
        return;
    if (is_own(folder))
        raw_unlinkat(folder, own.name);
    own.name[0] = '\0';
    close(folder);
}

void share_forget(void) {
    memset(&own, 0, sizeof own);
}
