/* Shuts itself in by a filter that ends the process at every system call which the simulated driver
 * does not make by itself, nor a program that ends. By the argument:
 *
 *   after   once it has used CUDA
 *   before  before it has, but for having loaded the driver
 *   refused as a program for which somebody else has set a filter, which refuses those calls: only
 *           root can set one without prctl
 * Then it makes all calls. */
#include "all_calls.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int driver_makes[] = {
    SYS_futex,           SYS_fallocate, SYS_mmap,           SYS_munmap,     SYS_mprotect,
    SYS_madvise,         SYS_brk,       SYS_rt_sigprocmask, SYS_clone3,     SYS_clone,
    SYS_set_robust_list, SYS_rseq,      SYS_exit,           SYS_exit_group, SYS_write,
    SYS_memfd_create,    SYS_ftruncate, SYS_rt_sigaction,   SYS_getrandom,  SYS_getpid};

static void shut_in(unsigned otherwise) {
    enum { CALLS = sizeof driver_makes / sizeof driver_makes[0] };
    struct sock_filter filter[2 * CALLS + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short length = 1;
    for (int i = 0; i < CALLS; i++) {
        filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                        (unsigned)driver_makes[i], 0, 1);
        filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    const struct sock_fprog program = {length, filter};
    if (otherwise != SECCOMP_RET_KILL_PROCESS) {
        REQUIRE(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
        return;
    }
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void nothing(void) {
}

static void tell_failures(const char *call, int result) {
    if (result && result != CUDA_ERROR_NOT_READY)
        printf("%s: %d\n", call, result);
}

int main(int argc, char **argv) {
    static const struct calls_guest guest = {nothing, tell_failures};
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    void *pointer;
    if (argc > 1 && strcmp(argv[1], "after") == 0) {
        calls_make_first(&guest);
        REQUIRE(cudaMalloc(&pointer, 3000) == cudaSuccess && cudaFree(pointer) == cudaSuccess);
        shut_in(SECCOMP_RET_KILL_PROCESS);
    } else {
        shut_in(argc > 1 && strcmp(argv[1], "refused") == 0 ? SECCOMP_RET_ERRNO | EPERM
                                                            : SECCOMP_RET_KILL_PROCESS);
        calls_make_first(&guest);
    }
    calls_make_all(&guest);
    puts("done");
    return 0;
}
