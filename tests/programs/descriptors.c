/* Does with descriptors what daemons and test runners do, while it uses the GPU. By the argument:
 *
 *   reuses   closes all its descriptors from 2 on and opens files of its own, mine.N, which get
 *            their numbers, each at the position of the one that was there
 *   socket   the same, and standard error becomes a socket, in which nothing may arrive
 *   numbers  tells which numbers the next files that it opens get
 *   handled  says so when it gets a SIGPIPE
 *   pending  blocks SIGPIPE and has one pending, which is not to go away
 *
 * Else it leaves SIGPIPE as it is by default. In between and afterwards it does what is reported:
 * it runs out of memory and leaks a block. */
#include "program.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS = 64 };

static void be_reported(void) {
    void *pointer;
    REQUIRE(cudaMalloc(&pointer, 1 << 20) == cudaSuccess);
    REQUIRE(cudaMalloc(&pointer, (size_t)1 << 60) == cudaErrorMemoryAllocation);
    REQUIRE(cudaMalloc(&pointer, 1 << 20) == cudaSuccess);
    REQUIRE(cudaFree(pointer) == cudaSuccess);
}

static void take_numbers(int socket) {
    off_t places[DESCRIPTORS];
    char name[32];
    const int first = socket < 0 ? STDERR_FILENO : STDERR_FILENO + 1;
    for (int file = first; file < DESCRIPTORS; file++) {
        places[file] = lseek(file, 0, SEEK_CUR);
        if (file != socket)
            close(file);
    }
    for (int file = first; file < DESCRIPTORS; file++) {
        if (file == socket)
            continue;
        snprintf(name, sizeof name, "mine.%d", file);
        int mine = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        REQUIRE(mine >= 0 && (socket >= 0 || mine == file));
        REQUIRE(places[file] <= 0 || (ftruncate(mine, places[file]) == 0 &&
                                      lseek(mine, places[file], SEEK_SET) == places[file]));
    }
}

static void tell_numbers(void) {
    for (int i = 0; i < 8; i++)
        printf("%d ", open("/dev/null", O_RDONLY));
    printf("\n");
}

static int ours; /* the other end of the socket */

static void take_socket(void) {
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    ours = pair[0];
    REQUIRE(dup2(pair[1], STDERR_FILENO) == STDERR_FILENO);
    take_numbers(ours);
}

static void say_signal(int number) {
    (void)number;
    REQUIRE(write(STDOUT_FILENO, "SIGPIPE\n", 8) == 8);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    sigset_t pipe_signal, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    signal(SIGPIPE, strcmp(mode, "handled") == 0 ? say_signal : SIG_DFL);
    be_reported();
    if (strcmp(mode, "reuses") == 0)
        take_numbers(-1);
    else if (strcmp(mode, "socket") == 0)
        take_socket();
    else if (strcmp(mode, "numbers") == 0)
        tell_numbers();
    if (strcmp(mode, "pending") == 0) {
        sigprocmask(SIG_BLOCK, &pipe_signal, NULL);
        raise(SIGPIPE);
    }
    be_reported();
    if (strcmp(mode, "pending") == 0) {
        sigpending(&pending);
        REQUIRE(sigismember(&pending, SIGPIPE));
    }
    if (strcmp(mode, "socket") == 0) {
        char byte;
        REQUIRE(recv(ours, &byte, 1, MSG_DONTWAIT) < 0);
    }
    puts("done");
    return 0;
}
