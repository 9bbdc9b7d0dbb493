/*
 * Runs one job where nothing else on the machine can be seen or met: its processes, network,
 * /dev/shm and System V memory are its own, so that process numbers, ports and what is left behind
 * are the same in every run.
 *
 *   cage [--ends] LOG COMMAND...
 *
 * LOG gets a line of each kind:
 *   "code N" or "signal N"       how COMMAND ended
 *   "shm NAME"                   what the job left in /dev/shm
 *   "left NAME"                  a process that still ran when COMMAND had ended; it is killed
 *   "end NAME CODE MASKS FDS"    with --ends, for each process that ended: its exit status, its
 * blocked, ignored and caught signals, and the descriptors that it had open Exits with 77 if the
 * machine does not permit such a cage (it takes root).
 *
 *   cage --look
 *
 * Prints, of this process itself, the masks and descriptors as an "end" line has them: for programs
 * that start another one where --ends cannot be used, since they trace by themselves.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_PERMITTED = 77, BROKEN = 78 };

static void must(bool done, const char *what) {
    if (!done) {
        fprintf(stderr, "cage: %s: %s\n", what, strerror(errno));
        _exit(errno == EPERM ? NOT_PERMITTED : BROKEN);
    }
}

/* The value of a line "NAME:\tVALUE" of /proc/PID/status, in `value`. */
static void status_word(const char *process, const char *name, char value[64]) {
    char path[64], line[256];
    snprintf(value, 64, "?");
    snprintf(path, sizeof path, "/proc/%s/status", process);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        size_t length = strlen(name);
        if (!strncmp(line, name, length) && line[length] == ':') {
            sscanf(line + length + 1, "%63s", value);
        }
    }
    if (file) {
        fclose(file);
    }
}

static int by_number(const struct dirent **one, const struct dirent **other) {
    return atoi((*one)->d_name) - atoi((*other)->d_name);
}

static int is_number(const struct dirent *entry) {
    return entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
}

/* " 0=/dev/null 1=pipe ...": without the numbers of pipes and sockets, which no run has twice. */
static void print_descriptors(FILE *log, const char *process) {
    char folder[64], path[512], target[4096];
    struct dirent **entries = NULL;
    snprintf(folder, sizeof folder, "/proc/%s/fd", process);
    int count = scandir(folder, &entries, is_number, by_number);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length > 0) {
            target[length] = 0;
            char *number = strstr(target, ":[");
            if (number) {
                *number = 0;
            }
            fprintf(log, " %s=%s", entries[i]->d_name, target);
        }
        free(entries[i]);
    }
    free(entries);
}

static void print_state(FILE *log, const char *process) {
    static const char *const masks[] = {"SigBlk", "SigIgn", "SigCgt"};
    char value[64];
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        status_word(process, masks[i], value);
        fprintf(log, " %s=%s", masks[i], value);
    }
    print_descriptors(log, process);
    fputc('\n', log);
}

static void print_end(FILE *log, pid_t thread) {
    char process[32], group[64], name[64];
    snprintf(process, sizeof process, "%d", thread);
    status_word(process, "Tgid", group);
    if (strcmp(group, process) != 0) {
        return; /* a thread of one that goes on */
    }
    unsigned long status = 0;
    ptrace(PTRACE_GETEVENTMSG, thread, NULL, &status);
    status_word(process, "Name", name);
    fprintf(log, "end %s %#lx", name, status);
    print_state(log, process);
}

/* Lets a process that stopped go on, as it would have without us. */
static void go_on(FILE *log, pid_t thread, int status) {
    int event = status >> 16, number = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXIT) {
        print_end(log, thread);
    } else if (event == PTRACE_EVENT_STOP &&
               (number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU)) {
        ptrace(PTRACE_LISTEN, thread, NULL, NULL);
        return;
    }
    ptrace(PTRACE_CONT, thread, NULL, (long)(event ? 0 : number));
}

static int await_job(FILE *log, pid_t job) {
    for (;;) {
        int status;
        pid_t process = waitpid(-1, &status, __WALL);
        if (process < 0 && errno == EINTR) {
            continue;
        }
        must(process > 0, "waiting");
        if (WIFSTOPPED(status)) {
            go_on(log, process, status);
        } else if (process == job) {
            return status;
        }
    }
}

static void print_left(FILE *log) {
    struct dirent **entries = NULL;
    int count = scandir("/proc", &entries, is_number, by_number);
    for (int i = 0; i < count; i++) {
        char name[64], state[64];
        status_word(entries[i]->d_name, "Name", name);
        status_word(entries[i]->d_name, "State", state);
        if (atoi(entries[i]->d_name) > 1 && state[0] != 'Z' && state[0] != 'X' && state[0] != '?') {
            fprintf(log, "left %s\n", name);
        }
        free(entries[i]);
    }
    free(entries);
}

static void print_shared_memory(FILE *log) {
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] != '.') {
            fprintf(log, "shm %s\n", entry->d_name);
        }
    }
    if (folder) {
        closedir(folder);
    }
}

static void start_loopback(void) {
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int number = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (number >= 0) {
        ioctl(number, SIOCSIFFLAGS, &request);
        close(number);
    }
}

static pid_t start_job(char **command, bool ends) {
    int gate[2];
    char byte = 0;
    must(!pipe2(gate, O_CLOEXEC), "pipe");
    pid_t job = fork();
    must(job >= 0, "fork");
    if (!job) {
        close(gate[1]);
        setsid();
        (void)!read(gate[0], &byte, 1);
        execvp(command[0], command);
        fprintf(stderr, "cage: %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    close(gate[0]);
    if (ends) {
        must(!ptrace(PTRACE_SEIZE, job, NULL,
                     (long)(PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                            PTRACE_O_TRACEEXIT)),
             "ptrace");
    }
    close(gate[1]);
    return job;
}

/* The first process of the new system: whatever loses its parent is its child. */
static int first_process(const char *path, char **command, bool ends) {
    must(!mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "mounting /proc");
    must(!mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"),
         "mounting /dev/shm");
    start_loopback();
    FILE *log = fopen(path, "we");
    must(log, path);
    int status = await_job(log, start_job(command, ends));
    print_left(log);
    print_shared_memory(log);
    fprintf(log, WIFSIGNALED(status) ? "signal %d\n" : "code %d\n",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return fclose(log) ? BROKEN : 0; /* with this process all others end */
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--look")) {
        print_state(stdout, "self");
        return 0;
    }
    bool ends = argc > 1 && !strcmp(argv[1], "--ends");
    char **arguments = argv + 1 + ends;
    if (argc < 3 + ends) {
        fprintf(stderr, "cage: expected [--ends] LOG COMMAND...\n");
        return 2;
    }
    must(!unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC),
         "namespaces of its own");
    must(!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
    pid_t first = fork();
    must(first >= 0, "fork");
    if (!first) {
        _exit(first_process(arguments[0], arguments + 1, ends));
    }
    int status;
    while (waitpid(first, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN;
}
