/* Two threads, each with a stream, each allocating in its own loop; half of the blocks are freed by
 * the other thread. */
#include "sample.h"

#include <pthread.h>

enum { THREADS = 2, HANDED_OVER = 64 };

struct worker {
    const struct kernels *kernels;
    int rounds, number;
    uint64_t checksum;
    struct worker *other;
    pthread_mutex_t lock;
    void *handed[HANDED_OVER]; /* by the other thread, for this one to free */
    int count;
};

static void hand_over(struct worker *to, void *pointer) {
    pthread_mutex_lock(&to->lock);
    int full = to->count == HANDED_OVER;
    if (!full)
        to->handed[to->count++] = pointer;
    pthread_mutex_unlock(&to->lock);
    if (full)
        CHECK(cudaFree(pointer));
}

static void free_handed(struct worker *worker) {
    pthread_mutex_lock(&worker->lock);
    while (worker->count)
        CHECK(cudaFree(worker->handed[--worker->count]));
    pthread_mutex_unlock(&worker->lock);
}

static void *work(void *data) {
    struct worker *worker = data;
    cudaStream_t stream;
    void *sum;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&sum, 8));
    for (int i = 0; i < worker->rounds; i++) {
        uint64_t count = 50000 + (uint64_t)(i % 7) * 1000;
        void *a, *b;
        CHECK(cudaMalloc(&a, count * 4));
        CHECK(cudaMalloc(&b, count * 4));
        fill_u32(worker->kernels, a, count, (uint32_t)(i + worker->number), stream);
        fill_u32(worker->kernels, b, count, 3, stream);
        add_u32(worker->kernels, b, a, b, count, stream);
        worker->checksum = mix(worker->checksum, sum_u32(worker->kernels, b, count, sum, stream));
        CHECK(cudaFree(a));
        hand_over(worker->other, b);
        free_handed(worker);
    }
    CHECK(cudaFree(sum));
    CHECK(cudaStreamDestroy(stream));
    return NULL;
}

int main(int argc, char **argv) {
    int rounds = argument(argc, argv, 1, 200);
    struct kernels kernels = kernels_load();
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    double started = now_seconds();
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .kernels = &kernels, .rounds = rounds, .number = i, .other = &workers[1 - i]};
        pthread_mutex_init(&workers[i].lock, NULL);
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, &workers[i]))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        free_handed(&workers[i]);
    finish("threads", mix(workers[0].checksum, workers[1].checksum), started);
    return 0;
}
