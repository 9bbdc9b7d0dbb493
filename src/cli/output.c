#include "cli/output.h"

#include "cli/printable.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINKS = 40 }; /* as the kernel */

/* What a path stands for. */
struct target {
    char *path;         /* where its links end */
    int fault;          /* errno if the target cannot be found; then nothing else holds */
    int own;            /* the descriptor of ours that it is; -1: none */
    bool exists;        /* own < 0 */
    struct stat status; /* of what exists */
};

bool output_is_standard(const char *path) {
    return strcmp(path, "-") == 0;
}

static int own_descriptor(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        size_t length = strlen(folders[i]);
        const char *number = path + length;
        if (strncmp(path, folders[i], length) == 0 && isdigit((unsigned char)*number) &&
            number[strspn(number, "0123456789")] == '\0')
            return atoi(number);
    }
    return -1;
}

/* What the link at `at` leads to; NULL without memory. */
static char *next_of(const char *at, const char *text, size_t length) {
    char *next;
    const char *slash = strrchr(at, '/');
    int folder = *text == '/' || !slash ? 0 : (int)(slash + 1 - at);
    return asprintf(&next, "%.*s%.*s", folder, at, (int)length, text) < 0 ? NULL : next;
}

/* Where the links of `path` end, which need not exist; NULL and errno. Links in /proc are no paths:
 * what they stand for can be opened by their own names alone. */
static char *follow(const char *path) {
    char *at = strdup(path), text[PATH_MAX];
    for (int links = 0; at; links++) {
        bool magic = strncmp(at, "/proc/", 6) == 0 || own_descriptor(at) >= 0;
        ssize_t length = magic ? -1 : readlink(at, text, sizeof text);
        if (length < 0)
            return at;
        bool too_many = links == MOST_LINKS || length == (ssize_t)sizeof text;
        char *next = too_many ? NULL : next_of(at, text, (size_t)length);
        free(at);
        at = next;
        if (too_many)
            errno = ELOOP;
    }
    return NULL;
}

static struct target find(const char *path) {
    struct stat status = {.st_size = 0};
    char *end = follow(path);
    int fault = errno;
    if (!end)
        return (struct target){.fault = fault ? fault : ENOMEM, .own = -1};
    int own = own_descriptor(end);
    fault = own >= 0 || stat(end, &status) == 0 ? 0 : errno;
    return (struct target){.path = end,
                           .fault = fault == ENOENT ? 0 : fault,
                           .own = own,
                           .exists = own < 0 && !fault,
                           .status = status};
}

static bool is_regular(const struct target *target) {
    return target->exists && S_ISREG(target->status.st_mode);
}

/* With the final slash; "" is the current one. */
static int length_of_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash + 1 - path) : 0;
}

/* 0, or the errno with which it would fail. */
static int fault_to_expect(const struct target *target) {
    if (target->fault)
        return target->fault;
    if (target->own >= 0)
        return fcntl(target->own, F_GETFL) < 0 ? errno : 0;
    if (target->exists && S_ISDIR(target->status.st_mode))
        return EISDIR;
    if (target->exists)
        return faccessat(AT_FDCWD, target->path, W_OK, AT_EACCESS) == 0 ? 0 : errno;
    char *folder = strndup(target->path, (size_t)length_of_folder(target->path));
    int fault = !folder || faccessat(AT_FDCWD, *folder ? folder : ".", W_OK | X_OK, AT_EACCESS) != 0
                    ? errno
                    : 0;
    free(folder);
    return fault;
}

static void tell(const char *path, int fault, const char *state, char error[OUTPUT_ERROR]) {
    char *name = printable_copy(path);
    snprintf(error, OUTPUT_ERROR, "%.700s: %s; expected a file that can be written%s", name,
             strerror(fault), state);
    free(name);
}

/* The file that will be written to, if there is one already. */
static bool look_at(const char *path, struct stat *status) {
    return (output_is_standard(path) ? fstat(STDOUT_FILENO, status) : stat(path, status)) == 0;
}

static bool are_same(const struct stat *one, const struct stat *other) {
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

static bool refuse(const char *path, const char *use, char error[OUTPUT_ERROR]) {
    char *name = printable_copy(output_is_standard(path) ? "standard output" : path);
    snprintf(error, OUTPUT_ERROR,
             "%.700s: is the file that is %s, too; expected another one to write, nothing was "
             "written",
             name, use);
    free(name);
    return true;
}

bool output_is_input(const char *path, const char *input, char error[OUTPUT_ERROR]) {
    struct stat one, other;
    return look_at(path, &one) && S_ISREG(one.st_mode) && stat(input, &other) == 0 &&
           are_same(&one, &other) && refuse(path, "read", error);
}

/* Whether two files of which one is not there yet will be the same one. */
static bool will_be_same(const char *one, const char *other) {
    struct target targets[] = {find(one), find(other)};
    struct stat folders[2];
    bool same = targets[0].path && targets[1].path;
    for (int i = 0; same && i < 2; i++) {
        int length = length_of_folder(targets[i].path);
        char *folder = strndup(targets[i].path, (size_t)length);
        same = folder && stat(length ? folder : ".", &folders[i]) == 0;
        free(folder);
    }
    same = same && are_same(&folders[0], &folders[1]) &&
           strcmp(targets[0].path + length_of_folder(targets[0].path),
                  targets[1].path + length_of_folder(targets[1].path)) == 0;
    free(targets[0].path);
    free(targets[1].path);
    return same;
}

bool output_is_output(const char *one, const char *other, char error[OUTPUT_ERROR]) {
    struct stat statuses[2];
    bool there = look_at(one, &statuses[0]) && look_at(other, &statuses[1]);
    bool same = there ? are_same(&statuses[0], &statuses[1]) && !S_ISCHR(statuses[0].st_mode)
                      : will_be_same(one, other);
    return same && refuse(one, "written", error);
}

bool output_check(const char *path, char error[OUTPUT_ERROR]) {
    if (output_is_standard(path))
        return true;
    struct target target = find(path);
    int fault = fault_to_expect(&target);
    if (fault)
        tell(path, fault, "", error);
    free(target.path);
    return !fault;
}

/* Returns false and errno; *written tells how far it came. */
static bool write_all(int file, const char *bytes, size_t size, size_t *written) {
    for (*written = 0; *written < size;) {
        ssize_t more = write(file, bytes + *written, size - *written);
        struct pollfd ready = {.fd = file, .events = POLLOUT};
        if (more >= 0)
            *written += (size_t)more;
        else if (errno == EAGAIN)
            poll(&ready, 1, -1); /* a pipe that others have made so */
        else if (errno != EINTR)
            return false;
    }
    return true;
}

/* Closes the file, which shows faults, too. */
static bool close_after(int file, bool good) {
    int fault = errno;
    if (close(file) != 0 && good)
        return false;
    errno = fault;
    return good;
}

static bool write_as_it_is(const struct target *target, const char *bytes, size_t size) {
    size_t written;
    fflush(stdout); /* which may be the same */
    int file = target->own >= 0 ? fcntl(target->own, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                                : open(target->path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    return file >= 0 && close_after(file, write_all(file, bytes, size, &written));
}

/* Gives a new file the owner and the mode of the old one, as far as that is allowed. A mode that
 * lets its owner's rights be borrowed is another owner's no more. */
static void take_after(int file, const struct stat *old) {
    struct stat own;
    mode_t mode = 0666;
    if (old) {
        if (fchown(file, old->st_uid, old->st_gid) != 0 &&
            fchown(file, (uid_t)-1, old->st_gid) != 0)
            errno = 0; /* it is ours then, which is allowed */
        bool same =
            fstat(file, &own) == 0 && own.st_uid == old->st_uid && own.st_gid == old->st_gid;
        mode = old->st_mode & (same ? 07777 : 0777);
    } else {
        mode_t mask = umask(0);
        umask(mask);
        mode &= ~mask;
    }
    if (fchmod(file, mode) != 0)
        errno = 0;
}

/* A new file takes the target's place once it is complete. */
static bool replace(const struct target *target, const char *bytes, size_t size) {
    char *fresh = NULL;
    size_t written;
    if (asprintf(&fresh, "%.*s.poolcuda.XXXXXX.tmp", length_of_folder(target->path), target->path) <
        0)
        return false;
    int file = mkostemps(fresh, (int)strlen(".tmp"), O_CLOEXEC);
    bool done = file >= 0;
    if (done) {
        take_after(file, target->exists ? &target->status : NULL);
        done = close_after(file, write_all(file, bytes, size, &written)) &&
               rename(fresh, target->path) == 0;
    }
    int fault = errno;
    if (file >= 0 && !done)
        unlink(fresh);
    free(fresh);
    errno = fault;
    return done;
}

/* Whether a file's replacement has failed for a reason that does not concern its content. */
static bool may_be_written_in_place(int fault) {
    return fault == EACCES || fault == EPERM || fault == EROFS || fault == EBUSY ||
           fault == EXDEV || fault == ENOENT;
}

/* *touched: its old content is there no more, or not all of it. Room is asked for first. */
static bool write_in_place(const struct target *target, const char *bytes, size_t size,
                           bool *touched) {
    size_t written = 0;
    int file = open(target->path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
        return false;
    bool done = fallocate(file, FALLOC_FL_KEEP_SIZE, 0, (off_t)size) == 0 ||
                (errno != ENOSPC && errno != EDQUOT && errno != EFBIG);
    done = done && write_all(file, bytes, size, &written) && ftruncate(file, (off_t)size) == 0;
    *touched = written > 0;
    return close_after(file, done);
}

static bool write_regular(const struct target *target, const char *bytes, size_t size,
                          bool *touched) {
    if (replace(target, bytes, size))
        return true;
    return target->exists && may_be_written_in_place(errno) &&
           write_in_place(target, bytes, size, touched);
}

/* An interrupt leaves no half of a replacement behind. */
static bool write_undisturbed(const struct target *target, const char *bytes, size_t size,
                              bool *touched) {
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, &before);
    bool done = write_regular(target, bytes, size, touched);
    int fault = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = fault;
    return done;
}

bool output_write(const char *path, const void *bytes, size_t size, char error[OUTPUT_ERROR]) {
    bool touched = false, done = false;
    if (output_is_standard(path)) {
        fwrite(bytes, 1, size, stdout);
        return true;
    }
    struct target target = find(path);
    int fault = fault_to_expect(&target);
    bool regular = target.own < 0 && (is_regular(&target) || !target.exists);
    if (!fault) {
        done = regular ? write_undisturbed(&target, bytes, size, &touched)
                       : write_as_it_is(&target, bytes, size);
        fault = errno;
    }
    if (!done)
        tell(path, fault,
             touched               ? ", what was there is lost"
             : is_regular(&target) ? ", what was there is as it was"
                                   : "",
             error);
    free(target.path);
    return done;
}
