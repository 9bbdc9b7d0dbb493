/* To be preloaded: an allocator that holds its lock across fork, by handlers that its constructor
 * registers, as jemalloc and tcmalloc do. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *former, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take(void) {
    pthread_mutex_lock(&lock);
}

static void drop(void) {
    pthread_mutex_unlock(&lock);
}

static void start_anew(void) {
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

__attribute__((constructor)) static void begin(void) {
    pthread_atfork(take, drop, start_anew);
}

void *malloc(size_t size) {
    take();
    void *memory = __libc_malloc(size);
    drop();
    return memory;
}

void *calloc(size_t count, size_t size) {
    take();
    void *memory = __libc_calloc(count, size);
    drop();
    return memory;
}

void *realloc(void *former, size_t size) {
    take();
    void *memory = __libc_realloc(former, size);
    drop();
    return memory;
}

void *memalign(size_t alignment, size_t size) {
    take();
    void *memory = __libc_memalign(alignment, size);
    drop();
    return memory;
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    *memory = memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}

void free(void *memory) {
    take();
    __libc_free(memory);
    drop();
}
