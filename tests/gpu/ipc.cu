// Shares device memory with another process, several times at what is probably the same address.
// The child is this program again; it talks through its standard input and output.
#include "gpu_program.cuh"

#include <cstring>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1 << 20, ROUNDS = 6, PATIENCE_MS = 30000 };

struct answer {
    int code; // cudaError_t of the open
    uint64_t hash;
};

static bool read_all(int descriptor, void *data, size_t bytes) {
    char *at = (char *)data;
    while (bytes > 0) {
        struct pollfd wait = {descriptor, POLLIN, 0};
        if (poll(&wait, 1, PATIENCE_MS) != 1) {
            return false;
        }
        ssize_t got = read(descriptor, at, bytes);
        if (got <= 0) {
            return false;
        }
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool write_all(int descriptor, const void *data, size_t bytes) {
    return write(descriptor, data, bytes) == (ssize_t)bytes;
}

static int child() {
    cudaIpcMemHandle_t handle;
    while (read_all(0, &handle, sizeof handle)) {
        uint32_t *shared = nullptr;
        struct answer answer = {0, 0};
        answer.code =
            (int)cudaIpcOpenMemHandle((void **)&shared, handle, cudaIpcMemLazyEnablePeerAccess);
        if (answer.code == cudaSuccess) {
            answer.hash = hash_device(HASH_START, shared, COUNT * sizeof *shared);
            transform<<<GRID, THREADS>>>(shared, shared, COUNT, 11);
            CUDA_OK(cudaDeviceSynchronize());
            CUDA_OK(cudaIpcCloseMemHandle(shared));
        }
        if (!write_all(1, &answer, sizeof answer)) {
            return 1;
        }
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "--child") == 0) {
        return child();
    }
    int to_child[2], from_child[2];
    REQUIRE(pipe(to_child) == 0 && pipe(from_child) == 0);
    pid_t pid = fork(); // before the first CUDA call of this process
    REQUIRE(pid >= 0);
    if (pid == 0) {
        dup2(to_child[0], 0);
        dup2(from_child[1], 1);
        for (int descriptor : {to_child[0], to_child[1], from_child[0], from_child[1]}) {
            close(descriptor);
        }
        execl("/proc/self/exe", "ipc", "--child", (char *)nullptr);
        _exit(127);
    }
    close(to_child[0]);
    close(from_child[1]);
    double start = seconds_now();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t *shared;
        CUDA_OK(cudaMalloc(&shared, COUNT * sizeof *shared));
        fill<<<GRID, THREADS>>>(shared, COUNT, round);
        CUDA_OK(cudaDeviceSynchronize());
        cudaIpcMemHandle_t handle;
        cudaError_t code = cudaIpcGetMemHandle(&handle, shared);
        if (code != cudaSuccess) {
            printf("skip no IPC here: cudaIpcGetMemHandle gives %s\n", cudaGetErrorName(code));
            return EXIT_SKIPPED;
        }
        struct answer answer;
        REQUIRE(write_all(to_child[1], &handle, sizeof handle));
        REQUIRE(read_all(from_child[0], &answer, sizeof answer));
        if (answer.code != cudaSuccess && round == 0) {
            printf("skip no IPC here: cudaIpcOpenMemHandle gives %s\n",
                   cudaGetErrorName((cudaError_t)answer.code));
            return EXIT_SKIPPED;
        }
        uint64_t after = hash_device(HASH_START, shared, COUNT * sizeof *shared);
        result("ipc %u code %d child saw %016llx parent saw %016llx", round, answer.code,
               (unsigned long long)answer.hash, (unsigned long long)after);
        CUDA_OK(cudaFree(shared));
        // A block of the same size in between: its memory must not be the child's any more.
        uint32_t *other;
        CUDA_OK(cudaMalloc(&other, COUNT * sizeof *other));
        CUDA_OK(cudaMemset(other, 0, COUNT * sizeof *other));
        CUDA_OK(cudaFree(other));
    }
    time_line("loop", seconds_now() - start);
    close(to_child[1]);
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    result("child exit %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 0;
}
