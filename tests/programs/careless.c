/* Programs that know nothing of the pool do to it what they do to any file or process. By the
 * argument:
 *
 *   closes    closes all descriptors it does not know, writes a file of its own, `mine`
 *   forks     the same, and a forked child ends before
 *   clones    a child of a bare clone() ends by exit(), then allocates on
 *   exits     ends by _exit
 *   limited   may write no file any more, and allocates 160 MiB; prints the result
 *   moved     its executable is renamed to `moved` while it runs; waits for a line */
#include "program.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DESCRIPTORS = 64, LARGE = 160 << 20 };

static void allocate_and_free(size_t bytes) {
    void *pointer;
    REQUIRE(cudaMalloc(&pointer, bytes) == cudaSuccess);
    REQUIRE(cudaFree(pointer) == cudaSuccess);
}

static void write_file(bool after_child) {
    for (int file = STDERR_FILENO + 1; file < DESCRIPTORS; file++)
        close(file);
    FILE *mine = fopen("mine", "w");
    REQUIRE(mine);
    for (int line = 0; line < 100000; line++)
        fputs("precious\n", mine);
    REQUIRE(fflush(mine) == 0);
    pid_t child = after_child ? fork() : -1;
    if (child == 0)
        _exit(fcntl(fileno(mine), F_GETFD) < 0); /* whether it is still open here */
    int status = 0;
    REQUIRE(child < 0 || (waitpid(child, &status, 0) == child && status == 0));
}

static void clone_barely(void) {
    long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    int status;
    if (child == 0)
        exit(0);
    REQUIRE(waitpid((pid_t)child, &status, 0) == child && status == 0);
    for (size_t i = 1; i <= ROUNDS; i++)
        allocate_and_free(1000 * i);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "limited") == 0) {
        void *pointer;
        struct rlimit none = {0, 0};
        allocate_and_free(1 << 20); /* the simulated device is a file */
        REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
        fprintf(stderr, "%d\n", (int)cudaMalloc(&pointer, LARGE));
        return 0;
    }
    allocate_and_free(1 << 20);
    if (strcmp(mode, "closes") == 0 || strcmp(mode, "forks") == 0)
        write_file(mode[0] == 'f');
    else if (strcmp(mode, "clones") == 0)
        clone_barely();
    else if (strcmp(mode, "exits") == 0)
        _exit(0);
    else if (strcmp(mode, "moved") == 0 && rename(argv[0], "moved") == 0 && puts("moved") >= 0)
        fflush(stdout), getchar();
    puts("done");
    return 0;
}
