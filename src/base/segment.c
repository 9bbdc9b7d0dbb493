#include "base/segment.h"

#include <stdint.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    void *segment = attach(number, writable ? 0 : SHM_RDONLY);
    if (segment)
        syscall(SYS_madvise, segment, size, MADV_DONTFORK);
    return segment;
}

void segment_leave(void *segment, size_t size) {
    munmap(segment, size);
}

void segment_let_end(int number) {
    syscall(SYS_shmctl, number, IPC_RMID, NULL);
}
