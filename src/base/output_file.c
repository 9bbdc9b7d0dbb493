#include "base/output_file.h"

#include "base/format.h"
#include "base/raw_files.h"
#include "base/signals.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SAME_NAME_TRIES = 10000,
    NO_NAME = ENODATA, /* an error of no call here */
};

/* The value of a variable whose name is `length` bytes long; NULL: it is not set. Not getenv: each
 * function that the preloaded object imports costs every program at its start. */
static const char *variable(const char *name, size_t length) {
    for (char *const *entry = environ; entry && *entry; entry++)
        if (**entry == *name && strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

/* A number below 10^9 and nothing else; -1: it is none. */
static int small_number(const char *text) {
    int number = 0, digits = 0;
    for (; *text >= '0' && *text <= '9' && digits < 9; text++, digits++)
        number = number * 10 + (*text - '0');
    return digits && !*text ? number : -1;
}

int output_file_rank(void) {
    static const char names[][24] = {
        "PMIX_RANK",            /* OpenMPI 5, PMIx, Slurm with --mpi=pmix */
        "OMPI_COMM_WORLD_RANK", /* OpenMPI */
        "PMI_RANK",             /* MPICH, Intel MPI, Cray */
        "MV2_COMM_WORLD_RANK",  /* MVAPICH2 */
        "PALS_RANKID",          /* HPE Cray PALS */
        "FLUX_TASK_RANK",       /* Flux */
        "JSM_NAMESPACE_RANK",   /* IBM JSM */
        "SLURM_PROCID",         /* srun without MPI */
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = variable(names[i], strlen(names[i]));
        if (value && small_number(value) >= 0)
            return small_number(value);
    }
    /* torchrun; a lone RANK may be anything. */
    const char *value = variable("WORLD_SIZE", 10) ? variable("RANK", 4) : NULL;
    return value ? small_number(value) : -1;
}

/* JOB_ID may be anything, but where Grid Engine has set its own variable too. */
void output_file_job(char *job, size_t job_size, char *step, size_t step_size) {
    static const char names[][2][16] = {{"SLURM_JOB_ID", "SLURM_STEP_ID"},
                                        {"PBS_JOBID", "PALS_APID"},
                                        {"LSB_JOBID", "LS_JSM_STEPID"},
                                        {"FLUX_JOB_ID", "FLUX_SUBID"},
                                        {"JOB_ID", "SGE_TASK_ID"}};
    const char *found = NULL, *part = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++) {
        part = variable(names[i][1], strlen(names[i][1]));
        found = names[i][0][0] != 'J' || part ? variable(names[i][0], strlen(names[i][0])) : NULL;
    }
    format(job, job_size, "%s", found ? found : "");
    format(step, step_size, "%s", found && part ? part : "");
}

void output_file_host(char *name, size_t size) {
    int file = raw_openat(AT_FDCWD, "/proc/sys/kernel/hostname", O_RDONLY | O_CLOEXEC, 0);
    ssize_t length = file < 0 ? 0 : raw_pread(file, name, size - 1, 0);
    if (file >= 0)
        close(file);
    name[length > 0 ? length : 0] = '\0';
    char *end = strchr(name, '\n');
    if (end)
        *end = '\0';
}

/* Writes the executable's name without its folder. */
static void executable(char *name, size_t size) {
    char path[1024];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(path, '/');
    format(name, size, "%s", slash ? slash + 1 : path);
}

struct name {
    char *text;
    size_t size, length;
    bool full; /* it does not fit */
};

/* A value that a variable or a host has given names a file, not a folder. */
static void append(struct name *name, const char *text, bool flat) {
    for (; *text; text++) {
        if (name->length + 1 >= name->size) {
            name->full = true;
            return;
        }
        name->text[name->length++] = flat && *text == '/' ? '_' : *text;
    }
}

static void append_number(struct name *name, uint64_t number) {
    char text[24];
    format(text, sizeof text, "%llu", (unsigned long long)number);
    append(name, text, false);
}

/* Appends %q{NAME}, at `pattern`, which is behind the %. Returns what follows, NULL if it is
 * none. */
static const char *append_variable(struct name *name, const char *pattern) {
    const char *end = pattern[0] == 'q' && pattern[1] == '{' ? strchr(pattern, '}') : NULL;
    if (!end)
        return NULL;
    const char *value = variable(pattern + 2, (size_t)(end - pattern) - 2);
    append(name, value ? value : "", true);
    return end + 1;
}

/* Appends what the letter stands for. False: it stands for nothing. */
static bool append_letter(struct name *name, char letter, unsigned number) {
    char text[256];
    struct timespec now;
    int rank = output_file_rank();
    switch (letter) {
    case 'p':
        append_number(name, (uint64_t)getpid());
        return true;
    case 'r':
        append_number(name, rank < 0 ? 0 : (uint64_t)rank);
        return true;
    case 'n':
        append_number(name, number);
        return true;
    case 't':
        clock_gettime(CLOCK_REALTIME, &now);
        append_number(name, (uint64_t)now.tv_sec);
        return true;
    case 'h':
        output_file_host(text, sizeof text);
        append(name, text, true);
        return true;
    case 'e':
        executable(text, sizeof text);
        append(name, text, true);
        return true;
    case '%':
        append(name, "%", false);
        return true;
    default:
        return false;
    }
}

size_t output_file_name(char *path, size_t size, const char *pattern, unsigned number) {
    struct name name = {.text = path, .size = size};
    bool apart = false; /* the ranks' names differ */
    for (const char *next; *pattern; pattern = next) {
        char plain[2] = {*pattern, 0};
        next = *pattern == '%' ? append_variable(&name, pattern + 1) : NULL;
        if (next) {
            apart = true;
        } else if (*pattern == '%' && append_letter(&name, pattern[1], number)) {
            apart = apart || pattern[1] == 'p' || pattern[1] == 'r';
            next = pattern + 2;
        } else {
            append(&name, plain, false);
            next = pattern + 1;
        }
    }
    int rank = apart ? -1 : output_file_rank();
    if (rank >= 0) {
        append(&name, ".rank", false);
        append_number(&name, (uint64_t)rank);
    }
    path[name.length] = '\0';
    return name.full ? 0 : name.length;
}

/* Why output_file_name has made none; what it has made is at `path`. */
static int fault_of_name(const char *path) {
    return *path ? ENAMETOOLONG : NO_NAME;
}

static bool numbers(const char *pattern) {
    for (; *pattern; pattern++) {
        if (*pattern == '%' && pattern[1] == 'n')
            return true;
        if (*pattern == '%' && pattern[1])
            pattern++;
    }
    return false;
}

/* The descriptor of this process's own that the path stands for; -1: it stands for none. */
static int own_descriptor(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (strncmp(path, folders[i], strlen(folders[i])) == 0)
            return small_number(path + strlen(folders[i]));
    return -1;
}

struct known_file output_file_know(int file) {
    struct stat status;
    struct known_file known = {.file = file};
    if (file >= 0 && raw_fstat(file, &status) == 0) {
        known.device = status.st_dev;
        known.inode = status.st_ino;
    }
    return known;
}

bool output_file_is(const struct known_file *known) {
    struct stat now;
    if (raw_fstat(known->file, &now) != 0)
        return errno == ENOSYS && known->inode; /* it is not asked in a program that is shut in */
    return known->inode && now.st_ino == known->inode && now.st_dev == known->device;
}

static struct known_file standard_error = {.file = -1}; /* -1: not known */

void output_file_know_standard_error(void) {
    standard_error = output_file_know(STDERR_FILENO);
}

static bool is_programs_own(int file) {
    return file == STDERR_FILENO && standard_error.file >= 0 && !output_file_is(&standard_error);
}

/* Opens what is there, without waiting for a reader. Our own descriptors are copied, since opening
 * a file once more would write over what the program has written. */
static int open_as_it_is(const char *path, int flags) {
    int own = own_descriptor(path);
    if (is_programs_own(own)) {
        errno = EBADF;
        return -1;
    }
    if (own >= 0)
        return raw_copy_kept(own);
    return raw_keep(
        raw_openat(AT_FDCWD, path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0644));
}

static bool is_stream(const char *path) {
    struct stat status;
    return own_descriptor(path) >= 0 || (raw_stat(path, &status) == 0 && !S_ISREG(status.st_mode));
}

int output_file_create(const char *pattern, char *path, bool *stream) {
    bool numbered = numbers(pattern);
    size_t length = output_file_name(path, OUTPUT_PATH_SIZE - 16, pattern, 0);
    *stream = false;
    if (!length) {
        errno = fault_of_name(path);
        return -1;
    }
    if (!numbered && is_stream(path)) {
        *stream = true;
        return open_as_it_is(path, 0);
    }
    int file = raw_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    for (unsigned i = 1; file < 0 && errno == EEXIST && i < SAME_NAME_TRIES; i++) {
        if (numbered)
            output_file_name(path, OUTPUT_PATH_SIZE, pattern, i);
        else
            format(path + length, OUTPUT_PATH_SIZE - length, ".%u", i);
        file = raw_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    return raw_keep(file);
}

static const char *behind(const char *text, const char *beginning) {
    size_t length = strlen(beginning);
    return strncmp(text, beginning, length) == 0 ? text + length : NULL;
}

/* Whether the text is how a report, as JSON, as text or of a running program, or a trace begins. A
 * log begins differently. */
static bool begins_what_is_kept(const char *text) {
    const char *words = behind(text, "poolcuda ");
    if (words)
        return (*words >= '0' && *words <= '9') || behind(words, "trace\n") ||
               behind(words, "figures of ");
    while (*text && strchr("[{ \n", *text))
        text++;
    words = behind(text, "\"format\":");
    return words && behind(words + (*words == ' '), "\"poolcuda report\"");
}

/* Whether a log would destroy the file. A pipe is not looked at: we would be its reader. */
static bool is_kept(const char *path) {
    char text[64] = "";
    if (is_stream(path))
        return false;
    int file = raw_openat(AT_FDCWD, path, O_RDONLY | O_NOCTTY | O_CLOEXEC, 0);
    if (file < 0)
        return false;
    ssize_t length = raw_read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    return begins_what_is_kept(text);
}

int output_file_append(const char *pattern, const char *option, void (*say)(const char *line)) {
    char path[OUTPUT_PATH_SIZE], line[256];
    if (strcmp(pattern, "stderr") == 0)
        return STDERR_FILENO;
    bool named = output_file_name(path, sizeof path, pattern, 0) != 0,
         kept = named && is_kept(path);
    if (!named)
        errno = fault_of_name(path);
    int file = named && !kept ? open_as_it_is(path, O_CREAT | O_APPEND) : -1;
    if (file >= 0)
        return file;
    format(line, sizeof line, "poolcuda: %s=\"%.80s\": cannot be %s (%s), using standard error",
           option, pattern, kept ? "appended to" : "opened",
           kept ? "a report or a trace" : output_file_fault(errno).text);
    say(line);
    return STDERR_FILENO;
}

/* strerror() may allocate, and takes the locale's lock. */
static const struct {
    int error;
    char words[40];
} faults[] = {
    {EISDIR, "a folder"},
    {ENXIO, "a pipe that nobody reads, or a socket"},
    {ENOENT, "no such file or folder"},
    {ENOTDIR, "a part of the path is no folder"},
    {EACCES, "permission denied"},
    {EPERM, "not permitted"},
    {EROFS, "a file system that is read-only"},
    {ENOSPC, "no space left on the device"},
    {EDQUOT, "the disk quota is used up"},
    {EFBIG, "beyond the limit for files"},
    {EMFILE, "too many files are open"},
    {ENFILE, "too many files are open on this machine"},
    {EBADF, "no such descriptor"},
    {ENAMETOOLONG, "the name is too long"},
    {NO_NAME, "the name is empty"},
    {ELOOP, "too many symbolic links"},
    {EEXIST, "all names are taken"},
    {EPIPE, "a pipe that nobody reads any more"},
    {EAGAIN, "its reader takes nothing"},
    {ENOMEM, "out of memory"},
    {EIO, "an input or output error"},
};

struct output_file_fault output_file_fault(int error) {
    struct output_file_fault fault;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (faults[i].error == error) {
            format(fault.text, sizeof fault.text, "%s", faults[i].words);
            return fault;
        }
    format(fault.text, sizeof fault.text, "error %d", error);
    return fault;
}

/* A pipe that took nothing throughout the wait for it. It is not waited for again. */
static _Atomic int stalled = -1;

/* Whether the file takes something now. The program's own pipe may be one at which a write waits.
 */
static bool is_ready(int file) {
    enum { PATIENCE_MS = 1000 };
    bool ready = raw_wait_to_write(file, atomic_load(&stalled) == file ? 0 : PATIENCE_MS);
    if (!ready)
        atomic_store(&stalled, file);
    return ready;
}

static bool write_all(int file, const char *bytes, size_t size) {
    while (size) {
        size_t part = size < PIPE_BUF ? size : PIPE_BUF; /* a pipe that is ready takes as much */
        if (!is_ready(file)) {
            errno = EAGAIN;
            return false;
        }
        /* write() is a place where a thread may be cancelled: our locks would never be dropped */
        long written = syscall(SYS_write, file, bytes, part);
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        } else if (written == 0 || (errno != EAGAIN && errno != EINTR)) {
            return false;
        }
    }
    return true;
}

enum { WATCHED = 64 }; /* more than RAW_KEPT_FROM, where our files are */
static bool shut_in;
static uint64_t safe; /* once shut in: descriptors to which a write is no signal */

static bool is_ignored(int signal) {
    const size_t of_set = sizeof(uint64_t);
    void *action[8] = {0}; /* the kernel's begins with the handler */
    return syscall(SYS_rt_sigaction, signal, NULL, action, of_set) == 0 &&
           action[0] == (void *)SIG_IGN; // NOLINT(performance-no-int-to-ptr)
}

bool output_file_may_write_later(int file) {
    struct stat status;
    if (raw_fstat(file, &status) != 0)
        return false;
    if (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))
        return is_ignored(SIGPIPE);
    return !S_ISREG(status.st_mode) || raw_may_be_as_long(RLIM_INFINITY) || is_ignored(SIGXFSZ);
}

void output_file_shut_in(void) {
    for (int file = 0; file < WATCHED; file++)
        if (output_file_may_write_later(file))
            safe |= (uint64_t)1 << file;
    shut_in = true;
}

static bool is_signal(int file) {
    return shut_in && (file < 0 || file >= WATCHED || !(safe >> file & 1));
}

/* The kernel has 64 signals. Two of them answer a write: one that nobody reads, and one beyond the
 * limit for files. */
bool output_file_write(int file, const void *bytes, size_t size) {
    const uint64_t answers = SIGNALS_ONE(SIGPIPE) | SIGNALS_ONE(SIGXFSZ);
    const struct timespec now = {0, 0};
    uint64_t before = 0, pending = 0;
    bool signals = is_signal(file);
    if (signals || is_programs_own(file)) {
        errno = signals ? EPIPE : EBADF;
        return false;
    }
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &answers, &before, sizeof answers);
    if (before & answers)
        syscall(SYS_rt_sigpending, &pending, sizeof pending);
    bool done = write_all(file, bytes, size);
    int error = errno;
    uint64_t answer = error == EPIPE   ? SIGNALS_ONE(SIGPIPE)
                      : error == EFBIG ? SIGNALS_ONE(SIGXFSZ)
                                       : 0;
    if (!done && answer && !(pending & answer))
        syscall(SYS_rt_sigtimedwait, &answer, NULL, &now, sizeof answer);
    signals_let_come(before);
    errno = error;
    return done;
}
