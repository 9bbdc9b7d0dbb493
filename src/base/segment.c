#include "base/segment.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What is joined. Invariant: a slot is its thread's, and free without one; what has memory is
 * mapped there. A table, as a signal's handler may leave any function here with longjmp: that costs
 * a slot. */
enum { SLOTS = 256 };
static struct {
    _Atomic(const char *) thread; /* the address of its own_thread */
    _Atomic(void *) memory;
    _Atomic size_t size;
} slots[SLOTS];
static _Thread_local char own_thread __attribute__((tls_model("initial-exec")));

/* A slot for this thread; SLOTS: there is none. */
static int take_slot(void) {
    int i = 0;
    const char *nobody = NULL;
    while (i < SLOTS && !atomic_compare_exchange_strong(&slots[i].thread, &nobody, &own_thread)) {
        nobody = NULL;
        i++;
    }
    return i;
}

static void free_slot(int i) {
    atomic_store(&slots[i].memory, NULL);
    atomic_store(&slots[i].thread, NULL);
}

static void *put_zeros(void *at, size_t size, int access) {
    return mmap(at, size, access, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void *attach(int number, int flags) {
    long address = syscall(SYS_shmat, number, NULL, flags);
    return address == -1 ? NULL : (void *)address;
}

void *segment_make(size_t size, int *number) {
    *number = (int)syscall(SYS_shmget, IPC_PRIVATE, size, IPC_CREAT | 0600);
    if (*number < 0)
        return NULL;
    void *segment = attach(*number, 0);
    if (!segment)
        segment_let_end(*number);
    return segment;
}

void *segment_join(int number, size_t size, bool writable, uint32_t owner) {
    struct shmid_ds status;
    if (syscall(SYS_shmctl, number, IPC_STAT, &status) != 0 || status.shm_segsz < size ||
        status.shm_perm.uid != owner)
        return NULL;
    int slot = take_slot();
    if (slot == SLOTS)
        return NULL;
    void *segment = attach(number, writable ? 0 : SHM_RDONLY);
    if (!segment) {
        free_slot(slot);
        return NULL;
    }
    atomic_store(&slots[slot].size, size);
    atomic_store(&slots[slot].memory, segment); /* before a child may not have it */
    syscall(SYS_madvise, segment, size, MADV_DONTFORK);
    return segment;
}

/* A fork may come between any two of these. Until the last the addresses are nobody else's. */
void segment_leave(void *segment, size_t size) {
    put_zeros(segment, size, PROT_NONE);
    for (int i = 0; i < SLOTS; i++)
        if (atomic_load(&slots[i].memory) == segment)
            free_slot(i);
    munmap(segment, size);
}

void segment_forget_after_fork(void) {
    for (int i = 0; i < SLOTS; i++) {
        void *memory = atomic_load(&slots[i].memory);
        if (atomic_load(&slots[i].thread) != &own_thread)
            free_slot(i);
        else if (memory)
            put_zeros(memory, atomic_load(&slots[i].size), PROT_READ | PROT_WRITE);
    }
}

void segment_let_end(int number) {
    syscall(SYS_shmctl, number, IPC_RMID, NULL);
}
