/* Does what it reads, line by line on standard input, and says after each line how it went:
 *
 *   alloc N BYTES, free N   block N, from 0; prints the driver's result
 *   api                     small blocks come from poolcuda_malloc from now on
 *   limit BYTES             sets its own limit on idle memory
 *   sites COUNT             allocates and frees at COUNT different sites
 *   churn                   allocates and frees a small block until the next line
 *   busy, done              between the two the device works
 *   capture, captured       between the two a stream is being captured
 *   fork                    a child tries to allocate and waits; the next line makes it end
 *   apart NUMBER            goes into an IPC namespace of its own, and makes a segment of that
 * number again                   becomes the same program anew, by exec kill dies of SIGKILL
 *
 * At the end of its input it ends. */
#include "driver/cuda_api.h"
#include "poolcuda.h"
#include "program.h"

#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { BLOCKS = 16, SMALL = 4096 };

static CUdeviceptr blocks[BLOCKS];
static CUstream stream, capturing;
static atomic_bool released;

static void start(void) {
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
}

static void *(*api_malloc)(ssize_t, int, void *); /* the library's own, once they are to be used */
static void (*api_free)(void *, ssize_t, int, void *);

static void allocate_and_free(void) {
    CUdeviceptr block;
    if (api_malloc) {
        void *pointer = api_malloc(SMALL, 0, NULL);
        REQUIRE(pointer);
        api_free(pointer, SMALL, 0, NULL);
        return;
    }
    CHECK(cuMemAlloc_v2(&block, SMALL));
    CHECK(cuMemFree_v2(block));
}

/* While there is no line to read. */
static void churn(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&input, 1, 0) == 0)
        allocate_and_free();
}

/* A depth of calls for each site, for POOLCUDA_SITE_DEPTH=2. */
__attribute__((noinline)) static void from_site(int number) {
#define SITE(n)                                                                                    \
    if (number == (n))                                                                             \
        allocate_and_free();
#define TEN(n)                                                                                     \
    SITE(n)                                                                                        \
    SITE(n + 1)                                                                                    \
    SITE(n + 2) SITE(n + 3) SITE(n + 4) SITE(n + 5) SITE(n + 6) SITE(n + 7) SITE(n + 8) SITE(n + 9)
    TEN(0) TEN(10) TEN(20) TEN(30) TEN(40) TEN(50) TEN(60) TEN(70) TEN(80) TEN(90)
}

static int set_limit(unsigned long limit, unsigned long value) {
    int (*set)(enum poolcuda_limit, uint64_t);
    *(void **)&set = dlsym(RTLD_DEFAULT, "poolcuda_set_limit");
    REQUIRE(set);
    return set((enum poolcuda_limit)limit, value);
}

static void wait_for_release(void *unused) {
    (void)unused;
    while (!atomic_load(&released))
        usleep(100);
}

static void fork_child(void) {
    int ends[2];
    char byte;
    CHECK(cuMemFree_v2(0));
    REQUIRE(pipe(ends) == 0);
    fflush(stdout);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        close(ends[1]);
        cuMemAlloc_v2(&blocks[0], SMALL); /* CUDA refuses to work in a child */
        printf("child %ld\n", (long)getpid());
        fflush(stdout);
        exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
    char line[64];
    REQUIRE(fgets(line, sizeof line, stdin));
    close(ends[1]);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

/* A number is a place and how often it was used: those before it are filled, then it is used up. */
static void go_apart(int number) {
    enum { PLACES = 32768, MOST = 1 << 20 };
    int made = -1;
    REQUIRE(unshare(CLONE_NEWIPC) == 0);
    for (int i = 0; i < MOST && made != number; i++) {
        made = shmget(IPC_PRIVATE, SMALL, IPC_CREAT | 0600);
        REQUIRE(made >= 0);
        if (made != number && made % PLACES >= number % PLACES)
            shmctl(made, IPC_RMID, NULL);
    }
    REQUIRE(made == number);
}

int main(int argc, char **argv) {
    char line[64], word[64];
    unsigned long number, bytes;
    CUgraph graph;
    (void)argc;
    setvbuf(stdin, NULL, _IONBF, 0); /* poll sees every line that was not read */
    start();
    allocate_and_free();
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        number = bytes = 0;
        REQUIRE(sscanf(line, "%63s %lu %lu", word, &number, &bytes) >= 1);
        bool names_block = strcmp(word, "alloc") == 0 || strcmp(word, "free") == 0;
        REQUIRE(!names_block || number < BLOCKS);
        int result = 0;
        if (strcmp(word, "alloc") == 0) {
            result = (int)cuMemAlloc_v2(&blocks[number], bytes);
        } else if (strcmp(word, "free") == 0) {
            result = (int)cuMemFree_v2(blocks[number]);
        } else if (strcmp(word, "api") == 0) {
            *(void **)&api_malloc = dlsym(RTLD_DEFAULT, "poolcuda_malloc");
            *(void **)&api_free = dlsym(RTLD_DEFAULT, "poolcuda_free");
            result = !api_malloc || !api_free;
        } else if (strcmp(word, "limit") == 0) {
            result = set_limit(number, bytes);
        } else if (strcmp(word, "sites") == 0) {
            for (int i = 0; i < (int)number; i++)
                from_site(i);
        } else if (strcmp(word, "busy") == 0) {
            result = (int)cuLaunchHostFunc(stream, wait_for_release, NULL);
        } else if (strcmp(word, "done") == 0) {
            atomic_store(&released, true);
            result = (int)cuStreamSynchronize(stream);
        } else if (strcmp(word, "capture") == 0) {
            result = (int)cuStreamBeginCapture_v2(capturing, CU_STREAM_CAPTURE_MODE_RELAXED);
        } else if (strcmp(word, "captured") == 0) {
            result = (int)cuStreamEndCapture(capturing, &graph);
        } else if (strcmp(word, "fork") == 0) {
            fork_child();
        } else if (strcmp(word, "apart") == 0) {
            go_apart((int)number);
        } else if (strcmp(word, "root") == 0) {
            result = chroot(".");
        } else if (strcmp(word, "user") == 0) {
            result = setgid((gid_t)number) != 0 || setuid((uid_t)number) != 0;
        } else if (strcmp(word, "leave") == 0) {
            _exit(0);
        } else if (strcmp(word, "again") == 0) {
            execv("/proc/self/exe", argv);
        } else if (strcmp(word, "kill") == 0) {
            raise(SIGKILL);
        } else {
            REQUIRE(strcmp(word, "churn") == 0);
        }
        printf("%s %lu: %d\n", word, number, result);
        fflush(stdout);
        if (strcmp(word, "churn") == 0)
            churn();
    }
    return 0;
}
