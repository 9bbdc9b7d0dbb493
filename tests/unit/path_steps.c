/* What scripts/count-path counts: the pool's calls one after the other, as a program without
 * options makes them on a fake driver. What each has executed is written where $GCOV_PREFIX says,
 * which is changed before each. */
#include "fake_driver.h"
#include "options/pool_options.h"
#include "pool/pool.h"

#include <stdio.h>
#include <stdlib.h>

void __gcov_dump(void);
void __gcov_reset(void);

/* Calls until the caches are as they stay, and those that are counted then. */
enum { WARM_UP = 200, ROUNDS = 16 };

static const struct call_site site = {.frames = {1}, .depth = 1};
static const char *folder;

static void say(const char *line) {
    fprintf(stderr, "%s\n", line);
}

/* Leaves what was executed since the last time to the step. */
static void step(const char *name) {
    static unsigned int number;
    char path[4096];

    snprintf(path, sizeof path, "%s/%s/%u", folder, name, number++);
    setenv("GCOV_PREFIX", path, 1);
    __gcov_dump();
    __gcov_reset();
}

static CUdeviceptr allocate(struct pool *pool, size_t bytes) {
    CUdeviceptr pointer = 0;

    if (pool_malloc(pool, &pointer, bytes, &site) != CUDA_SUCCESS)
        abort();
    return pointer;
}

static void release(struct pool *pool, CUdeviceptr pointer) {
    if (pool_free(pool, pointer) != CUDA_SUCCESS)
        abort();
}

int main(int count, char **arguments) {
    char *nothing[] = {NULL};
    struct options options;
    struct pool_config config;
    struct pool *pool;
    CUdeviceptr pointer;

    if (count != 2) {
        fprintf(stderr, "usage: path_steps FOLDER\n");
        return 2;
    }
    folder = arguments[1];
    options_parse(&options, nothing, say);
    config = pool_config_from(&options);
    fake_reset((uint64_t)80 << 30);
    step("before");
    pool = pool_create(&config, fake_driver());
    if (pool == NULL)
        abort();
    pointer = allocate(pool, 4096);
    step("first-use"); /* and this block stays: a context's last one is freed by a longer way */
    for (int i = 0; i < WARM_UP; i++)
        release(pool, allocate(pool, 4096));
    step("before");
    for (int i = 0; i < ROUNDS; i++) {
        pointer = allocate(pool, 4096);
        step("hit");
        release(pool, pointer);
        step("free");
    }
    for (int i = 0; i < WARM_UP; i++)
        allocate(pool, 8192);
    step("before");
    for (int i = 0; i < ROUNDS; i++) {
        allocate(pool, 8192);
        step("miss");
    }
    return 0;
}
